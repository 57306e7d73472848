"""Chat completions of a live server, seen by the official client."""

from __future__ import annotations

import re

import openai
import pytest

from tests.serving.wire import events, finish_of, text_of

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]


def ask(client: openai.OpenAI, messages=QUESTION, **fields):
    return client.chat.completions.create(model="unmask-tiny", messages=messages, **fields)


def _billed(usage) -> dict:
    """All but what was found in the prefix cache, which depends on who came before."""
    return usage.model_dump(exclude={"prompt_tokens_details"})


def test_an_answer_has_text_usage_and_report(client):
    answer = ask(client)
    assert re.fullmatch(r"7 \+ 8 = \d+", answer.choices[0].message.content)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.refusal is None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    report = answer.model_extra["unmask"]
    assert report["forwards"] >= 1
    assert report["blocks"] == 1
    assert report["tokens_per_forward"] == pytest.approx(answer.usage.completion_tokens / report["forwards"], abs=1e-3)
    assert report["applied"]["rule"] == "threshold"
    assert report["engine"].startswith("unmask/")
    assert 0 <= report["queue_ms"] <= report["ttfb_ms"] <= report["total_ms"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 3},
        {"stop": "="},
        {"stop": ["zzz", " 8"]},
        {"temperature": 1.0, "seed": 11, "max_tokens": 40},
        {"max_tokens": 70, "extra_body": {"ignore_eos": True}},
        {"max_tokens": 70, "extra_body": {"unmask": {"rule": "d2f", "ignore_eos": True}}},
        {"extra_body": {"unmask": {"rule": "low_confidence", "steps": 4, "block_length": 8}}},
        {"extra_body": {"unmask": {"factor": 0.7}}},
        {"extra_body": {"unmask": {"rule": "low_confidence", "lookahead": 4}}},
        {"extra_body": {"min_tokens": 12}},
        {"extra_body": {"unmask": {"early_exit": True, "end_tokens": "last", "cfg_scale": 0.5}}},
    ],
)
def test_streamed_and_whole_answers_are_equal(client, fields):
    whole = ask(client, **fields)
    with client.chat.completions.stream(
        model="unmask-tiny", messages=QUESTION, stream_options={"include_usage": True}, **fields
    ) as stream:
        for _ in stream:
            pass
        streamed = stream.current_completion_snapshot  # the final one refuses "length"
    assert streamed.choices[0].message.content == whole.choices[0].message.content
    assert streamed.choices[0].message.role == whole.choices[0].message.role
    assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason
    assert _billed(streamed.usage) == _billed(whole.usage)


async def test_the_order_of_chunks(http):
    body = {"messages": QUESTION, "stream": True, "stream_options": {"include_usage": True}}
    async with http.post("/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        chunks = events(await response.read())
    first, *middle, last, usage = chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(set(chunk["choices"][0]["delta"]) == {"content"} for chunk in middle)
    assert all(chunk["choices"][0]["delta"]["content"] for chunk in middle)
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["unmask"]["forwards"] >= 1
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] > 0
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1


async def test_usage_is_not_sent_unasked(http):
    async with http.post("/v1/chat/completions", json={"messages": QUESTION, "stream": True}) as response:
        chunks = events(await response.read())
    assert not any("usage" in chunk for chunk in chunks)


async def test_canvas_frames_are_extra(http):
    body = {"messages": QUESTION, "stream": True, "unmask": {"rule": "low_confidence"}}
    async with http.post("/v1/chat/completions", json=body) as response:
        plain = events(await response.read())
    body["unmask"]["canvas"] = "frames"
    async with http.post("/v1/chat/completions", json=body) as response:
        chunks = events(await response.read())
    assert text_of(chunks) == text_of(plain)
    assert finish_of(chunks) == finish_of(plain)
    frames = [chunk["unmask"]["canvas"] for chunk in chunks if "canvas" in chunk.get("unmask", {})]
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert all(frame["masked"] == frame["cells"].count(None) + frame["tail"] for frame in frames)
    assert all(len(frame["cells"]) == len(frame["guesses"]) == len(frame["confidence"]) for frame in frames)
    assert all([text is None for text in frame["cells"]] == [not when for when in frame["decided"]] for frame in frames)
    assert "".join(frames[-1]["cells"][: frames[-1]["end"]]) == text_of(chunks)
    assert frames[-1]["step"] == chunks[-1]["unmask"]["forwards"]
    assert all(frame["v"] == 1 and frame["type"] == "canvas" for frame in frames)
    carriers = [chunk for chunk in chunks if "canvas" in chunk.get("unmask", {})]
    assert all(
        chunk["choices"] == [{"index": 0, "delta": {}, "finish_reason": None, "logprobs": None}] for chunk in carriers
    )


def test_max_completion_tokens_is_max_tokens(client):
    answer = ask(client, max_completion_tokens=2)
    assert answer.usage.completion_tokens == 2
    assert answer.choices[0].finish_reason == "length"
    assert ask(client, max_tokens=2, max_completion_tokens=2).usage.completion_tokens == 2


def test_content_parts_are_joined(client):
    parts = [{"type": "text", "text": "What is "}, {"type": "text", "text": "7 + 8?"}]
    whole = ask(client)
    assert ask(client, [{"role": "user", "content": parts}]).choices[0].message == whole.choices[0].message


def test_an_answer_may_be_sent_back_as_it_came(client):
    first = ask(client)
    history = [*QUESTION, first.choices[0].message.model_dump(), {"role": "user", "content": "What is 2 + 2?"}]
    assert ask(client, history).choices[0].message.content


def test_special_literals_in_a_message_stay_text(client):
    plain = ask(client, [{"role": "user", "content": "hi"}]).usage.prompt_tokens
    literal = ask(client, [{"role": "user", "content": "hi<|mdm_mask|>"}], max_tokens=8).usage.prompt_tokens
    assert literal > plain + 1  # a special token would have added just one


def test_harmless_defaults_pass(client):
    answer = ask(
        client,
        n=1,
        top_p=1.0,
        frequency_penalty=0,
        presence_penalty=0,
        logit_bias={},
        logprobs=False,
        user="someone",
        response_format={"type": "text"},
        tools=[],
        tool_choice="none",
        parallel_tool_calls=True,
        store=False,
        metadata={"run": "1"},
        service_tier="auto",
        extra_body={"best_of": 1, "min_p": 0.0, "repetition_penalty": 1.0, "functions": [], "top_logprobs": None},
    )
    assert answer.choices[0].message.content


def test_seeds_repeat_and_differ(client):
    def sample(**fields):
        # Hot, and without an early end: the model is too sure of its answers to vary them otherwise.
        return ask(client, temperature=5, max_tokens=24, extra_body={"unmask": {"end_tokens": "never"}}, **fields)

    texts = [sample(seed=5).choices[0].message.content for _ in range(2)]
    assert texts[0] == texts[1]
    free = {sample().choices[0].message.content for _ in range(4)}
    assert len(free) > 1
