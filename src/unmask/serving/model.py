"""A loaded model as the dialects see it, whatever engine it runs on."""

from __future__ import annotations

from typing import Any, Protocol

from unmask.answers.chat import Chat, Continuation
from unmask.answers.tokenized import Tokenized
from unmask.serving.admission import Admission


class Answering(Protocol):
    """What answers under the ``name`` that requests have for a model."""

    @property
    def name(self) -> str:
        """Its name on the wire."""

    @property
    def has_template(self) -> bool:
        """Whether it takes conversations."""

    async def admit_chat(self, chat: Chat, tenant: str) -> Admission:
        """``chat``, checked. Raises the error of what cannot be done, naming the parameter."""

    async def admit_texts(self, asked: Continuation, tenant: str) -> Admission:
        """``asked``, checked, like ``admit_chat``: the answers to a prompt stand next to each other."""


class Model(Answering, Protocol):
    """One model."""

    async def tokenize(self, asked: Chat | str, *, special: bool = True, pieces: bool = False) -> Tokenized:
        """The tokens of a text, or of the prompt that a conversation makes, and the text of each if ``pieces`` are
        asked for; ``special``: a text gets the token that begins one. Raises ``NotServedError`` where the engine does
        not tell.
        """

    async def detokenize(self, ids: list[int]) -> str:
        """The text of ``ids``, special tokens shown. Raises the same, and ``InvalidValueError`` for what is no id."""

    async def tokenizer_info(self) -> dict[str, Any]:
        """The tokenizer's configuration, the chat template included. Raises the same."""
