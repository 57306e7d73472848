"""From answers to the response body."""

from __future__ import annotations

from msgspec import UNSET

from unmask.answers.answer import Answer
from unmask.answers.cells import Cells
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.dialects.openai_completions.logprobs import encode_logprobs
from unmask.serving.dialects.openai_completions.wire import Choice, CompletionResponse
from unmask.serving.extension import GenerationReport


def encode(head: Head, answers: list[Answer], copies: int, cells: Cells) -> CompletionResponse:
    """All answers at once, ``copies`` to each prompt; equal to what ``CompletionStream``'s chunks add up to."""
    reports = [GenerationReport.of(answer.completion) for answer in answers]
    alone = len(answers) == 1
    choices = [
        Choice(
            index=index,
            text=answer.content,
            finish_reason=answer.finish,
            logprobs=encode_logprobs(answer.logprobs, cells),
            unmask=UNSET if alone else report,
        )
        for index, (answer, report) in enumerate(zip(answers, reports, strict=True))
    ]
    return CompletionResponse(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=choices,
        usage=Usage.of(answers, copies),
        unmask=reports[0] if alone else UNSET,
    )
