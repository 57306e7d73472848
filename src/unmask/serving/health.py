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
    """Requests are served; 503 otherwise. ``model`` is the first that did not fail the last time; null: all did."""
    house.check_ready()
    usable = (entry.name for entry, state in house.residents() if state.state != "failed")
    return {"status": "ready", "model": next(usable, None)}


@router.get("/metrics", response_class=PlainTextResponse)
@needs("metrics")
async def metrics(house: Served) -> Response:
    """Prometheus' text format."""
    return Response(house.metrics.render(), media_type=CONTENT_TYPE_LATEST)
