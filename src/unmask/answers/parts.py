"""What an answer consists of, piece by piece and put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text the model wrote for itself, its markers left out."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolPiece:
    """A fragment of the ``arguments`` (JSON text) of the answer's call number ``index``, from 0.

    A call's first piece, and no other, has its ``name``; its fragment may be empty.
    """

    index: int
    arguments: str
    name: str | None = None


Part = Content | Reasoning | ToolPiece


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole call. ``arguments``: the JSON text as the model wrote it, or what there is of it if it broke off."""

    name: str
    arguments: str


def merged(parts: Iterable[Part]) -> list[Part]:
    """``parts`` with those that continue one another as one."""
    runs: list[list[Part]] = []
    for part in parts:
        if runs and _continues(runs[-1][-1], part):
            runs[-1].append(part)
        else:
            runs.append([part])
    return [_joined(run) for run in runs]


def _continues(one: Part, other: Part) -> bool:
    if isinstance(one, ToolPiece) and isinstance(other, ToolPiece):
        return one.index == other.index
    return type(one) is type(other)


def _joined(run: list[Part]) -> Part:
    first = run[0]
    if len(run) == 1:
        return first
    if isinstance(first, ToolPiece):
        return replace(first, arguments="".join(part.arguments for part in run if isinstance(part, ToolPiece)))
    return replace(first, text="".join(part.text for part in run if not isinstance(part, ToolPiece)))


@dataclass(slots=True)
class AnswerBuilder:
    """Puts an answer's parts together: the whole answer is the streamed one, and no other parse of it."""

    _content: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _arguments: list[list[str]] = field(default_factory=list)

    def add(self, part: Part) -> None:
        """The next part of the answer."""
        match part:
            case Content():
                self._content.append(part.text)
            case Reasoning():
                self._reasoning.append(part.text)
            case ToolPiece():
                if part.name is not None:
                    self._names.append(part.name)
                    self._arguments.append([])
                self._arguments[part.index].append(part.arguments)

    @property
    def content(self) -> str:
        """All content."""
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        """All reasoning."""
        return "".join(self._reasoning)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls, in the order in which they began."""
        return [ToolCall(name, "".join(pieces)) for name, pieces in zip(self._names, self._arguments, strict=True)]
