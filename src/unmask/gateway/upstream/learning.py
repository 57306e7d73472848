"""What a lane's server tells of its model when it is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import msgspec
from jinja2 import TemplateError, meta

from unmask.checkpoints.sandbox import TemplateSandbox
from unmask.gateway.upstream.endpoint import Endpoint

_SECONDS = aiohttp.ClientTimeout(total=10)
_PARADIGMS = ("diffusion", "autoregressive")
_MOST = 4 * 1024 * 1024  # bytes: a chat template is among them


async def learned(endpoint: Endpoint, session: aiohttp.ClientSession) -> Endpoint:
    """``endpoint`` with what its server tells of the model; what it does not tell stays as it was."""
    root = endpoint.base_url.rstrip("/")
    if endpoint.kind == "llama.cpp":
        return _from_props(endpoint, await _ask(session, f"{root.removesuffix('/v1')}/props", endpoint))
    return _from_models(endpoint, await _ask(session, f"{root}/models", endpoint))


async def _ask(session: aiohttp.ClientSession, url: str, endpoint: Endpoint) -> dict[str, Any]:
    """What stands at ``url``; nothing if that is no JSON object, or does not come."""
    try:
        async with session.get(url, headers=endpoint.headers, timeout=_SECONDS, allow_redirects=False) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > _MOST:
                    return {}
            return msgspec.json.decode(body, type=dict[str, Any]) if response.status == 200 else {}
    except (aiohttp.ClientError, OSError, ValueError, RecursionError):
        return {}


def _from_props(endpoint: Endpoint, props: dict[str, Any]) -> Endpoint:
    """llama.cpp tells of its chat template, and of the context that each request has."""
    caps, settings = _object(props.get("chat_template_caps")), _object(props.get("default_generation_settings"))
    source = props.get("chat_template")
    return replace(
        endpoint,
        tools=bool(caps.get("supports_tools", endpoint.tools)),
        variables=_variables(source) if isinstance(source, str) and source else endpoint.variables,
        context_length=_count(settings.get("n_ctx")) or endpoint.context_length,
    )


def _from_models(endpoint: Endpoint, listed: dict[str, Any]) -> Endpoint:
    """vLLM and SGLang tell how long a sequence may be, other servers do under a name of their own or not at all. One
    of Unmask's tells the paradigm.
    """
    models = listed.get("data")
    cards = [_object(card) for card in models] if isinstance(models, list) else []
    own: dict[str, Any] = next((card for card in cards if card.get("id") == endpoint.model), {})
    told = (_count(own.get(name)) for name in ("max_model_len", "context_length"))
    paradigm = _object(own.get("unmask")).get("paradigm")
    return replace(
        endpoint,
        context_length=next(filter(None, told), endpoint.context_length),
        paradigm=paradigm if paradigm in _PARADIGMS else endpoint.paradigm,
    )


def _variables(source: str) -> frozenset[str] | None:
    """The names that a chat template asks for; None if it cannot be read here, which need not mean anything."""
    try:
        return frozenset(meta.find_undeclared_variables(TemplateSandbox().parse(source)))
    except (TemplateError, RecursionError):
        return None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
