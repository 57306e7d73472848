"""From answers to the response body."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from unmask.answers.answer import Answer
from unmask.answers.cells import Cells
from unmask.serving.dialects.openai_chat.logprobs import encode_logprobs
from unmask.serving.dialects.openai_chat.wire import AnswerMessage, CalledFunction, CalledTool, ChatCompletion, Choice
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.extension import GenerationReport


def encode(head: Head, answers: Sequence[Answer], cells: Cells) -> ChatCompletion:
    """All answers at once; equal to what ``ChatStream``'s chunks add up to."""
    alone = len(answers) == 1
    choices = [
        Choice(
            index=number,
            message=_message(head, number, answer),
            finish_reason=answer.finish,
            logprobs=encode_logprobs(answer.logprobs, cells),
            unmask=UNSET if alone else GenerationReport.of(answer.completion),
        )
        for number, answer in enumerate(answers)
    ]
    return ChatCompletion(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=choices,
        usage=Usage.of(answers, copies=len(answers)),
        unmask=GenerationReport.of(answers[0].completion) if alone else UNSET,
    )


def call_id(head: Head, number: int, index: int) -> str:
    """The id of the ``index``-th call of an answer: no two are alike, in whatever answer of whatever response."""
    return f"call_{head.id.rpartition('-')[2]}_{number}_{index}"


def _message(head: Head, number: int, answer: Answer) -> AnswerMessage:
    calls = [
        CalledTool(CalledFunction(call.arguments, call.name), call_id(head, number, index), "function")
        for index, call in enumerate(answer.tool_calls)
    ]
    return AnswerMessage(
        content=None if calls and not answer.content else answer.content,
        reasoning_content=answer.reasoning or UNSET,
        tool_calls=calls or UNSET,
    )
