"""Answers that are watched: told the same, byte for byte, with what is wrong beside them."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from functools import partial

import aiohttp
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.fakes import serving, until
from tests.serving.observers.admissions import Scripted, all_of, run
from tests.serving.parts import TOKENIZER, cuts, deltas
from tests.serving.wire import sent
from unmask.answers.chat import Continuation
from unmask.answers.parts import Content
from unmask.answers.sentinels import Expected
from unmask.engine.text import CellDecoder
from unmask.events import CanvasEvent, Frame, RequestStats
from unmask.params import GenerationParams
from unmask.serving.dialects.anthropic_messages.encode import Head as MessageHead
from unmask.serving.dialects.anthropic_messages.stream import MessageStream
from unmask.serving.dialects.ollama.encode import Head as LineHead
from unmask.serving.dialects.ollama.lines import chat_line
from unmask.serving.dialects.ollama.stream import LineStream
from unmask.serving.dialects.openai_chat.stream import ChatStream
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_completions.stream import CompletionStream
from unmask.serving.observers import observed_admission
from unmask.serving.observers.observed_admission import ObservedAdmission
from unmask.serving.observers.observers import Observers
from unmask.serving.observers.silence import Silence
from unmask.serving.server_metrics import ServerMetrics
from unmask.serving.settings import ServerSettings

CELLS = CellDecoder(TOKENIZER)
ENCODERS = {
    "chat": lambda: ChatStream(Head("id", 1, "m"), CELLS, include_usage=True, copies=1),
    "completions": lambda: CompletionStream(Head("id", 1, "m"), CELLS, include_usage=True, copies=1),
    "messages": lambda: MessageStream(MessageHead("msg_1", "m"), CELLS, 3),
    "ollama": lambda: LineStream(LineHead("id", partial(chat_line, model="m", created_at="")), CELLS),
}


def observed(told, *, warned=None, seconds=30.0) -> ObservedAdmission:
    warn = (lambda kind: None) if warned is None else warned.append
    return ObservedAdmission(Scripted(told), Expected(), warn=warn, silence_seconds=seconds)


def numbered(told):
    return [(0, delta) for delta in told]


@pytest.mark.parametrize("dialect", ENCODERS)
@given(cuts(), st.booleans(), st.booleans(), st.sampled_from(["stop", "length"]))
def test_no_byte_is_changed_but_the_extension(dialect, text, frames, logprobs, finish):
    told = deltas(*text, frames=frames, logprobs=logprobs, finish=finish)
    plain = sent(ENCODERS[dialect](), told)
    watched = sent(ENCODERS[dialect](), run(observed(numbered(told))))
    warnings = run(observed(numbered(told)))[-1].answer.completion.warnings
    written = f'"warnings":{json.dumps(list(warnings), separators=(",", ":"))}'
    assert watched.count(b'"warnings"') == bool(warnings)
    for rest in (f",{written}", f"{written},"):
        watched = watched.replace(rest.encode(), b"")
    assert watched == plain


@given(
    cuts(), st.sampled_from([(observed_admission, "warnings_of"), (Silence, "heard"), (observed_admission, "replace")])
)
def test_an_observer_that_fails_changes_nothing(text, fault):
    told = deltas(*text)
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs() as log:
        patch.setattr(*fault, broken)
        assert run(observed(numbered(told))) == told
    assert {entry["event"] for entry in log} == {"an observer of answers failed"}


def test_one_that_cannot_even_begin_is_left_out(monkeypatch):
    class Unjudged:
        name = "m"

        async def admit_texts(self, asked, tenant):
            return Scripted(numbered(told))

    told = deltas(TOKENIZER.encode_text("one two"), [1])
    monkeypatch.setattr(Expected, "by", broken)
    watched = Observers(ServerMetrics(lambda: []), ServerSettings()).around(Unjudged(), "1")
    with structlog.testing.capture_logs() as log:
        admission = asyncio.run(watched.admit_texts(Continuation(params=GenerationParams(), texts=["hi"]), ""))
        assert run(admission) == told
    assert [entry["event"] for entry in log] == ["an observer of answers failed"]


def broken(*_, **__):
    raise RuntimeError("an observer's bug")


async def test_errors_of_the_engine_pass():
    first = deltas(TOKENIZER.encode_text("one two"), [1])[0]
    admission = observed([(0, first), ConnectionError("gone")])
    with admission.running():
        await admission.next()
        with pytest.raises(ConnectionError, match="gone"):
            await admission.next()


def pieces(count: int):
    return numbered(deltas(TOKENIZER.encode_text("one two three four five six"), list(range(1, count))))


async def test_silence_is_told_once_and_stands_in_the_report():
    first, *rest = pieces(4)
    warned: list[str] = []
    told = await all_of(observed([first, 0.15, *rest], warned=warned, seconds=0.05))
    assert warned == ["stalled_stream"]
    assert told[-1][1].answer.completion.warnings == ("stalled_stream",)


async def test_it_is_told_while_it_lasts():
    warned: list[str] = []
    admission = observed([pieces(3)[0], 60.0], warned=warned, seconds=0.05)
    with admission.running():
        await admission.next()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await admission.next()
        assert warned == ["stalled_stream"]


async def test_frames_are_no_progress_but_committed_tokens_are():
    number, first = pieces(3)[0]
    frame = replace(first, parts=[], frame=Frame([1]))
    more = [replace(frame, stats=RequestStats(committed=first.stats.committed + n)) for n in range(1, 6)]
    for silent, told in ((True, [frame] * 5), (False, more)):
        warned: list[str] = []
        script = [one for delta in told for one in (0.04, (number, delta))]
        await all_of(observed([(number, first), *script], warned=warned, seconds=0.1))
        assert warned == ["stalled_stream"] * silent


async def test_to_wait_in_the_queue_is_no_silence():
    warned: list[str] = []
    await all_of(observed([0.1, *pieces(2)], warned=warned, seconds=0.05))
    assert warned == []


async def test_nothing_is_told_after_the_end():
    warned: list[str] = []
    admission = observed([pieces(3)[0], *pieces(3)], warned=warned, seconds=0.05)
    with admission.running():
        await admission.next()
    await asyncio.sleep(0.1)
    assert warned == []


def test_a_delta_costs_next_to_nothing():
    number, delta = pieces(2)[0]
    many = [(number, replace(delta, parts=[Content("x")], answer=None))] * 20_000
    begun = time.process_time()
    run(Scripted(many))
    plain = time.process_time() - begun
    run(observed(many))
    assert time.process_time() - begun - 2 * plain < 0.4  # 20 microseconds each


LOOP = TOKENIZER.encode_text("no " * 60)


@pytest.mark.parametrize(("path", "body"), [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/completions", {"prompt": "hi"}),
    ("/v1/messages", {"max_tokens": 90, "messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/responses", {"input": "hi"}),
    ("/api/chat", {"stream": False, "messages": [{"role": "user", "content": "hi"}]}),
    ("/api/generate", {"stream": False, "prompt": "hi"}),
])  # fmt: skip
async def test_every_dialect_tells_of_it(path, body):
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer(LOOP)
        body = {"model": "unmask-tiny"} | body
        with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as log:
            async with http.post(path, json=body, headers={"x-request-id": "r-1"}) as response:
                assert response.status == 200, await response.text()
                told = await response.json()
        assert told["unmask"]["warnings"] == ["repetition"]
        assert log == [
            {"event": "answer", "log_level": "warning", "model": "unmask-tiny", "kind": "repetition",
             "request_id": "r-1", "path": path},
        ]  # fmt: skip
        async with http.get("/metrics") as response:
            page = await response.text()
        assert 'unmask_answer_warnings_total{kind="repetition",model="unmask-tiny"} 1.0' in page
        fake.engine.answer(TOKENIZER.encode_text("A fine answer."))
        async with http.post(path, json=body) as response:
            assert "warnings" not in (await response.json())["unmask"]


async def test_a_stalled_stream_of_a_live_server():
    async with serving(silence_seconds=0.1) as fake, aiohttp.ClientSession(fake.url) as http:
        body = {"prompt": "hi", "stream": True}
        asked = asyncio.create_task(http.post("/v1/completions", json=body))
        await until(lambda: len(fake.engine.submitted) == 1)
        name = fake.engine.submitted[0].request_id
        with structlog.testing.capture_logs() as log:
            fake.engine.say(CanvasEvent(name, LOOP[:2], RequestStats(forwards=1, committed=2)))
            await until(lambda: bool(log))
        fake.engine.say(CanvasEvent(name, [], RequestStats(forwards=2, committed=2), finish="stop"))
        async with await asked as response:
            assert '"warnings":["stalled_stream"]' in await response.text()
        assert [entry["kind"] for entry in log] == ["stalled_stream"]


async def test_a_prompt_that_is_echoed_is_not_blamed():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer(TOKENIZER.encode_text(" yes."))
        body = {"prompt": "no " * 60, "echo": True}
        async with http.post("/v1/completions", json=body) as response:
            assert "warnings" not in (await response.json())["unmask"]
