"""A scripted server of OpenAI's API on a real socket, and what a stream from it becomes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from unmask.answers.chat import Chat
from unmask.answers.parts import merged
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.gateway.upstream.upstream import Upstream
from unmask.params import GenerationParams

HI = [{"role": "user", "content": "hi"}]
DONE = b"data: [DONE]\n\n"
BREAK = "the connection breaks"


def event(payload, **more) -> bytes:
    return b"data: " + json.dumps(payload | more).encode() + b"\n\n"


def chunk(finish=None, *, choice=None, **delta) -> dict:
    """A chat chunk that adds ``delta``; keys of ``choice`` stand beside it."""
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish} | (choice or {})],
    }


def usage(prompt, completion, **more) -> dict:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


def stream(*payloads, done=True) -> bytes:
    return b"".join(map(event, payloads)) + (DONE if done else b"")


@dataclass
class Script:
    """What to answer a request with: bytes, seconds to wait, or ``BREAK``, one after the other."""

    steps: list = field(default_factory=list)
    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict = field(default_factory=dict)
    before: float = 0.0  # seconds before the head


@dataclass
class Fake:
    url: str
    scripts: list[Script]
    bodies: list[dict] = field(default_factory=list)
    headers: list = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    pages: dict[str, bytes] = field(default_factory=dict)  # what stands where to be read

    async def answer(self, request: web.Request) -> web.StreamResponse:
        number = len(self.bodies)
        self.bodies.append(await request.json())
        self.headers.append(request.headers)
        self.paths.append(request.path)
        script = self.scripts[min(number, len(self.scripts) - 1)]
        try:
            return await self._play(script, request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    async def page(self, request: web.Request) -> web.Response:
        if request.path not in self.pages:
            raise web.HTTPNotFound
        self.headers.append(request.headers)
        return web.Response(body=self.pages[request.path])

    async def _play(self, script: Script, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(script.before)
        response = web.StreamResponse(status=script.status, headers=script.headers)
        response.content_type = script.content_type
        await response.prepare(request)
        for step in script.steps:
            if step is BREAK:
                request.transport.abort()
            elif isinstance(step, bytes):
                await response.write(step)
            else:
                await asyncio.sleep(step)
        return response


@asynccontextmanager
async def fake(*scripts: Script) -> AsyncIterator[Fake]:
    app = web.Application()
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    server = Fake("", list(scripts))
    app.router.add_post("/{rest:.*}", server.answer)
    app.router.add_get("/{rest:.*}", server.page)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


def endpoint(url="http://127.0.0.1:1/v1", kind="vllm", **more) -> Endpoint:
    return Endpoint(lane="my-lane", kind=kind, base_url=url, model="their-name", **more)


def chat(messages=HI, copies=1, tools=(), params=None, **options) -> Chat:
    """A conversation; ``options`` that a ``Chat`` does not have are parameters."""
    own = {name: options.pop(name) for name in [*options] if name in Chat.__dataclass_fields__}
    return Chat(messages=messages, params=params or GenerationParams(**options), copies=copies, tools=tools, **own)


async def answers(request) -> list:
    """Each answer, after a check that it is what its deltas add up to."""
    parts: dict[int, list] = {number: [] for number in range(len(request))}
    done = {}
    with request:
        while len(done) < len(request):
            number, delta = await request.next()
            assert number not in done
            assert delta.parts == merged(delta.parts)
            assert all(getattr(part, "text", "-") for part in delta.parts)
            parts[number] += delta.parts
            if delta.answer is not None:
                done[number] = delta.answer
                assert merged(parts[number]) == delta.answer.parts
    return [done[number] for number in range(len(request))]


async def ask(script: Script, question: Chat | None = None, patience: Patience | None = None, **more):
    """The answers that ``script`` becomes."""
    async with fake(script) as server, opened(endpoint(server.url, **more), patience) as upstream:
        return await answers(upstream.chat(question or chat()))


@asynccontextmanager
async def opened(where: Endpoint, patience: Patience | None = None) -> AsyncIterator[Upstream]:
    upstream = Upstream(where, patience)
    try:
        yield upstream
    finally:
        await upstream.close()
