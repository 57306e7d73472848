"""/health, /ready and /metrics: what operators ask.

None of them waits for the engine: /ready asks the engine client, which knows whether its engine lives.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from unmask.serving.extension import ENGINE
from unmask.serving.models import Served
from unmask.serving.security.needs import needs

router = APIRouter()


@router.get("/health")
@needs("nothing")
async def health() -> dict[str, Any]:
    """The HTTP process lives."""
    return {"status": "ok", "server": ENGINE}


@router.get("/ready", responses={"5XX": {"description": "It does not"}})
@needs("nothing")
async def ready(house: Served) -> dict[str, Any]:
    """Requests are served; 503 otherwise."""
    house.check_ready()
    return {"status": "ready", "model": house.names[0]}


@router.get("/metrics", response_class=PlainTextResponse)
@needs("metrics")
async def metrics(house: Served) -> Response:
    """Prometheus' text format."""
    return Response(house.metrics.render(), media_type=CONTENT_TYPE_LATEST)
