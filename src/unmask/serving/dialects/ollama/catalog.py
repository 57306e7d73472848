"""GET /api/tags, /api/ps and /api/version, POST /api/show: the models, as Ollama's clients ask for it."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import APIRouter

from unmask import __version__
from unmask.gateway.model_state import ModelState
from unmask.params import RULE_TRAITS
from unmask.serving.body import UntypedJsonRoute
from unmask.serving.description import responses
from unmask.serving.dialects.ollama.envelope import ErrorEnvelope
from unmask.serving.dialects.ollama.names import plain, tagged
from unmask.serving.dialects.ollama.wire import ShowRequest
from unmask.serving.fields import agree
from unmask.serving.listing import Listing
from unmask.serving.models import Served
from unmask.serving.security.needs import needs

_FOREVER = "9999-12-31T23:59:59Z"

router = APIRouter(route_class=UntypedJsonRoute, responses=responses(ErrorEnvelope))


@router.get("/api/tags")
@needs("models")
async def list_models(house: Served) -> dict[str, Any]:
    """All models, and what adapters make of them."""
    return {"models": [_entry(listing) | _about(listing) for listing in house.listings()]}


@router.get("/api/ps")
@needs("models")
async def list_running(house: Served) -> dict[str, Any]:
    """Those that are loaded now, with their adapters; ``size`` is what they take in memory."""
    return {
        "models": [
            _entry(listing) | _presence(state) | {"context_length": listing.context_length}
            for entry, state in house.residents()
            if state.state == "ready"
            for listing in entry.listings
        ]
    }


def _presence(state: ModelState) -> dict[str, Any]:
    """What a loaded model takes, and when it goes: counted from now as long as it is used."""
    expires_at = state.expires_at
    if expires_at is None and state.keep_seconds is not None:
        expires_at = time.time() + state.keep_seconds
    return {
        "size": state.size_bytes,
        "size_vram": 0,
        "expires_at": _FOREVER if expires_at is None else _moment(expires_at),
    }


@router.get("/api/version")
@needs("models")
async def version() -> dict[str, Any]:
    """Ours: there is no Ollama here whose version could be told."""
    return {"version": __version__}


@router.post("/api/show")
@needs("models")
async def show(body: ShowRequest, house: Served) -> dict[str, Any]:
    """What is known of one model."""
    name = plain(house, agree("model", body.model, "name", body.name))
    listing = house.show(house.meant(name))
    return {
        "modelfile": f"FROM {listing.name}",
        "parameters": "",
        "template": listing.template,
        "details": _details(listing),
        "model_info": _model_info(listing),
    } | _about(listing)


def _model_info(listing: Listing) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "general.architecture": listing.family,
        "general.basename": listing.parent or listing.name,
        "general.parameter_count": listing.parameters,
        f"{listing.family}.context_length": listing.context_length,
        "unmask.lane": listing.lane,
        "unmask.paradigm": listing.paradigm,
    }
    if listing.canary is not None:
        facts["unmask.canary"] = listing.canary
    info = listing.info
    if info is not None:
        facts |= {
            f"{listing.family}.vocab_size": info.vocab_size,
            "unmask.block_length": info.block_length,
            "unmask.rules": {rule: RULE_TRAITS[rule].options for rule in info.rules},
            "unmask.caches": info.caches,
            "unmask.defaults": info.defaults,
        }
    return facts


def _entry(listing: Listing) -> dict[str, Any]:
    """``digest`` is that of what is told of a model: its files are not read for it."""
    digest = hashlib.sha256(msgspec.json.encode(listing)).hexdigest()
    name = tagged(listing.name)
    return {"name": name, "model": name, "size": listing.size, "digest": digest, "details": _details(listing)}


def _details(listing: Listing) -> dict[str, Any]:
    return {
        "parent_model": listing.parent or "",
        "format": "",
        "family": listing.family,
        "families": [listing.family],
        "parameter_size": _short(listing.parameters) if listing.parameters else "",
        "quantization_level": listing.precision.partition(" (")[0],
    }


def _about(listing: Listing) -> dict[str, Any]:
    return {"modified_at": _moment(listing.created), "capabilities": listing.capabilities}


def _moment(seconds: float) -> str:
    """``seconds`` since 1970, as Ollama writes times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _short(count: int) -> str:
    """``count`` as people say it: 1.5M."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)
