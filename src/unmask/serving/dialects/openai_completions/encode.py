"""From outcomes to the response body."""

from __future__ import annotations

from msgspec import UNSET

from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.dialects.openai_completions.wire import Choice, Completion
from unmask.serving.generation import Outcome


def encode(head: Head, outcomes: list[Outcome], usage: Usage) -> Completion:
    """All completions at once; equal to what ``CompletionStream``'s chunks add up to."""
    alone = len(outcomes) == 1
    choices = [
        Choice(
            index=index,
            text=outcome.text,
            finish_reason=outcome.finish,
            unmask=UNSET if alone else outcome.report,
        )
        for index, outcome in enumerate(outcomes)
    ]
    return Completion(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=choices,
        usage=usage,
        unmask=outcomes[0].report if alone else UNSET,
    )
