"""An upstream that costs nothing: a server of OpenAI's API whose answers are there already.

    python -m benchmarks.instant_upstream

Prints its URL. An answer has as many chunks as ``max_tokens``, in the shape of llama.cpp's. The model ``at-once`` sends
them as fast as it can, ``paced`` a chunk every two milliseconds, which is how tokens come from a model: one by one.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from aiohttp import web

PACE_SECONDS = 0.002
_HEAD = {"created": 1, "id": "chatcmpl-0123456789abcdef0123456789abcdef", "system_fingerprint": "b11549"}
_DONE = b"data: [DONE]\n\n"


def event(kind: str, choices: list[dict], **more: object) -> bytes:
    """One chunk on the wire."""
    return b"data: " + json.dumps({"choices": choices, **_HEAD, "object": kind, **more}).encode() + b"\n\n"


def chunks(chat: bool, count: int) -> list[bytes]:
    """An answer of ``count`` chunks with text, what is before and after them included."""
    kind = "chat.completion.chunk" if chat else "text_completion"
    said = {"delta": {"content": " token"}} if chat else {"text": " token"}
    first = {"delta": {"role": "assistant", "content": None}} if chat else {"text": ""}
    last = {"delta": {}} if chat else {"text": ""}
    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count}
    text = event(kind, [{"index": 0, "finish_reason": None, **said}])
    return [
        event(kind, [{"index": 0, "finish_reason": None, **first}]),
        *[text] * count,
        event(kind, [{"index": 0, "finish_reason": "length", **last}]),
        event(kind, [], usage=usage) + _DONE,
    ]


async def answer(request: web.Request) -> web.StreamResponse:
    """Stream one."""
    body = await request.json()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for chunk in chunks(request.path.endswith("/chat/completions"), body["max_tokens"]):
        await response.write(chunk)
        if body["model"] == "paced":
            await asyncio.sleep(PACE_SECONDS)
    return response


async def main() -> None:
    """Serve until a signal comes."""
    app = web.Application()
    app.router.add_post("/v1/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"{Path(__file__).stem} on http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
