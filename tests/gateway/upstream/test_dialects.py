"""Answers of lanes in the dialects: whatever a lane sends, each one's stream adds up to the whole answer."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.upstream.fake import chat, chunk, endpoint, usage
from tests.serving.wire import events, finish_of, sent, text_of
from unmask.answers.answer import AnswerDelta
from unmask.answers.tools import Tool
from unmask.errors import UpstreamError
from unmask.events import RequestStats
from unmask.gateway.upstream.chunk import decode_chunk
from unmask.gateway.upstream.reader import AnswerReader
from unmask.gateway.upstream.request import ask_chat
from unmask.gateway.upstream.spellings import Spellings
from unmask.serving.dialects.anthropic_messages.encode import Head as MessageHead
from unmask.serving.dialects.anthropic_messages.stream import MessageStream
from unmask.serving.dialects.ollama.encode import Head as LineHead
from unmask.serving.dialects.ollama.lines import chat_line
from unmask.serving.dialects.ollama.stream import LineStream
from unmask.serving.dialects.openai_chat.encode import encode
from unmask.serving.dialects.openai_chat.mercury import MercuryStream
from unmask.serving.dialects.openai_chat.stream import ChatStream
from unmask.serving.dialects.openai_common.head import Head

HEAD = Head("chatcmpl-1", 1, "m")
META = {"diffusion_meta": {"diffusion_content": True, "diffusion_progress": 0.5}}


def call(index, **function):
    return chunk(tool_calls=[{"index": index, "function": function}])


DELTAS = (
    chunk(content="a é"), chunk(content="\n"), chunk(content="b", reasoning="c"), chunk(reasoning_content="hm "),
    call(0, name="f", arguments=""), call(0, name="f", arguments='{"x": '), call(0, arguments="1}"),
    call(1, name="g"), call(1, arguments="{}"), usage(3, 4),
)  # fmt: skip


def read(chunks, question, cells, **more):
    """The deltas of an answer that comes in ``chunks``."""
    where = endpoint(**more)
    reader = AnswerReader(ask_chat(question, where)[0], where, cells)
    found = []
    for one in chunks:
        news = reader.feed(decode_chunk(json.dumps(one).encode()))
        found.append(AnswerDelta(news.parts, RequestStats(), news.frame, news.logprobs, None, news.runs))
    news, answer = reader.end()
    return [*found, AnswerDelta(news.parts, RequestStats(), news.frame, news.logprobs, answer, news.runs)]


@settings(max_examples=150)
@given(st.lists(st.sampled_from(DELTAS), min_size=1, max_size=12), st.sampled_from(["stop", "length", "tool_calls"]))
def test_streams_add_up_to_the_answer(chunks, finish):
    cells = Spellings()
    try:
        deltas = read([*chunks, chunk(finish)], chat(tools=[Tool("f"), Tool("g")]), cells)
    except UpstreamError:
        return  # calls that make no sense
    answer = deltas[-1].answer
    body = events(sent(ChatStream(HEAD, cells, include_usage=True, copies=1), deltas))
    assert (text_of(body), finish_of(body)) == (answer.content, answer.finish)
    whole = json.loads(msgspec.json.encode(encode(HEAD, [answer], cells)))
    assert body[-1]["usage"] == whole["usage"]
    assert whole["unmask"]["lane"] == "my-lane"
    assert _message(sent(MessageStream(MessageHead("msg_1", "m"), cells, 3), deltas)) == answer.content
    lines = sent(LineStream(LineHead.new("m", chat_line), cells), deltas).splitlines()
    assert "".join(json.loads(line)["message"]["content"] for line in lines) == answer.content


def _message(raw: bytes) -> str:
    """The text of a streamed message, whose blocks are whole, one after the other."""
    payloads = [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: ")]
    text, index, open_ = "", -1, False
    for payload in payloads:
        match payload["type"]:
            case "content_block_start":
                assert not open_
                assert payload["index"] == index + 1
                index, open_ = index + 1, True
            case "content_block_delta":
                assert open_
                text += payload["delta"].get("text", "")
            case "content_block_stop":
                open_ = False
    assert payloads[-1]["type"] == "message_stop"
    return text


@pytest.mark.parametrize("called", [False, True])
def test_snapshots_are_replaced_and_the_last_one_stays(called):
    cells = Spellings()
    texts = ["tho", "the cot", "the cat"]
    chunks = [chunk(content=text) | META for text in texts]
    if called:
        calls = [call(0, name="f", arguments='{"x"')["choices"], call(0, arguments=": 1}")["choices"]]
        chunks[1:1] = [chunk(content="tho", tool_calls=each[0]["delta"]["tool_calls"]) | META for each in calls]
    deltas = read([*chunks, chunk("stop")], chat(tools=[Tool("f")], frames=True), cells, snapshots=True)
    body = events(sent(MercuryStream(HEAD, cells, include_usage=False), deltas))
    shown = [delta["content"] for each in body if "content" in (delta := each["choices"][0]["delta"])]
    assert shown[-1] == "the cat"
    assert called or shown[:3] == texts  # what is guessed behind a call is not shown
    assert text_of(events(sent(ChatStream(HEAD, cells, include_usage=False, copies=1), deltas))) == "the cat"
    assert _message(sent(MessageStream(MessageHead("msg_1", "m"), cells, 3), deltas)) == "the cat"
