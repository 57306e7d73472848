"""GET /v1/models and /v1/models/{id}, for clients that send the header ``anthropic-version``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter

from unmask.serving.conditional_route import route_for
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served, ServedModel

router = APIRouter(route_class=route_for(lambda headers: "anthropic-version" in headers), include_in_schema=False)


@router.get("/v1/models")
@needs("models")
async def list_models(model: Served) -> dict[str, Any]:
    """The model, and what its adapters make of it, on one page."""
    names = list(model.variants)
    data = [_card(model, name) for name in names]
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


@router.get("/v1/models/{name:path}")
@needs("models")
async def retrieve_model(name: str, model: Served) -> dict[str, Any]:
    """The model ``name``."""
    return _card(model, model.find(name)[0])


def _card(model: ServedModel, name: str) -> dict[str, Any]:
    info = model.variants[name]
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": datetime.fromtimestamp(model.created, UTC).isoformat(),
        "lifecycle": "active",
        "max_input_tokens": info.context_length,
        "max_tokens": info.context_length,
    }
