"""Stop strings, as bodies hold them: few and short, since each is looked for after every token."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

StopString = Annotated[str, Field(min_length=1, max_length=1024)]
StopStrings = Annotated[list[StopString], Field(max_length=16, fail_fast=True)]


def _is_list(value: Any) -> str:
    return "<many>" if isinstance(value, list) else "<one>"


Stop = Annotated[Annotated[StopString, Tag("<one>")] | Annotated[StopStrings, Tag("<many>")], Discriminator(_is_list)]


def parse_stop(stop: str | list[str] | None) -> tuple[str, ...]:
    """The stop strings; one string is a list of one."""
    if stop is None:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(stop)
