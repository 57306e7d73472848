"""What a request takes, declared where its route is: ``@needs("models")`` below ``@router.get("/v1/models")``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from unmask.serving.security import key

Need = key.Scope | Literal["nothing"]

_DECLARED = "unmask_needs"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def needs(what: Need) -> Callable[[Endpoint], Endpoint]:
    """Declare the scope that a key must have for an endpoint; ``nothing``: it is open to all."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _DECLARED, what)
        return endpoint

    return declare


class Needs:
    """What requests need, by the ``routes`` that will take them.

    Raises ``LookupError`` for a route that declares nothing: such a server does not start.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self.declared = [(route, _declared(route)) for route in routes]

    def of(self, scope: Scope) -> Need:
        """That of the route that a router would choose, a 405's too. What none takes needs the most."""
        partly: Need | None = None
        for route, need in self.declared:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return need
            if match is Match.PARTIAL and partly is None:
                partly = need
        return partly or "generate"


def _declared(route: BaseRoute) -> Need:
    need: Need | None = getattr(getattr(route, "endpoint", None), _DECLARED, None)
    if need is None:
        raise LookupError(f"{route} declares no scope: its endpoint takes a @needs(...) below the router's decorator.")
    return need
