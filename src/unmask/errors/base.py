"""What every error of the catalogue has.

Every error has a stable ``code`` (programs match on it), an HTTP ``status``, a message that says what was
wrong, and a ``hint`` that says what to do. ``param`` names the request field at fault, where there is one.
Anything that is not an ``UnmaskError`` is a bug of ours.
"""

from __future__ import annotations

from typing import ClassVar


class UnmaskError(Exception):
    """Base of the catalogue: ``code``, ``status``, ``message``, optional ``hint`` and ``param``.

    ``beside``: the other field that message or hint speak of, if ``param`` is at odds with one.
    ``retry_after``: the seconds after which the same request may be served, where that is known.
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        param: str | None = None,
        beside: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param
        self.beside = beside
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    @staticmethod
    def from_code(code: str, message: str, hint: str = "") -> UnmaskError:
        """The error of the catalogue with ``code``, as it comes back from another process."""
        kinds = {kind.code: kind for kind in UnmaskError.__subclasses__()}
        return kinds.get(code, UnmaskError)(message, hint=hint)
