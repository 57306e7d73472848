"""Conversations and texts to go on with, in no dialect and for any engine: what endpoints make of their bodies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.answers.tools import Tool, ToolChoice
from unmask.checkpoints.sandbox import RESERVED
from unmask.errors import UnsupportedValueError
from unmask.params import GenerationParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long the answer may be where the client does not know the context: ``max_tokens`` is cut to what fits.

    ``all``: without ``max_tokens``, the answer may have all the room that the prompt leaves. ``context``: the most
    tokens that prompt and answer shall have together.
    """

    all: bool = False
    context: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Prompts to go on with as they stand: all texts, or all token ids. One of the lists is empty.

    Each gets ``copies`` answers, which with ``echo`` begin with it. ``length``: None takes ``params`` as they are.
    """

    params: GenerationParams
    texts: list[str] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    copies: int = 1
    echo: bool = False
    length: Length | None = None

    @property
    def prompts(self) -> int:
        """How many."""
        return len(self.texts) + len(self.ids)

    @property
    def answers_each(self) -> int:
        """How much a prompt asks for: its answers, of no tokens too, and beside such as have some its score."""
        scored = self.echo and self.params.logprobs is not None and self.params.max_tokens != 0
        return self.copies + scored


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What is asked for: a conversation, and how to go on with it.

    ``messages`` have the shape that chat templates take (``ChatTemplate.encode``). ``thinking``: whether the model
    shall reason before it answers; None leaves it to the template. ``effort``: how much, for templates that know of it.
    ``variables``: further ones of the template, numbers and texts. ``one_call``: no more than one call an answer.
    ``copies``: how many answers. ``prefill``: the text with which the answer begins; what comes goes on from there.
    ``length``: None takes ``params`` as they are.
    """

    messages: list[dict[str, Any]]
    params: GenerationParams
    tools: Sequence[Tool] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    one_call: bool = False
    thinking: bool | None = None
    effort: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    copies: int = 1
    prefill: str = ""
    length: Length | None = None

    @property
    def offered(self) -> Sequence[Tool]:
        """The tools that the answer may call."""
        return () if self.choice.mode == "none" else self.tools


def check_variables(variables: Mapping[str, Any], known: Collection[str] | None) -> None:
    """Raises ``UnsupportedValueError`` for one that is not for requests to say, or not ``known`` to the chat template.

    None: what it knows is not known.
    """
    for name in variables:
        reserved = name in RESERVED
        if reserved or (known is not None and name not in known):
            why = "is not for requests to say" if reserved else "is not read by this model's chat template"
            raise UnsupportedValueError(
                f"'chat_template_kwargs.{name}' {why}.", hint="Leave it out.", param=f"chat_template_kwargs.{name}"
            )


def split_prefill(turns: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """``turns`` without a last one of the assistant's, and its text, with which the answer begins.

    Raises ``UnsupportedValueError`` if it holds anything else, which cannot be gone on with.
    """
    if not turns or turns[-1]["role"] != "assistant":
        return turns, ""
    *before, last = turns
    if last.keys() != {"role", "content"}:
        raise UnsupportedValueError(
            "'messages' ends with a turn of the assistant's that holds more than text.",
            hint="Only text can be gone on with; end with a message of the user's.",
            param="messages",
        )
    return before, last["content"]


def template_call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call in an earlier answer, as chat templates take it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
