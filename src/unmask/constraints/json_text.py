"""Expressions of compact JSON: a space may follow a colon or a comma, and there is no other white space."""

from __future__ import annotations

import json
from typing import Any

from unmask.constraints.literal import escape
from unmask.constraints.numbers import NUMBER
from unmask.constraints.schema_limits import bounded
from unmask.constraints.string_pattern import CHARACTER


def either(patterns: list[str]) -> str:
    """Any of ``patterns``."""
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(dict.fromkeys(patterns))})"


def json_literal(value: Any) -> str:
    """The one way in which ``value`` is written."""
    return escape(json.dumps(value, ensure_ascii=False))


def json_map(value: str, name: str = f'"{CHARACTER}*"') -> str:
    """An object of any number of members, each a ``name`` and a ``value``."""
    member = f"{name}: ?{value}"
    return rf"\{{(?:{member}(?:, ?{member})*)?\}}"


def json_members(members: list[tuple[str, bool]], at: str) -> str:
    """Members in order, each with whether it is required, with commas between those that are there."""
    after = ""  # what follows once something stands before it
    alone = ""  # what follows if nothing does
    for member, required in reversed(members):
        if required:
            alone = f"{member}{after}"
            after = f", ?{member}{after}"
        else:
            alone = f"(?:{member}{after}|{alone})" if alone else f"(?:{member}{after})?"
            after = f"(?:, ?{member})?{after}"
        bounded(alone, at)
    return alone


def json_items(first: list[str], more: str, least: int, most: int | None, at: str) -> str:
    """An array's inside: the ``first`` ones, then any number of ``more``, ``least`` to ``most`` in all."""
    tail = ""
    if more:
        low = max(least - len(first), 0)
        if not first:
            low, high = max(least - 1, 0), "" if most is None else most - 1
            inside = f"{more}(?:, ?{more}){{{low},{high}}}"
            return inside if least else f"(?:{inside})?"
        high = "" if most is None else most - len(first)
        tail = f"(?:, ?{more}){{{low},{high}}}"
    elif most is not None:
        first = first[:most]
    inside = tail
    for number in range(len(first) - 1, -1, -1):
        item = first[number] if number == 0 else f", ?{first[number]}"
        inside = bounded(f"{item}{inside}" if number < least else f"(?:{item}{inside})?", at)
    return inside


def any_value(depth: int) -> str:
    """Any value that nests at most ``depth`` levels."""
    scalar = f'(?:"{CHARACTER}*"|{NUMBER}|true|false|null)'
    if depth <= 0:
        return scalar
    inner = any_value(depth - 1)
    return rf"(?:{scalar}|\[(?:{inner}(?:, ?{inner})*)?\]|{any_object(depth)})"


def any_object(depth: int) -> str:
    """Any object that nests at most ``depth`` levels, itself one of them."""
    return json_map(any_value(depth - 1))
