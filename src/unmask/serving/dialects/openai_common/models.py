"""GET /v1/models and /v1/models/{id}: what is served here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
from fastapi import APIRouter

from unmask.params import RULE_TRAITS, ModelInfo
from unmask.serving.description import responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.house import House
from unmask.serving.listing import Listing
from unmask.serving.models import Served
from unmask.serving.security.needs import needs

router = APIRouter(responses=responses(ErrorEnvelope))


@router.get("/v1/models")
@needs("models")
async def list_models(house: Served) -> dict[str, Any]:
    """All models, and what adapters make of them; besides, why others that the server was given are not served."""
    listed = {"object": "list", "data": [_card(listing) for listing in house.listings()]}
    return listed | ({"unmask": {"refused": _refused(house)}} if house.refused else {})


@router.get("/v1/models/{name:path}")
@needs("models")
async def retrieve_model(name: str, house: Served) -> dict[str, Any]:
    """The model ``name``."""
    return _card(house.show(name))


def _refused(house: House) -> dict[str, dict[str, str]]:
    told = {name: why.told() for name, why in house.refused.items()}
    return {name: {"code": why.code, "message": why.message, "hint": why.remedy} for name, why in told.items()}


def _card(listing: Listing) -> dict[str, Any]:
    return {
        "id": listing.name,
        "object": "model",
        "created": listing.created,
        "owned_by": "unmask",
        "max_model_len": listing.context_length or None,
        "parent": listing.parent,
        "unmask": {
            "paradigm": listing.paradigm,
            "lane": listing.lane,
            "family": listing.family,
            "parameters": listing.parameters or None,
            "precision": listing.precision,
        }
        | ({} if listing.info is None else _decoding(listing.info))
        | ({} if listing.canary is None else {"canary": asdict(listing.canary)}),
    }


def _decoding(info: ModelInfo) -> dict[str, Any]:
    """What requests may choose, of a model that our own engine runs."""
    return {
        "attention": info.attention,
        "block_length": info.block_length,
        "max_tokens": info.max_tokens,
        "rules": info.rules,
        "caches": info.caches,
        "rule_options": {rule: RULE_TRAITS[rule].options for rule in info.rules},
        "defaults": info.defaults,
        "service_classes": {name: msgspec.structs.asdict(one) for name, one in info.service_classes.items()},
    }
