"""The parts of an answer, as they come and put together."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text that led to the answer, and is shown apart from it."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolPiece:
    """A fragment of the ``index``-th call's arguments, which are JSON text; the first piece of a call names the tool."""

    index: int
    arguments: str
    name: str | None = None


Part = Content | Reasoning | ToolPiece


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call; ``arguments`` is the JSON text as the model wrote it, cut if the answer was."""

    name: str
    arguments: str


@dataclass(slots=True)
class AnswerBuilder:
    """All parts put together: what was not streamed is the same parse."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)

    def add(self, part: Part) -> None:
        """The next part."""
        match part:
            case Content(text):
                self.content += text
            case Reasoning(text):
                self.reasoning += text
            case ToolPiece(name=str(name), arguments=arguments):
                self.tool_calls.append(ToolCall(name, arguments))
            case ToolPiece(index=index, arguments=arguments):
                call = self.tool_calls[index]
                self.tool_calls[index] = ToolCall(call.name, call.arguments + arguments)
