"""What a check found."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "warn", "fail"]
STATUSES: tuple[Status, ...] = ("ok", "warn", "fail")  # from good to bad


class Finding(msgspec.Struct, frozen=True):
    """``check`` is what was looked at. ``fail``: Unmask does not work as it stands; ``warn``: something may not.

    ``remedy`` says what to do, also beside ``ok``, if anything can be done.
    """

    check: str
    status: Status
    message: str
    remedy: str = ""


def worst(findings: list[Finding]) -> Status:
    """How it stands with all of them."""
    return max((one.status for one in findings), key=STATUSES.index, default="ok")
