"""GET /v1/models and /v1/models/{id}: the one model served here."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from unmask.serving.served_model import Served, ServedModel

router = APIRouter()


@router.get("/v1/models")
async def list_models(model: Served) -> dict[str, Any]:
    """All models, of which there is one."""
    return {"object": "list", "data": [_card(model)]}


@router.get("/v1/models/{name:path}")
async def retrieve_model(name: str, model: Served) -> dict[str, Any]:
    """The model ``name``."""
    model.check_name(name)
    return _card(model)


def _card(model: ServedModel) -> dict[str, Any]:
    info = model.engine.model
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "unmask",
        "max_model_len": info.context_length,
        "unmask": {
            "paradigm": "diffusion",
            "family": info.family,
            "attention": info.attention,
            "block_length": info.block_length,
            "parameters": info.parameters,
        },
    }
