"""What to start as a child, and how it is asked whether it is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How a child is asked: ``health`` is the path that answers 200 once the model is loaded; ``path`` and ``body`` ask
    for a completion of one token, which proves it.

    ``path`` must refuse requests without the child's secret: that tells the child from whoever else may listen there.
    """

    body: Mapping[str, Any]
    path: str = "/v1/completions"
    health: str = "/health"


class Sessions(Protocol):
    """What is kept of a child's conversations from one life of it to the next. Neither raises, nor takes long."""

    async def restore(self, url: str, secret: str) -> bool:
        """Give the child at ``url``, which is ready, what it had; False if it did not survive that. It is not given
        the same again.
        """

    async def save(self, url: str, secret: str) -> bool:
        """Keep what the child at ``url`` has, which is about to end; False if it does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """A child that serves the model called ``name``: its ``command`` for a port of 127.0.0.1, and how it is probed.

    ``environment`` is added to this process's own, less its ``UNMASK_*`` variables, which hold secrets of others.
    ``secret_variable`` is the one in which the child finds the secret that its requests must carry as a bearer token.
    ``start_seconds``: how long it may take until it is ready. ``sessions``: what is kept of its lives before, if
    anything is. ``own``: the words of the command line that the configuration gives this very model.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    probe: Probe
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_variable: str = "LLAMA_API_KEY"
    start_seconds: float = 180.0
    sessions: Sessions | None = None
    own: Sequence[str] = ()
