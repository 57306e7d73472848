"""Why a model is not served."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.errors import UnmaskError


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error's ``code`` and ``message``, and what to do."""

    code: str
    message: str
    remedy: str

    @classmethod
    def of(cls, error: UnmaskError) -> Refusal:
        """``error`` as the reason."""
        return cls(error.code, error.message, error.hint)

    def error(self) -> UnmaskError:
        """The error itself, for who asks for the model all the same."""
        return UnmaskError.from_code(self.code, self.message, self.remedy)
