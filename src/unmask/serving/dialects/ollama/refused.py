"""Endpoints of Ollama's that manage models or embed text: known, and not here."""

from __future__ import annotations

from fastapi import APIRouter

from unmask.errors import NotServedError
from unmask.serving.security.needs import needs

router = APIRouter(include_in_schema=False)

_FIXED = "This server serves the model that it was started with; start 'unmask serve' with another."
_REFUSED = {
    "/api/pull": _FIXED,
    "/api/push": _FIXED,
    "/api/create": _FIXED,
    "/api/copy": _FIXED,
    "/api/delete": _FIXED,
    "/api/blobs/{digest}": _FIXED,
    "/api/embed": "The model writes text; it makes no vectors of it.",
    "/api/embeddings": "The model writes text; it makes no vectors of it.",
}


def _refuse(path: str, reason: str) -> None:
    @router.api_route(path, methods=["GET", "HEAD", "POST", "DELETE"])
    @needs("generate")
    async def refused() -> None:
        raise NotServedError(f"{path.partition('/{')[0]} is not served. {reason}")


for _path, _reason in _REFUSED.items():
    _refuse(_path, _reason)
