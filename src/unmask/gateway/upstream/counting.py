"""How many tokens the prompt of a conversation has on a lane, without an answer to it."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from unmask.answers.chat import Chat
from unmask.errors import UpstreamError
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.gateway.upstream.failures import failure_of, told_by_response
from unmask.gateway.upstream.request import ask_chat

_SECONDS = aiohttp.ClientTimeout(total=30)
_TEMPLATE_FIELDS = ("messages", "tools", "chat_template_kwargs", "continue_final_message", "add_generation_prompt")


async def prompt_tokens(chat: Chat, endpoint: Endpoint, session: aiohttp.ClientSession) -> int | None:
    """The tokens of the prompt that ``chat`` makes; None on a kind of lane that does not count without answering.

    Raises what ``ask_chat`` raises, and what the lane says is wrong.
    """
    said: dict[str, Any] = msgspec.json.decode(ask_chat(chat, endpoint)[0].body)
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    if endpoint.kind == "llama.cpp":
        shown = {name: said[name] for name in _TEMPLATE_FIELDS if name in said}
        prompt = (await _post(session, endpoint, f"{root}/apply-template", shown)).get("prompt")
        text = {"content": prompt, "add_special": True, "parse_special": True}
        tokens = (await _post(session, endpoint, f"{root}/tokenize", text)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None
    if endpoint.kind == "vllm":
        asked = {"model": endpoint.model, **{name: said[name] for name in _TEMPLATE_FIELDS if name in said}}
        count = (await _post(session, endpoint, f"{root}/tokenize", asked)).get("count")
        return count if isinstance(count, int) else None
    return None


async def _post(session: aiohttp.ClientSession, endpoint: Endpoint, url: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        async with session.post(
            url, data=msgspec.json.encode(body), headers=endpoint.headers, timeout=_SECONDS, allow_redirects=False
        ) as response:
            said = await response.read()
            if response.status != 200:
                raise failure_of(told_by_response(response.status, response.headers, said), endpoint)
            return msgspec.json.decode(said, type=dict[str, Any])
    except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
        raise UpstreamError(
            f"Lane '{endpoint.lane}' did not count the tokens: {type(error).__name__}.", hint="See its log."
        ) from None
