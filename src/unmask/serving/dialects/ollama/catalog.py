"""GET /api/tags, /api/ps and /api/version, POST /api/show: the model, as Ollama's clients ask for it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import APIRouter

from unmask import __version__
from unmask.params import RULE_TRAITS, ModelInfo
from unmask.serving.body import UntypedJsonRoute
from unmask.serving.description import responses
from unmask.serving.dialects.ollama.envelope import ErrorEnvelope
from unmask.serving.dialects.ollama.names import find, tagged
from unmask.serving.dialects.ollama.wire import ShowRequest
from unmask.serving.fields import agree
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served, ServedModel

_FOREVER = "9999-12-31T23:59:59Z"

router = APIRouter(route_class=UntypedJsonRoute, responses=responses(ErrorEnvelope))


@router.get("/api/tags")
@needs("models")
async def list_models(model: Served) -> dict[str, Any]:
    """The model, and what its adapters make of it."""
    listed = [
        _entry(name, info) | {"modified_at": _started(model), "capabilities": _capabilities(model)}
        for name, info in model.variants.items()
    ]
    return {"models": listed}


@router.get("/api/ps")
@needs("models")
async def list_running(model: Served) -> dict[str, Any]:
    """The same: all are loaded, and stay."""
    listed = [
        _entry(name, info) | {"expires_at": _FOREVER, "size_vram": 0, "context_length": info.context_length}
        for name, info in model.variants.items()
    ]
    return {"models": listed}


@router.get("/api/version")
@needs("models")
async def version() -> dict[str, Any]:
    """Ours: there is no Ollama here whose version could be told."""
    return {"version": __version__}


@router.post("/api/show")
@needs("models")
async def show(body: ShowRequest, model: Served) -> dict[str, Any]:
    """What is known of one model."""
    name, info = find(model, agree("model", body.model, "name", body.name))
    return {
        "modelfile": f"FROM {name}",
        "parameters": "",
        "template": model.template.source,
        "details": _details(info),
        "model_info": {
            "general.architecture": info.family,
            "general.basename": info.name,
            "general.parameter_count": info.parameters,
            f"{info.family}.context_length": info.context_length,
            f"{info.family}.vocab_size": info.vocab_size,
            "unmask.paradigm": "diffusion",
            "unmask.block_length": info.block_length,
            "unmask.rules": {rule: RULE_TRAITS[rule].options for rule in info.rules},
            "unmask.caches": info.caches,
            "unmask.defaults": info.defaults,
        },
        "capabilities": _capabilities(model),
        "modified_at": _started(model),
    }


def _entry(name: str, info: ModelInfo) -> dict[str, Any]:
    """``size`` is not known here, only how many parameters there are; ``digest`` is that of what is told of a model."""
    digest = hashlib.sha256(msgspec.json.encode(info)).hexdigest()
    return {"name": tagged(name), "model": tagged(name), "size": 0, "digest": digest, "details": _details(info)}


def _details(info: ModelInfo) -> dict[str, Any]:
    return {
        "parent_model": info.name if info.adapter else "",
        "format": "",
        "family": info.family,
        "families": [info.family],
        "parameter_size": _short(info.parameters),
        "quantization_level": info.precision.partition(" (")[0],
    }


def _capabilities(model: ServedModel) -> list[str]:
    tools = ["tools"] if model.template.exists else []
    thinking = ["thinking"] if model.syntax.reasoning is not None else []
    return ["completion", *tools, *thinking]


def _short(count: int) -> str:
    """``count`` as people say it: 1.5M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _started(model: ServedModel) -> str:
    return datetime.fromtimestamp(model.created, UTC).isoformat().replace("+00:00", "Z")
