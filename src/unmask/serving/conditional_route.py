"""Routes that are there for some requests only: paths that two dialects share."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Scope


def route_for(wanted: Callable[[Headers], bool]) -> type[APIRoute]:
    """A route for requests whose headers are ``wanted``; others find the next route of its path."""

    class ConditionalRoute(APIRoute):
        def matches(self, scope: Scope) -> tuple[Match, Scope]:
            return super().matches(scope) if wanted(Headers(scope=scope)) else (Match.NONE, {})

    return ConditionalRoute
