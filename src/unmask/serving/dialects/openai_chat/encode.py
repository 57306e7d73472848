"""From a completion to the response body."""

from __future__ import annotations

from unmask.engine.completion import Completion
from unmask.engine.text import CellDecoder
from unmask.events import wire_finish
from unmask.serving.dialects.openai_chat.logprobs import encode_logprobs
from unmask.serving.dialects.openai_chat.wire import AnswerMessage, ChatCompletion, Choice
from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.extension import GenerationReport


def encode(head: Head, completion: Completion, cells: CellDecoder) -> ChatCompletion:
    """The whole answer at once; equal to what ``ChatStream``'s chunks add up to."""
    logprobs = encode_logprobs(completion.logprobs, cells)
    return ChatCompletion(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=[Choice(0, AnswerMessage(completion.text), wire_finish(completion.finish_reason), logprobs)],
        usage=Usage.of([completion]),
        unmask=GenerationReport.of(completion),
    )
