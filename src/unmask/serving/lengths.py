"""Lists, texts and objects of a request that are too short or too long, in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from unmask.errors import InvalidValueError

LENGTHS = ("too_short", "too_long", "string_too_short", "string_too_long")


def explain_length(kind: str, limits: Mapping[str, Any], param: str) -> InvalidValueError:
    """Pydantic's error ``kind``, one of ``LENGTHS``, of the field ``param``; ``limits`` are its context."""
    one, many = ("character", "characters") if kind.startswith("string") else _entries(param)
    if kind.endswith("long"):
        most = limits["max_length"]
        return InvalidValueError(f"'{param}' has more than {most} {many}.", hint=f"Send at most {most}.", param=param)
    least = limits["min_length"]
    if least == 1:
        return InvalidValueError(f"'{param}' is empty.", hint=f"Send at least one {one}.", param=param)
    return InvalidValueError(f"'{param}' has fewer than {least} {many}.", hint=f"Send at least {least}.", param=param)


def _entries(param: str) -> tuple[str, str]:
    """What one entry of the field is called, and several: as the field is, if that is a plural."""
    name = param.rpartition(".")[2]
    return (name[:-1], name) if re.fullmatch("[a-z]+s", name) else ("entry", "entries")
