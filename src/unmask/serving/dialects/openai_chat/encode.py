"""From an outcome to the response body."""

from __future__ import annotations

from unmask.serving.dialects.openai_chat.wire import AnswerMessage, ChatCompletion, Choice
from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.generation import Outcome


def encode(head: Head, outcome: Outcome, usage: Usage) -> ChatCompletion:
    """The whole answer at once; equal to what ``ChatStream``'s chunks add up to."""
    return ChatCompletion(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=[Choice(0, AnswerMessage(outcome.text), outcome.finish)],
        usage=usage,
        unmask=outcome.report,
    )
