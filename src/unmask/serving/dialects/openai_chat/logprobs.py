"""The log-probabilities of a chat answer, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from unmask.answers.cells import Cells
from unmask.events import TokenLogprob
from unmask.serving.dialects.openai_chat.wire import ChatLogprobs
from unmask.serving.logprobs import encode_entries


def encode_logprobs(entries: Sequence[TokenLogprob] | None, cells: Cells) -> ChatLogprobs | None:
    """``entries`` as the answer or chunk that they belong to has them."""
    if entries is None:
        return None
    return ChatLogprobs(encode_entries(entries, cells))
