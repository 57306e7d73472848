"""The length of answers for clients that do not know the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unmask.answers.chat import Length
from unmask.errors import ContextLengthError
from unmask.params import GenerationParams, ModelInfo


def fit(params: GenerationParams, length: Length | None, prompt_tokens: int, model: ModelInfo) -> GenerationParams:
    """``params`` with the ``max_tokens`` that ``length`` makes of them beside a prompt.

    Without any room they stay as they are, to be refused like any others that do not fit. Raises ``ContextLengthError``
    if it is the client's own limit that has no room.
    """
    if length is None:
        return params
    limit = min(length.context or model.context_length, model.context_length)
    room = limit - prompt_tokens
    if room < 1:
        if limit < model.context_length:
            raise no_room(prompt_tokens, limit)
        return params
    asked = params.max_tokens
    if asked is None:
        asked = room if length.all else model.max_tokens
    return replace(params, max_tokens=min(asked, room))


def check_count(ids: Sequence[int], room: int, name: str, param: str) -> None:
    """Raises ``ContextLengthError`` for more ids than a model has room for. To be asked before each is looked at."""
    if len(ids) > room:
        raise ContextLengthError(f"{len(ids)} token ids; {name} has room for {room}.", hint="Send fewer.", param=param)


def no_room(prompt_tokens: int, context: int) -> ContextLengthError:
    """The error of a prompt that fills the ``context`` that the client wants."""
    return ContextLengthError(
        f"{prompt_tokens} prompt tokens leave no room for an answer in 'context', which is {context}.",
        hint="Shorten the prompt, or leave 'context' out.",
        param="context",
    )
