"""GET /v1/models and /v1/models/{id}, for clients that send the header ``anthropic-version``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter

from unmask.serving.conditional_route import route_for
from unmask.serving.listing import Listing
from unmask.serving.models import Served
from unmask.serving.security.needs import needs

router = APIRouter(route_class=route_for(lambda headers: "anthropic-version" in headers), include_in_schema=False)


@router.get("/v1/models")
@needs("models")
async def list_models(house: Served) -> dict[str, Any]:
    """All models, and what adapters make of them, on one page."""
    data = [_card(listing) for listing in house.listings()]
    return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}


@router.get("/v1/models/{name:path}")
@needs("models")
async def retrieve_model(name: str, house: Served) -> dict[str, Any]:
    """The model ``name``."""
    return _card(house.show(name))


def _card(listing: Listing) -> dict[str, Any]:
    return {
        "type": "model",
        "id": listing.name,
        "display_name": listing.name,
        "created_at": datetime.fromtimestamp(listing.created, UTC).isoformat(),
        "lifecycle": "active",
        "max_input_tokens": listing.context_length,
        "max_tokens": listing.context_length,
    }
