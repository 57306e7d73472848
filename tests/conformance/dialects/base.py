"""What a dialect is to these tests: how to ask, and how to understand a whole answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.cases import Call, Case

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A whole answer, in no dialect's words but for its ``finish``. ``usage``: prompt and completion tokens."""

    text: str
    finish: str
    usage: tuple[int, int]
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, eq=False)
class Dialect:
    """``put`` makes of a case a request's body, None where it cannot be said; ``read`` makes an answer of a whole body.

    ``finishes``: its words for stop, length, tool_calls and "stop string". ``extension``: the path
    of our own options. ``usage_options`` make a stream tell its usage; ``done`` is its last frame, if that is none like
    the others. ``has_codes``: errors have a place for our code.
    """

    name: str
    path: str
    module: str
    put: Callable[[Case], Body | None]
    read: Callable[[Body], Answer]
    finishes: Mapping[str, str] = field(default_factory=lambda: {"stop string": "stop"})
    extension: tuple[str, ...] = ("unmask",)
    usage_options: Body = field(default_factory=dict)
    done: str | None = None
    has_codes: bool = True

    def body(self, case: Case) -> Body:
        body = self.put(case)
        assert body is not None
        return body

    def extended(self, body: Body, options: Body) -> Body:
        """``body`` with more of our own options."""
        return merged(body, nested(self.extension, options))

    def word(self, finish: str, case: Case) -> str:
        """What the dialect calls the ``finish`` of ``case``."""
        own = "stop string" if case.stop and finish == "stop" else finish
        return self.finishes.get(own, own)

    def __str__(self) -> str:
        return self.name


def present(**fields: Any) -> Body:
    """Fields that have a value: what is not asked for is not sent."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [], ())}


def nested(path: tuple[str, ...], value: Any) -> Body:
    for name in reversed(path):
        value = {name: value}
    return value


def merged(one: Body, other: Body) -> Body:
    """``other`` over ``one``, objects in objects too."""
    result = dict(one)
    for name, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result


def calls_of(pairs: list[tuple[str, str]]) -> tuple[Call, ...]:
    """Calls from their names and arguments as JSON text."""
    return tuple(Call(name, json.loads(arguments)) for name, arguments in pairs)
