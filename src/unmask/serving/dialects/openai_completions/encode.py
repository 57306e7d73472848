"""From completions to the response body."""

from __future__ import annotations

from msgspec import UNSET

from unmask.engine.completion import Completion
from unmask.engine.text import CellDecoder
from unmask.events import wire_finish
from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.dialects.openai_completions.logprobs import encode_logprobs
from unmask.serving.dialects.openai_completions.wire import Choice, CompletionResponse
from unmask.serving.extension import GenerationReport


def encode(head: Head, completions: list[Completion], cells: CellDecoder) -> CompletionResponse:
    """All completions at once; equal to what ``CompletionStream``'s chunks add up to."""
    reports = [GenerationReport.of(completion) for completion in completions]
    alone = len(completions) == 1
    choices = [
        Choice(
            index=index,
            text=completion.text,
            finish_reason=wire_finish(completion.finish_reason),
            logprobs=encode_logprobs(completion.logprobs, cells),
            unmask=UNSET if alone else report,
        )
        for index, (completion, report) in enumerate(zip(completions, reports, strict=True))
    ]
    return CompletionResponse(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=choices,
        usage=Usage.of(completions),
        unmask=reports[0] if alone else UNSET,
    )
