"""No body within the size limit keeps the HTTP process from answering others."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest

from tests.serving.fakes import serving

MIB = 2**20


def filled(head: bytes, entry: bytes, tail: bytes) -> bytes:
    """A body of just under a MiB: ``entry`` over and over."""
    count = (MIB - len(head) - len(tail)) // (len(entry) + 1)
    return head + b",".join([entry] * count) + tail


def keys(head: bytes, value: bytes, tail: bytes) -> bytes:
    """A body full of different keys."""
    entries = [b'"%x":%b' % (number, value) for number in range(MIB // (len(value) + 10))]
    return head + b",".join(entries) + tail


CHAT, TEXT, TOKENIZE, DETOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"
PARTS = b'{"role":"user","content":[' + b",".join([b'{"type":"text","text":"7"}'] * 1000) + b"]}"
HEAVY = {
    "empty messages": (CHAT, filled(b'{"messages":[', b"{}", b"]}"), 400, "messages[0].role"),
    "many messages": (CHAT, filled(b'{"messages":[', b'{"role":"user","content":""}', b"]}"), 400, "messages"),
    "empty parts": (CHAT, filled(b'{"messages":[{"role":"user","content":[', b"{}", b"]}]}"), 400, None),
    "many parts": (CHAT, filled(b'{"messages":[', PARTS, b"]}"), 400, "messages"),
    "labels": (CHAT, keys(b'{"messages":[{"role":"user","content":""}],"metadata":{', b"1", b"}}"), 400, "metadata"),
    "unknown keys": (CHAT, keys(b'{"messages":[{"role":"user","content":""}],', b"1", b"}"), 400, "0"),
    "unknown keys of a message": (
        CHAT,
        keys(b'{"messages":[{"role":"user","content":"",', b"1", b"}]}"),
        400,
        "messages[0].0",
    ),
    "texts": (TEXT, filled(b'{"prompt":[', b'"a"', b"]}"), 400, "prompt"),
    "wrong texts": (TEXT, filled(b'{"prompt":["",', b"1", b"]}"), 400, "prompt[1]"),
    "ids": (TEXT, filled(b'{"prompt":[', b"9", b"]}"), 400, "prompt"),
    "wrong ids": (TEXT, filled(b'{"prompt":[1,', b'""', b"]}"), 400, "prompt[1]"),
    "lists of ids": (TEXT, filled(b'{"prompt":[', b"[9]", b"]}"), 400, "prompt"),
    "empty lists": (TEXT, filled(b'{"prompt":[', b"[]", b"]}"), 400, "prompt[0]"),
    "stop strings": (TEXT, filled(b'{"prompt":"a","stop":[', b"1", b"]}"), 400, "stop[0]"),
    "pieces": (TOKENIZE, b'{"return_token_strs":true,"prompt":"' + b"7 " * (MIB // 2 - 50) + b'"}', 200, None),
    "tokens": (DETOKENIZE, filled(b'{"tokens":[', b"9", b"]}"), 400, "tokens"),
    "depth": (CHAT, b'{"tools":' + b"[" * 500_000 + b"]" * 500_000 + b"}", 400, None),
}


@pytest.mark.parametrize("name", HEAVY)
async def test_others_are_served_while_a_heavy_body_is_checked(name):
    path, body, status, param = HEAVY[name]
    assert len(body) <= MIB
    async with serving() as fake, aiohttp.ClientSession(fake.url) as session:
        slowest, done = 0.0, asyncio.Event()

        async def watch():
            """The event loop of the server is this one: its pauses are seen from here, in this thread's own time."""
            nonlocal slowest
            while not done.is_set():
                begun = time.thread_time()
                async with session.get("/health") as response:
                    assert response.status == 200
                slowest = max(slowest, time.thread_time() - begun)
                await asyncio.sleep(0.002)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.02)
        async with session.post(path, data=body, headers={"content-type": "application/json"}) as response:
            assert response.status == status
            answer = await response.json()
        done.set()
        await watching
    if status == 400 and param is not None:
        assert answer["error"]["param"] == param
    print(f"{name}: {slowest * 1000:.0f} ms")
    assert slowest < 1.0  # a tenth of it on a quiet machine; without bounds these take up to a minute
