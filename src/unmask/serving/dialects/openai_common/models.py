"""GET /v1/models and /v1/models/{id}: what is served here."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter

from unmask.params import RULE_TRAITS
from unmask.serving.description import responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served, ServedModel

router = APIRouter(responses=responses(ErrorEnvelope))


@router.get("/v1/models")
@needs("models")
async def list_models(model: Served) -> dict[str, Any]:
    """The model, and what its adapters make of it."""
    return {"object": "list", "data": [_card(model, name) for name in model.variants]}


@router.get("/v1/models/{name:path}")
@needs("models")
async def retrieve_model(name: str, model: Served) -> dict[str, Any]:
    """The model ``name``."""
    return _card(model, model.find(name)[0])


def _card(model: ServedModel, name: str) -> dict[str, Any]:
    info = model.variants[name]
    return {
        "id": name,
        "object": "model",
        "created": model.created,
        "owned_by": "unmask",
        "max_model_len": info.context_length,
        "parent": model.name if info.adapter else None,
        "unmask": {
            "paradigm": "diffusion",
            "family": info.family,
            "attention": info.attention,
            "block_length": info.block_length,
            "max_tokens": info.max_tokens,
            "rules": info.rules,
            "caches": info.caches,
            "rule_options": {rule: RULE_TRAITS[rule].options for rule in info.rules},
            "defaults": info.defaults,
            "service_classes": {name: msgspec.structs.asdict(one) for name, one in info.service_classes.items()},
            "parameters": info.parameters,
            "precision": info.precision,
        },
    }
