"""What all Python drivers share: jobs in as JSON lines, and what the client saw of each out as one.

A driver runs in the environment of its client, which knows nothing of this repository.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any


class Left(Exception):
    """The job said to leave here."""


@dataclass
class Seen:
    """What a user of the client has at the end, or when it fails."""

    leave_after: int | None = None
    deltas: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    text: str | None = None  # the client's own sum, where it makes one
    reasoning: str | None = None
    calls: list[dict[str, str]] = field(default_factory=list)
    finish: str | None = None
    usage: list[int] | None = None
    frames: int = 0
    error: dict[str, Any] | None = None
    left: bool = False

    def add(self, delta: str) -> None:
        """A piece of text has come, or none. Raises ``Left`` if it is the last one that the job wants."""
        if not delta:
            return
        self.deltas.append(delta)
        print(json.dumps({"delta": delta}), flush=True)
        if self.leave_after is not None and len(self.deltas) >= self.leave_after:
            raise Left


Handler = Callable[[Any, dict[str, Any], Seen], None]


def fitting(method: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """``request`` as arguments of ``method``: fields that this version has no argument for go into ``extra_body``."""
    known = inspect.signature(method).parameters
    arguments = {name: value for name, value in request.items() if name in known}
    extra = {name: value for name, value in request.items() if name not in known}
    return arguments | ({"extra_body": extra} if extra else {})


def run(connect: Callable[..., Any], handlers: dict[str, Handler]) -> None:
    """Answer jobs until stdin ends. ``handlers`` by "dialect mode"."""
    print(json.dumps({"can": sorted(handlers)}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        seen = Seen(job["leave_after"])
        try:
            client = connect(job["url"], job["key"], job["timeout"])
            handlers[f"{job['dialect']} {job['mode']}"](client, job["request"], seen)
        except Left:
            seen.left = True
        except Exception as error:
            seen.error = describe(error)
        print(json.dumps({"seen": asdict(seen)}), flush=True)


def describe(error: Exception) -> dict[str, Any]:
    """The error as a user's ``except`` clause meets it."""
    body = getattr(error, "body", None)
    inside = body.get("error", {}) if isinstance(body, dict) else {}
    return {
        "class": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None) or inside.get("code"),
        "message": str(error),
    }
