"""A loaded model as the dialects see it, whatever engine it runs on."""

from __future__ import annotations

from typing import Protocol

from unmask.answers.chat import Chat, Continuation
from unmask.errors import NotServedError
from unmask.serving.admission import Admission
from unmask.serving.diffusion_model import DiffusionModel


class Model(Protocol):
    """One model, under the ``name`` that requests have for it."""

    @property
    def name(self) -> str:
        """Its name on the wire."""

    @property
    def weights(self) -> str:
        """What tells its weights from those of another model that had the name before."""

    @property
    def has_template(self) -> bool:
        """Whether it takes conversations."""

    async def admit_chat(self, chat: Chat, tenant: str) -> Admission:
        """``chat``, checked. Raises the error of what cannot be done, naming the parameter."""

    async def admit_texts(self, asked: Continuation, tenant: str) -> Admission:
        """``asked``, checked, like ``admit_chat``: the answers to a prompt stand next to each other."""

    async def count(self, chat: Chat) -> int:
        """The tokens of the prompt that ``chat`` makes."""

    def ours(self, what: str) -> DiffusionModel:
        """The model itself, if our own engine runs it. Else raises ``NotServedError``: ``what`` is not to be had."""


def not_ours(what: str, name: str, lane: str) -> NotServedError:
    """The error of a wish that only our own engine could fulfil, and another one serves the model."""
    return NotServedError(
        f"{what} is not to be had for '{name}': lane '{lane}' serves it.",
        hint="Ask for a model that Unmask's own engine serves.",
    )
