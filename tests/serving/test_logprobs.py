"""Log-probabilities and biases of a live server, seen by the official client and against OpenAI's description."""

from __future__ import annotations

import math

import pytest

from tests.conformance.vendor_schemas import check
from tests.serving.wire import events

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]
FIELDS = [
    {},
    {"max_tokens": 5},
    {"stop": "="},
    {"temperature": 1.0, "seed": 11, "max_tokens": 40},
    {"max_tokens": 60, "extra_body": {"ignore_eos": True, "unmask": {"rule": "d2f"}}},
]


def chat(client, **fields):
    return client.chat.completions.create(model="unmask-tiny", messages=QUESTION, logprobs=True, **fields)


@pytest.mark.parametrize("fields", FIELDS)
def test_chat_streamed_and_whole_are_equal(client, fields):
    whole = chat(client, top_logprobs=3, **fields).choices[0]
    with client.chat.completions.stream(
        model="unmask-tiny", messages=QUESTION, logprobs=True, top_logprobs=3, **fields
    ) as stream:
        for _ in stream:
            pass
        streamed = stream.current_completion_snapshot.choices[0]
    assert streamed.message.content == whole.message.content
    assert whole.logprobs.content
    assert len(streamed.logprobs.content) == len(whole.logprobs.content)
    for one, other in zip(streamed.logprobs.content, whole.logprobs.content, strict=True):
        assert (one.token, one.bytes) == (other.token, other.bytes)
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert [top.token for top in one.top_logprobs] == [top.token for top in other.top_logprobs]


def test_chat_tokens_spell_the_answer(client):
    choice = chat(client, top_logprobs=20).choices[0]
    content = choice.logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in content).decode() == choice.message.content
    assert choice.logprobs.refusal is None
    for entry in content:
        assert entry.top_logprobs[0].token == entry.token  # greedy
        assert entry.top_logprobs[0].logprob == entry.logprob
        assert len(entry.top_logprobs) == 20
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-4
    assert [entry.top_logprobs for entry in chat(client).choices[0].logprobs.content] == [[]] * len(content)


@pytest.mark.parametrize("fields", FIELDS)
def test_completions_streamed_and_whole_are_equal(client, fields):
    ask = {"model": "unmask-tiny", "prompt": ["7 + 8 =", "one two"], "logprobs": 2, "max_tokens": 24} | fields
    whole = client.completions.create(**ask)
    streamed = {0: ([], [], []), 1: ([], [], [])}
    for chunk in client.completions.create(stream=True, **ask):
        for choice in chunk.choices:
            if choice.logprobs is not None:
                tokens, offsets, tops = streamed[choice.index]
                tokens += choice.logprobs.tokens
                offsets += choice.logprobs.text_offset
                tops += [list(top) for top in choice.logprobs.top_logprobs]
    for choice in whole.choices:
        told = choice.logprobs
        assert streamed[choice.index] == (told.tokens, told.text_offset, [list(top) for top in told.top_logprobs])
        assert len(told.tokens) == len(told.token_logprobs) == len(told.top_logprobs)
        for token, logprob, top, offset in zip(
            told.tokens, told.token_logprobs, told.top_logprobs, told.text_offset, strict=True
        ):
            assert top[token] >= logprob - 1e-6
            assert 1 <= len(top) <= 3
            assert token.startswith("bytes:") or choice.text[offset:].startswith(token[: len(choice.text) - offset])


async def test_answers_keep_to_the_description(http):
    path, body = "/v1/chat/completions", {"messages": QUESTION, "logprobs": True, "top_logprobs": 2}
    async with http.post(path, json=body) as response:
        check(await response.json(), "CreateChatCompletionResponse")
    async with http.post(path, json=body | {"stream": True}) as response:
        for chunk in events(await response.read()):
            check(chunk, "CreateChatCompletionStreamResponse")
    async with http.post("/v1/completions", json={"prompt": "7 + 8 =", "logprobs": 2}) as response:
        check(await response.json(), "CreateCompletionResponse")


def test_without_being_asked_nothing_is_told(client):
    answer = client.chat.completions.create(model="unmask-tiny", messages=QUESTION)
    assert answer.choices[0].logprobs is None
    assert "logprobs" not in answer.model_extra["unmask"]["applied"]


async def test_a_bias_forbids_a_token(client, http):
    plain = client.chat.completions.create(model="unmask-tiny", messages=QUESTION).choices[0].message.content
    async with http.post("/tokenize", json={"prompt": plain}) as response:
        first = (await response.json())["tokens"][0]
    biased = client.chat.completions.create(model="unmask-tiny", messages=QUESTION, logit_bias={str(first): -100})
    assert not biased.choices[0].message.content.startswith(plain[0])
    assert biased.model_extra["unmask"]["applied"]["logit_bias"] == {str(first): -100.0}
