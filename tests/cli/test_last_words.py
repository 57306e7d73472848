"""What clients of each dialect are told by a server that is stopped before their answers are whole."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
import pytest

from tests.serving.processes import serve

GRACE = 1.0  # s
SAID = ("shutting_down", "The server is being stopped. Ask again once it is back.")
MESSAGES = [{"role": "user", "content": "one two three"}]
LONG = {"unmask": {"rule": "low_confidence", "cache": "none", "block_length": 8, "end_tokens": "never"}}
CHAT = {"model": "unmask-tiny", "messages": MESSAGES, "max_tokens": 200} | LONG
OLLAMA = {"model": "unmask-tiny", "options": {"num_predict": 200} | LONG}
ANSWERS: dict[str, dict] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"prompt": "a", "max_tokens": 200} | LONG,
    "/v1/responses": {"input": MESSAGES, "max_output_tokens": 200} | LONG,
    "/v1/messages": CHAT,
    "/api/chat": OLLAMA | {"messages": MESSAGES},
    "/api/generate": OLLAMA | {"prompt": "a"},
}


def of_openai(stream: str) -> tuple[str, str]:
    assert "[DONE]" not in stream
    return in_envelope(json.loads(stream.split("\n\n")[-2].removeprefix("data: ")))


def of_responses(stream: str) -> tuple[str, str]:
    """Told twice: as an error, and as the response's end."""
    error, failed = [frame.split("\ndata: ") for frame in stream.split("\n\n")[-3:-1]]
    assert (error[0], failed[0]) == ("event: error", "event: response.failed")
    end = json.loads(failed[1])["response"]
    told = json.loads(error[1])
    assert (end["status"], end["error"]["message"]) == ("failed", told["message"])
    return told["code"], told["message"]


def of_anthropic(stream: str) -> tuple[str, str]:
    name, data = stream.split("\n\n")[-2].split("\ndata: ")
    assert name == "event: error"
    body = json.loads(data)
    assert body["error"]["type"] == "overloaded_error"  # the one that its clients take for worth another try
    return in_envelope(body)


def of_ollama(stream: str) -> tuple[str, str]:
    return in_envelope(json.loads(stream.splitlines()[-1]))


def in_envelope(body: dict) -> tuple[str, str]:
    error = body["error"]
    return (body["code"], error) if isinstance(error, str) else (error["code"], error["message"])


READERS: dict[str, Callable[[str], tuple[str, str]]] = dict(
    zip(ANSWERS, [of_openai, of_openai, of_responses, of_anthropic, of_ollama, of_ollama], strict=True)
)


@dataclass(frozen=True)
class Whole:
    status: int
    headers: Mapping[str, str]
    body: dict


@dataclass(frozen=True)
class End:
    """What clients got by path, and the seconds from the signal to the last client's end, and to the server's."""

    streams: dict[str, str]
    whole: dict[str, Whole]
    clients: float
    server: float


async def read_stream(session: aiohttp.ClientSession, path: str, begun: asyncio.Semaphore) -> str:
    async with session.post(path, json=ANSWERS[path] | {"stream": True}) as response:
        first = await response.content.readline()
        begun.release()
        return (first + await response.read()).decode()


async def read_whole(session: aiohttp.ClientSession, path: str) -> Whole:
    async with session.post(path, json=ANSWERS[path] | {"stream": False}) as response:
        return Whole(response.status, response.headers, await response.json())


async def ask_everything(url: str, told_to_stop: Callable[[], None]) -> tuple[dict[str, str], dict[str, Whole]]:
    begun = asyncio.Semaphore(0)
    async with aiohttp.ClientSession(url) as session:
        whole = asyncio.gather(*(read_whole(session, path) for path in ANSWERS))
        streams = asyncio.gather(*(read_stream(session, path, begun) for path in ANSWERS))
        for _ in ANSWERS:
            await begun.acquire()
        told_to_stop()
        return dict(zip(ANSWERS, await streams, strict=True)), dict(zip(ANSWERS, await whole, strict=True))


@pytest.fixture(scope="module")
def end() -> End:
    with serve("--grace", str(GRACE)) as server:
        signalled = 0.0

        def stop() -> None:
            nonlocal signalled
            signalled = time.monotonic()
            server.process.send_signal(signal.SIGTERM)

        streams, whole = asyncio.run(ask_everything(server.url, stop))
        clients = time.monotonic() - signalled
        assert server.process.wait(20) == 0
        server_seconds = time.monotonic() - signalled
    assert "Traceback" not in "".join(server.log)
    return End(streams, whole, clients, server_seconds)


@pytest.mark.parametrize("path", ANSWERS)
def test_the_last_event_says_that_the_server_is_being_stopped(end, path):
    assert READERS[path](end.streams[path]) == SAID


@pytest.mark.parametrize("path", ANSWERS)
def test_whole_answers_may_be_asked_for_again(end, path):
    whole = end.whole[path]
    assert (whole.status, in_envelope(whole.body)) == (503, SAID)
    assert int(whole.headers["retry-after"]) > 0
    assert whole.headers["connection"] == "close"


def test_the_grace_is_given_and_little_more(end):
    assert GRACE <= end.clients < GRACE + 1.5
    assert end.server < GRACE + 2.5  # 0.3 on a machine that nobody else uses
