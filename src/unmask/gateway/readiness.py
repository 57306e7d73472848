"""Whether a child is ready: it is ours, it is healthy, and it has really written a token.

Health alone proves nothing: llama.cpp calls itself healthy with models that it cannot write a single token with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from unmask.errors import ModelLoadFailedError, PortBusyError, UnmaskError
from unmask.gateway.plan import ChildPlan
from unmask.gateway.telling import explain_line
from unmask.shown import shown

_PAUSE_SECONDS = 0.1
_ANSWER_SECONDS = 5.0  # for answers that need no model
_MOST_BYTES = 2**16  # of an answer
_LOADING = 503
_REFUSED = (401, 403)


async def await_ready(url: str, secret: str, plan: ChildPlan) -> None:
    """Ask until the child at ``url`` is ready. Who takes requests without a secret is somebody else, and is told none.

    Raises ``PortBusyError`` if another server listens there; if the child cannot write, ``ModelLoadFailedError``,
    ``ModelUnsupportedEngineError``, or what else its words stand for. To be bounded in time by the caller.
    """
    headers = {"Authorization": f"Bearer {secret}"}
    probe, quick = plan.probe, aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    # A connection for each question: one that a server is about to close must not fail the next one.
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(force_close=True)) as session:
        await _ask_until(session, "POST", probe.path, _REFUSED, plan, json=probe.body, timeout=quick)
        await _ask_until(session, "GET", probe.health, (200,), plan, headers=headers, timeout=quick)
        forever = aiohttp.ClientTimeout(total=None)
        options: dict[str, Any] = {"json": probe.body, "headers": headers, "timeout": forever}
        answer = await _ask_until(session, "POST", probe.path, (200,), plan, **options)
    if not _wrote_a_token(answer):
        raise ModelLoadFailedError(
            f"The engine of model '{plan.name}' answers its first prompt with no token: {shown(answer)}.",
            hint="Its tokenizer does not fit, or the model ends every answer at once; convert the file anew.",
        )


async def _ask_until(
    session: aiohttp.ClientSession, method: str, path: str, wanted: tuple[int, ...], plan: ChildPlan, **options: Any
) -> str:
    """The answer with one of the statuses ``wanted``. As long as nobody answers, or says that it loads, ask again."""
    while True:
        try:
            async with session.request(method, path, allow_redirects=False, **options) as response:
                text = await _beginning(response)
        except aiohttp.ClientResponseError:  # no HTTP at all
            raise _stolen(plan) from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError):
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if response.status in wanted:
            return text
        if response.status != _LOADING:
            raise _refusal(response.status, text, wanted, plan)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _beginning(response: aiohttp.ClientResponse) -> str:
    read = bytearray()
    async for piece in response.content.iter_any():
        read += piece
        if len(read) >= _MOST_BYTES:
            break
    return bytes(read[:_MOST_BYTES]).decode(errors="replace")


def _refusal(status: int, text: str, wanted: tuple[int, ...], plan: ChildPlan) -> UnmaskError:
    """Why an answer that was not wanted means the end of waiting."""
    if wanted == _REFUSED or status in _REFUSED:  # it knows no secret, or not ours
        return _stolen(plan)
    return explain_line(text, plan.name, ModelLoadFailedError) or ModelLoadFailedError(
        f"The engine of model '{plan.name}' answers its first question with status {status}: {shown(text)}.",
        hint="Its log may tell why.",
    )


def _stolen(plan: ChildPlan) -> PortBusyError:
    return PortBusyError(
        f"What answers on the port of the engine of model '{plan.name}' does not know its secret, or asks for none.",
        hint="Another program may have taken the port: try again. An engine must refuse who does not know its secret.",
    )


def _wrote_a_token(answer: str) -> bool:
    """Whether tokens were counted, or there is text where none are counted."""
    try:
        completion: Any = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return False
    if not isinstance(completion, Mapping):
        return False
    usage, choices = completion.get("usage"), completion.get("choices")
    if isinstance(usage, Mapping) and isinstance(usage.get("completion_tokens"), int):
        return bool(usage["completion_tokens"] > 0)
    return isinstance(choices, list) and any(isinstance(one, Mapping) and one.get("text") for one in choices)
