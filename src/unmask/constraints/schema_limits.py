"""What a schema that cannot be enforced is refused with, and how long its expression may become."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.errors import UnsupportedValueError

_MAX_PATTERN = 2**18


def refusal(at: str, what: str, hint: str = "") -> UnsupportedValueError:
    """The error that says ``what`` is wrong ``at`` a place of a schema."""
    return UnsupportedValueError(
        f"The schema cannot be enforced at '{at[:200]}': {what[:200]}.", hint=hint, param="json_schema"
    )


def bounded(pattern: str, at: str) -> str:
    """``pattern``, unless it has grown too large: parts of it are written more than once."""
    if len(pattern) > _MAX_PATTERN:
        raise _too_large(at)
    return pattern


def _too_large(at: str) -> UnsupportedValueError:
    return refusal(at, f"its expression becomes longer than {_MAX_PATTERN} characters")


def together(patterns: Iterable[str], at: str) -> list[str]:
    """All of ``patterns``. Raises as soon as they have grown too large together: one that is repeated costs nothing."""
    found, length = [], 0
    for pattern in patterns:
        found.append(pattern)
        length += len(pattern)
        if length > _MAX_PATTERN:
            raise _too_large(at)
    return found
