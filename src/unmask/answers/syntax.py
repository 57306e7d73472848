"""How a model marks its reasoning and its tool calls, found in what its checkpoint says of conversations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

CallFormat = Literal["json", "gemma"]


@dataclass(frozen=True, slots=True)
class ReasoningSyntax:
    """Reasoning stands between ``open`` and ``close``.

    ``channels``: a word after ``open`` says what kind of text it is, "thought" for reasoning; such markers are tokens
    of their own that nobody writes by accident, so that they count anywhere. Others open a block only where no content
    has come before: a model may speak of them.
    """

    open: str
    close: str
    channels: bool = False


@dataclass(frozen=True, slots=True)
class ToolSyntax:
    """A call stands between ``open`` and ``close``, in the form ``format``; ``quote`` is a marker within it, if any."""

    open: str
    close: str
    format: CallFormat
    quote: str = ""


THINK = ReasoningSyntax("<think>", "</think>")
CHANNEL = ReasoningSyntax("<|channel>", "<channel|>", channels=True)
HERMES = ToolSyntax("<tool_call>", "</tool_call>", "json")
GEMMA = ToolSyntax("<|tool_call>", "<tool_call|>", "gemma", quote='<|"|>')


@dataclass(frozen=True, slots=True)
class AnswerSyntax:
    """What to look for in an answer, or nothing."""

    reasoning: ReasoningSyntax | None = None
    tools: ToolSyntax | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        """All texts that mean something: the decoder must show those of them that are special tokens."""
        found: list[str] = []
        if self.reasoning is not None:
            found += [self.reasoning.open, self.reasoning.close]
        if self.tools is not None:
            found += [self.tools.open, self.tools.close, self.tools.quote]
        return tuple(marker for marker in found if marker)

    def without_tools(self) -> AnswerSyntax:
        """The same for a request that offers no tools: what looks like a call is plain text."""
        return replace(self, tools=None)

    def opened_by(self, prompt: str) -> bool:
        """Whether ``prompt``, a rendered chat template, ends inside a reasoning block."""
        if self.reasoning is None:
            return False
        opening = f"{self.reasoning.open}thought" if self.reasoning.channels else self.reasoning.open
        return prompt.rstrip().endswith(opening)


NO_SYNTAX = AnswerSyntax()


def syntax_of(template_source: str, special_tokens: Iterable[str], family: str) -> AnswerSyntax:
    """The syntax of a checkpoint with this chat template and these special tokens.

    ``family`` decides where both or neither of two kinds are named. Tool calls of a template that names no kind of them
    are asked for, and read, in the form of Hermes.
    """
    tokens = frozenset(special_tokens)
    gemma = family == "diffusion_gemma"

    def named(*markers: str) -> bool:
        return any(marker in template_source or marker in tokens for marker in markers)

    channel, think = named(CHANNEL.open), named(THINK.open, THINK.close)
    channel = gemma if channel == think else channel
    calls, hermes = named(GEMMA.open), named(HERMES.open)
    calls = gemma if calls == hermes else calls
    return AnswerSyntax(
        reasoning=CHANNEL if channel else THINK if think else None,
        tools=GEMMA if calls else HERMES,
    )
