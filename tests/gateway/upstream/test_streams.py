"""Streams over real sockets: any cut of their bytes, odd servers, and what happens when somebody leaves."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.upstream.fake import (
    BREAK,
    DONE,
    Script,
    answers,
    ask,
    chat,
    chunk,
    endpoint,
    event,
    fake,
    opened,
    stream,
    usage,
)  # fmt: skip
from unmask.answers.chat import Continuation, Length
from unmask.answers.parts import Content, Reasoning
from unmask.errors import (
    ContextLengthError,
    EngineCrashedError,
    EngineStalledError,
    EngineUnavailableError,
    QueueTimeoutError,
    UpstreamError,
)
from unmask.gateway.upstream.endpoint import Patience
from unmask.params import GenerationParams

CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x": "é🦙"}'}}
RICH = stream(
    chunk(role="assistant", content=""), chunk(reasoning_content="hm 🦙"), chunk(content="ye"), chunk(content="s é"),
    chunk(tool_calls=[CALL]), chunk("tool_calls"), usage(7, 5),
)  # fmt: skip
WHOLE = Script([RICH])


@pytest.fixture(scope="module")
def whole():
    return asyncio.run(ask(WHOLE))[0]


def same(one, other) -> bool:
    """Equal but for the time they took."""
    return (one.parts, one.finish, one.completion.completion_tokens) == (
        other.parts, other.finish, other.completion.completion_tokens)  # fmt: skip


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, len(RICH) - 1), max_size=8), crlf=st.booleans(), spaced=st.booleans())
def test_any_cut_of_the_bytes_gives_the_same_answer(whole, cuts, crlf, spaced):
    raw = RICH if spaced else RICH.replace(b"data: ", b"data:")
    raw = raw.replace(b"\n", b"\r\n") if crlf else raw
    places = sorted(min(cut, len(raw)) for cut in cuts)
    pieces = [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]
    found = asyncio.run(ask(Script([step for piece in pieces for step in (piece, 0.0)])))[0]
    assert same(found, whole)


def test_what_it_holds(whole):
    assert whole.parts[:2] == [Reasoning("hm 🦙"), Content("yes é")]
    assert (whole.finish, whole.tool_calls[0].arguments) == ("tool_calls", '{"x": "é🦙"}')
    assert (whole.completion.prompt_tokens, whole.completion.completion_tokens) == (7, 5)
    assert (whole.completion.lane, whole.completion.estimated) == ("my-lane", False)
    stats = whole.completion.stats
    assert 0 < stats.queued <= stats.first_block <= stats.total


async def test_the_request():
    async with fake(WHOLE) as server, opened(endpoint(server.url + "/", key="sk-1")) as upstream:
        await answers(upstream.chat(chat(max_tokens=9)))
    assert (server.paths, server.bodies[0]["max_tokens"]) == (["/v1/chat/completions"], 9)
    assert server.headers[0]["Authorization"] == "Bearer sk-1"


class TestOddServers:
    async def test_comments_and_names(self):
        raw = (
            b": hi\n\nevent: ping\n\n" + event(chunk(content="a")) + b"event: x\nid: 3\n" + event(chunk("stop")) + DONE
        )
        assert (await ask(Script([raw])))[0].content == "a"

    @pytest.mark.parametrize("ending", [b"", b"data: [DONE]", b"data: [DONE]\n\n" + event(chunk(content="more"))])
    async def test_done_is_missing_cut_or_not_the_end(self, ending):
        found = (await ask(Script([stream(chunk(content="a"), chunk("stop"), done=False) + ending])))[0]
        assert (found.content, found.finish) == ("a", "stop")

    async def test_done_without_a_finish(self):
        assert (await ask(Script([stream(chunk(content="a"))])))[0].finish == "stop"

    async def test_a_whole_answer_instead_of_a_stream(self):
        body = {"choices": [{"message": {"content": "a", "tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}
        raw = json.dumps(body | {"usage": {"prompt_tokens": 2, "completion_tokens": 3}}).encode()
        found = (await ask(Script([raw[:20], 0.0, raw[20:]], content_type="application/json")))[0]
        assert (found.content, found.finish, found.completion.completion_tokens) == ("a", "tool_calls", 3)

    async def test_a_stream_under_another_type(self):
        assert (await ask(Script([stream(chunk(content="a"), chunk("stop"))], content_type="text/plain")))[0].content

    async def test_a_connection_that_is_left_open_after_the_end(self):
        found = await ask(
            Script([stream(chunk(content="a"), chunk("stop"), done=False), 60]), patience=Patience(end=0.1)
        )
        assert (found[0].content, found[0].completion.estimated) == ("a", True)

    async def test_a_break_after_the_end_loses_nothing_but_the_count(self):
        found = await ask(Script([stream(chunk(content="a"), chunk("stop"), done=False), 0.05, BREAK]))
        assert (found[0].content, found[0].completion.estimated) == ("a", True)

    @pytest.mark.parametrize(
        ("script", "what"),
        [
            (Script([b"<html><title>Log in</title>"], content_type="text/html"), "a web page, 'Log in'"),
            (Script([b"data: {nonsense\n\n"]), "no chunk"),
            (Script([b"data: [1, 2]\n\n"]), "no chunk"),
            (Script([b"data: " + b"[" * 100_000 + b"\n\n"]), "no chunk"),
            (Script([b"hello there\n"]), "with nothing"),
            (Script([DONE]), "with nothing"),
            (Script([b"{}"], content_type="application/json"), "with nothing"),
            (Script([b"\xff\xfe"], content_type="application/json"), "no chunk"),
            (Script([b'{"error": {"message": "no stream"}}'], content_type="application/json"), "no stream"),
            (Script([event(chunk(content=3, tool_calls="x"))]), "no chunk"),
        ],
    )
    async def test_what_is_no_answer_is_an_error(self, script, what):
        with pytest.raises(UpstreamError, match="my-lane") as caught:
            await ask(script)
        assert what in str(caught.value)
        assert len(str(caught.value)) < 700

    async def test_a_line_without_an_end(self, monkeypatch):
        monkeypatch.setattr("unmask.gateway.upstream.sse.MAX_EVENT", 10_000)
        with pytest.raises(UpstreamError, match="without an end"):
            await ask(Script([b"data: ", *[b"x" * 1000] * 20, 60]))

    async def test_an_answer_without_an_end(self, monkeypatch):
        monkeypatch.setattr("unmask.gateway.upstream.reader.MAX_ANSWER", 10_000)
        with pytest.raises(UpstreamError, match="on and on"):
            await ask(Script([*[event(chunk(content="x" * 1000))] * 20, 60]))


class TestLosses:
    @pytest.mark.parametrize("last", [BREAK, b""])
    async def test_broken_off_within_the_answer(self, last):
        script = Script([event(chunk(content="a")), 0.05, last])
        async with fake(script) as server, opened(endpoint(server.url)) as upstream:
            with upstream.chat(chat()) as request:
                assert (await request.next())[1].parts == [Content("a")]
                with pytest.raises(EngineCrashedError, match=r"'my-lane' broke off within its answer"):
                    await request.next()

    async def test_broken_off_before(self):
        with pytest.raises(EngineCrashedError, match="before it answered"):
            await ask(Script([BREAK]))

    async def test_nobody_listens(self):
        async with opened(endpoint()) as upstream:
            with pytest.raises(EngineUnavailableError, match="my-lane"):
                await answers(upstream.chat(chat()))

    async def test_what_speaks_no_http(self):
        async def talk(reader, writer):
            await reader.read(10)
            writer.write(b"SSH-2.0-OpenSSH\r\n")
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, opened(endpoint(f"http://127.0.0.1:{port}/v1")) as upstream:
            with pytest.raises(UpstreamError, match="no HTTP"):
                await answers(upstream.chat(chat()))

    @pytest.mark.parametrize(
        "script", [Script(before=60), Script([60]), Script([event(chunk(role="assistant", content="")), 60])]
    )
    async def test_nothing_begins(self, script):
        with pytest.raises(EngineStalledError, match="before its answer began"):
            await ask(script, patience=Patience(begin=0.1))

    @pytest.mark.parametrize("noise", [b": keep-alive\n\n", event(chunk(content="")), event(usage(1, 1))])
    async def test_noise_is_no_progress(self, noise):
        script = Script([event(chunk(content="a")), *[noise, 0.02] * 100])
        with pytest.raises(EngineStalledError, match="within its answer"):
            await ask(script, patience=Patience(stall=0.2))

    async def test_slow_progress_is_progress(self):
        script = Script([*[event(chunk(content="a")), 0.05] * 10, stream(chunk("stop"))])
        assert (await ask(script, patience=Patience(stall=0.4)))[0].content == "a" * 10

    async def test_the_requests_own_time(self):
        found = (await ask(Script([event(chunk(content="a")), 60]), chat(timeout_ms=200)))[0]
        assert (found.content, found.completion.finish_reason, found.finish) == ("a", "timeout", "length")
        with pytest.raises(QueueTimeoutError, match="my-lane"):
            await ask(Script(before=60), chat(timeout_ms=100))


class TestLeaving:
    @pytest.mark.parametrize("script", [Script([event(chunk(content="a")), 60]), Script(before=60)])
    async def test_the_lane_notices_at_once(self, script):
        async with fake(script) as server, opened(endpoint(server.url)) as upstream:
            request = upstream.chat(chat())
            request.start()
            while not server.bodies:
                await asyncio.sleep(0.01)
            if script.steps:
                await request.next()
            request.close()
            await asyncio.wait_for(server.left.wait(), 1)

    async def test_a_stop_string_leaves_the_lane(self):
        script = Script([event(chunk(content="yes STOP") | {"timings": {"prompt_n": 3, "predicted_n": 4}}), 60])
        async with fake(script) as server, opened(endpoint(server.url, "llama.cpp")) as upstream:
            found = (await answers(upstream.chat(chat(stop=("STOP",)))))[0]
            await asyncio.wait_for(server.left.wait(), 1)
        assert "stop" not in server.bodies[0]
        assert (found.content, found.completion.stopped_by, found.completion.completion_tokens) == ("yes ", "STOP", 4)

    async def test_waiting_may_be_cancelled_and_nothing_is_lost(self):
        script = Script([*[0.03, event(chunk(content="a"))] * 10, stream(chunk("stop"))])
        async with fake(script) as server, opened(endpoint(server.url)) as upstream:
            with upstream.chat(chat()) as request:
                text, cancelled, answer = "", 0, None
                while answer is None:
                    try:
                        async with asyncio.timeout(0.005):
                            _, delta = await request.next()
                    except TimeoutError:
                        cancelled += 1
                        continue
                    text += "".join(part.text for part in delta.parts)
                    answer = delta.answer
        assert (text, answer.content, cancelled > 3) == ("a" * 10, "a" * 10, True)

    async def test_a_reader_that_is_slow_slows_the_lane_down(self):
        piece = event(chunk(content="x" * 10_000))
        async with fake(Script([piece] * 3000)) as server, opened(endpoint(server.url)) as upstream:
            with upstream.chat(chat()) as request:
                await request.next()
                await asyncio.sleep(0.2)
                assert request._deltas.qsize() <= 16
            await asyncio.wait_for(server.left.wait(), 1)

    async def test_the_time_of_a_slow_reader_is_not_the_lanes(self):
        """All but the last event fill what may be unread; the time in which that one waits is not held against it."""
        script = Script([*[event(chunk(content="x"))] * 18, 0.7, stream(chunk("stop"))])
        async with fake(script) as server, opened(endpoint(server.url), Patience(stall=0.4)) as upstream:
            with upstream.chat(chat()) as request:
                await request.next()
                await asyncio.sleep(0.6)
                while (await request.next())[1].answer is None:
                    pass

    async def test_a_slow_reader_is_told_that_the_time_is_over(self):
        """It is over while nobody reads, and what has come since would fill what may be unread once more."""
        script = Script([event(chunk(content="x")) * 200, 60])
        async with fake(script) as server, opened(endpoint(server.url)) as upstream:
            with upstream.chat(chat(timeout_ms=200)) as request:
                await asyncio.sleep(0.4)
                while (answer := (await asyncio.wait_for(request.next(), 2))[1].answer) is None:
                    await asyncio.sleep(0)
        assert answer.completion.finish_reason == "timeout"

    async def test_before_it_was_sent(self):
        async with fake(WHOLE) as server, opened(endpoint(server.url)) as upstream:
            with upstream.chat(chat()):
                pass
            await asyncio.sleep(0.05)
        assert not server.bodies


class TestSeveral:
    async def test_copies_run_together(self):
        scripts = [Script([stream(chunk(content=text), chunk("stop"), usage(3, n))]) for n, text in enumerate("abc", 1)]
        async with fake(*scripts) as server, opened(endpoint(server.url)) as upstream:
            found = await answers(upstream.chat(chat(copies=3, seed=5)))
        assert sorted(one.content for one in found) == ["a", "b", "c"]
        assert sorted(body["seed"] for body in server.bodies) == [5, 6, 7]

    async def test_an_error_of_one_is_raised_and_closing_ends_the_others(self):
        scripts = [Script([event(chunk(content="a")), 60]), Script([event({"error": {"message": "no"}})])]
        async with fake(*scripts) as server, opened(endpoint(server.url)) as upstream:
            with pytest.raises(UpstreamError, match="no"):
                await answers(upstream.chat(chat(copies=2)))
            await asyncio.wait_for(server.left.wait(), 1)

    async def test_prompts(self):
        def text(piece, finish=None):
            return {"object": "text_completion", "choices": [{"text": piece, "index": 0, "finish_reason": finish}]}

        script = Script([stream(text("a"), text("b", "length"), usage(2, 2))])
        async with fake(script) as server, opened(endpoint(server.url)) as upstream:
            found = await answers(
                upstream.complete(Continuation(params=GenerationParams(max_tokens=2), texts=["x", "y"]))
            )
        assert [(one.content, one.finish) for one in found] == [("ab", "length")] * 2
        assert sorted(body["prompt"] for body in server.bodies) == ["x", "y"]
        assert server.paths == ["/v1/completions"] * 2


class TestLength:
    FULL = Script([json.dumps({"error": {"message": "too long", "code": "context_length_exceeded"}}).encode()],
                  status=400, content_type="application/json")  # fmt: skip

    async def test_what_does_not_fit_takes_the_room_there_is(self):
        async with fake(self.FULL, WHOLE) as server, opened(endpoint(server.url)) as upstream:
            found = await answers(upstream.chat(chat(max_tokens=9999, seed=1, length=Length())))
        assert found[0].completion.applied == {"seed": 1}
        assert [body.get("max_tokens") for body in server.bodies] == [9999, None]

    async def test_a_prompt_that_does_not_fit(self):
        async with fake(self.FULL) as server, opened(endpoint(server.url)) as upstream:
            for question, sent in ((chat(max_tokens=9, length=Length()), 2), (chat(max_tokens=9), 3)):
                with pytest.raises(ContextLengthError):
                    await answers(upstream.chat(question))
                assert len(server.bodies) == sent

    async def test_the_prompts_tokens_are_known_as_soon_as_the_lane_tells(self):
        first = chunk(content="a") | {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}
        async with fake(Script([0.05, event(first), 60])) as server, opened(endpoint(server.url)) as upstream:
            with upstream.chat(chat()) as request:
                assert request.prompt_tokens(0) == 0
                await request.next()
                assert request.prompt_tokens(0) == 7


async def test_a_secret_is_not_sent_elsewhere():
    async with fake(WHOLE) as other:
        script = Script([b"moved"], status=307, headers={"Location": other.url + "/chat/completions"})
        with pytest.raises(UpstreamError, match="elsewhere"):
            await ask(script, key="sk-1")
    assert not other.bodies


async def test_who_waits_for_a_refusal_hears_at_once_that_all_is_over():
    late = Script([stream(chunk("stop", content="late"))], before=20)
    async with fake(late) as lane, opened(endpoint(lane.url, "remote")) as upstream:
        with upstream.chat(chat()) as request:
            waiting = asyncio.create_task(request.refused())
            await asyncio.sleep(0.05)
            request.fail(EngineUnavailableError("It was stopped."))
            assert await asyncio.wait_for(waiting, 2)
            with pytest.raises(EngineUnavailableError, match="stopped"):
                await request.next()
