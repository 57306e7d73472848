"""Text completions of a live server, seen by the official client and as bytes."""

from __future__ import annotations

import pytest

from tests.serving.wire import events, finish_of, text_of


def complete(client, prompt, **fields):
    return client.completions.create(model="unmask-tiny", prompt=prompt, **fields)


def test_one_prompt(client):
    answer = complete(client, "What is 7", max_tokens=8)
    assert answer.object == "text_completion"
    assert answer.usage.completion_tokens <= 8
    assert answer.model_extra["unmask"]["applied"]["max_tokens"] == 8


def test_several_prompts_keep_their_order_and_their_solo_answers(client):
    prompts = ["What is 7 + 8?", "The sky is", "one two three"]
    together = complete(client, prompts, max_tokens=24)
    alone = [complete(client, prompt, max_tokens=24) for prompt in prompts]
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    assert [choice.text for choice in together.choices] == [answer.choices[0].text for answer in alone]
    assert together.usage.prompt_tokens == sum(answer.usage.prompt_tokens for answer in alone)
    assert together.usage.completion_tokens == sum(answer.usage.completion_tokens for answer in alone)
    assert all(choice.model_extra["unmask"]["forwards"] for choice in together.choices)


async def test_ids_and_text_agree(client, http):
    text = "What is 7 + 8?"
    async with http.post("/tokenize", json={"prompt": text}) as response:
        ids = (await response.json())["tokens"]
    answers = [complete(client, prompt, max_tokens=16) for prompt in (text, ids, [ids])]
    assert len({answer.choices[0].text for answer in answers}) == 1
    assert {answer.usage.prompt_tokens for answer in answers} == {len(ids)}


@pytest.mark.parametrize("prompt", ["What is 7 + 8?", ["What is 7 + 8?", "The sky is"]])
@pytest.mark.parametrize("fields", [{}, {"stop": " "}, {"temperature": 1.0, "seed": 3}, {"ignore_eos": True}])
async def test_streamed_and_whole_answers_are_equal(http, prompt, fields):
    body = {"prompt": prompt, "max_tokens": 40, **fields}
    async with http.post("/v1/completions", json=body) as response:
        whole = await response.json()
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    async with http.post("/v1/completions", json=body) as response:
        chunks = events(await response.read())
    for choice in whole["choices"]:
        assert text_of(chunks, choice["index"]) == choice["text"]
        assert finish_of(chunks, choice["index"]) == choice["finish_reason"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]
    reports = [chunk["unmask"] for chunk in chunks if "unmask" in chunk]
    assert len(reports) == len(whole["choices"])


def test_an_empty_string_in_a_list_is_refused_as_a_whole(client):
    import openai

    with pytest.raises(openai.BadRequestError) as refusal:
        complete(client, ["fine", ""])
    assert refusal.value.param == "prompt"
