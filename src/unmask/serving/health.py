"""/health, /ready and /metrics: what operators ask.

None of them waits for the engine: /ready asks the engine client, which knows whether its engine lives.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from unmask.serving.extension import ENGINE
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served

router = APIRouter()


@router.get("/health")
@needs("nothing")
async def health() -> dict[str, Any]:
    """The HTTP process lives."""
    return {"status": "ok", "server": ENGINE}


@router.get("/ready", responses={"5XX": {"description": "It does not"}})
@needs("nothing")
async def ready(model: Served) -> dict[str, Any]:
    """The engine takes requests; 503 otherwise."""
    model.check_alive()
    return {"status": "ready", "model": model.name}


@router.get("/metrics", response_class=PlainTextResponse)
@needs("metrics")
async def metrics(model: Served) -> Response:
    """Prometheus' text format."""
    return Response(model.metrics.render(), media_type=CONTENT_TYPE_LATEST)
