"""Structured output over HTTP, as official clients ask for it; what cannot be honoured is named."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Literal

import openai
import pydantic
import pytest

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]


class Pet(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    kind: Literal["cat", "dog"]
    age: int = pydantic.Field(ge=0, le=30)
    nick: str | None


def ask(client, **fields):
    return client.chat.completions.create(model="unmask-tiny", messages=QUESTION, **fields)


def wanted(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def test_parse_gives_the_object(client):
    answer = client.chat.completions.parse(
        model="unmask-tiny", messages=QUESTION, response_format=Pet, max_tokens=80, temperature=1, seed=4
    )
    pet = answer.choices[0].message.parsed
    assert isinstance(pet, Pet)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.unmask["applied"]["constraint"] == "json_schema"


def test_json_object(client):
    answer = ask(client, response_format={"type": "json_object"}, max_tokens=60)
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_text_is_free(client):
    assert ask(client, response_format={"type": "text"}).choices[0].message.content == "7 + 8 = 15"


def test_choices_regex_template(client):
    for options, pattern in (
        ({"choices": ["cat", "dog"]}, "cat|dog"),
        ({"regex": "[0-9]{2}"}, "[0-9]{2}"),
        ({"template": "Sum: {{n}}!", "holes": {"n": {"regex": "[0-9]+"}}}, "Sum: [0-9]+!"),
        ({"json_schema": {"type": "boolean"}}, "true|false"),
    ):
        answer = ask(client, max_tokens=20, extra_body={"unmask": options})
        assert re.fullmatch(pattern, answer.choices[0].message.content)
        assert answer.unmask["applied"]["constraint"] == next(iter(options))


def test_completions_take_it_too(client):
    answer = client.completions.create(
        model="unmask-tiny",
        prompt=["one", "two"],
        max_tokens=20,
        extra_body={"response_format": wanted({"type": "array", "items": {"type": "integer"}, "minItems": 2})},
    )
    assert all(len(json.loads(choice.text)) >= 2 for choice in answer.choices)


def test_a_stream_adds_up_to_the_answer(client):
    fields = {"max_tokens": 60, "response_format": wanted({"type": "object"}), "seed": 1, "temperature": 1.0}
    whole = ask(client, **fields).choices[0].message.content
    chunks = ask(client, stream=True, **fields)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole


async def test_a_build_ends_with_the_time_of_its_request_and_with_its_client(server, http):
    slow = {"messages": QUESTION, "max_tokens": 60, "unmask": {"regex": "(a|b)*a(a|b){20}"}}
    timed = {**slow, "stream": True, "unmask": slow["unmask"] | {"timeout_ms": 500}}
    async with http.post("/v1/chat/completions", json=timed) as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"]) == (503, "queue_timeout")
        assert int(response.headers["Retry-After"]) >= 1
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), http.post("/v1/chat/completions", json=slow):
                pass
    async with asyncio.timeout(10):
        async with http.post("/v1/chat/completions", json=slow | {"unmask": {"regex": "[3-5]"}}) as response:
            assert (await response.json())["choices"][0]["message"]["content"] in "345"


async def test_a_free_request_beside_many_constrained_ones(server):
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        pets = [
            client.chat.completions.parse(
                model="unmask-tiny", messages=QUESTION, response_format=Pet, max_tokens=80, temperature=1, seed=seed
            )
            for seed in range(6)
        ]
        free = [client.chat.completions.create(model="unmask-tiny", messages=QUESTION) for _ in range(3)]
        answers = await asyncio.gather(*pets, *free)
    assert all(isinstance(answer.choices[0].message.parsed, Pet) for answer in answers[:6])
    assert {answer.choices[0].message.content for answer in answers[6:]} == {"7 + 8 = 15"}


REFUSED = [
    ({"response_format": wanted({"type": "array", "uniqueItems": True})}, "unsupported_value", "response_format"),
    ({"response_format": wanted({"$ref": "#"})}, "unsupported_value", "response_format"),
    ({"response_format": {"type": "json_schema"}}, "invalid_value", "response_format.json_schema"),
    ({"response_format": {"type": "grammar"}}, "invalid_value", "response_format.type"),
    ({"response_format": wanted({"const": "x" * 99}), "max_tokens": 5}, "invalid_value", "response_format"),
    ({"response_format": wanted({}), "unmask": {"regex": "a"}}, "invalid_value", "response_format"),
    ({"response_format": wanted({}), "unmask": {"json_schema": {}}}, "invalid_value", "unmask.json_schema"),
    ({"unmask": {"regex": "("}}, "invalid_value", "unmask.regex"),
    ({"unmask": {"regex": "a)(b"}}, "invalid_value", "unmask.regex"),
    ({"unmask": {"regex": "(?=a)"}}, "invalid_value", "unmask.regex"),
    ({"unmask": {"regex": "a", "choices": ["b"]}}, "invalid_value", "unmask.choices"),
    ({"unmask": {"regex": "a", "ignore_eos": True}}, "invalid_value", "unmask.ignore_eos"),
    ({"unmask": {"regex": "a", "end_tokens": "never"}}, "invalid_value", "unmask.end_tokens"),
    ({"unmask": {"regex": "a"}, "stop": "b"}, "invalid_value", "stop"),
    ({"unmask": {"regex": "a"}, "min_tokens": 9}, "invalid_value", "min_tokens"),
    ({"unmask": {"choices": []}}, "invalid_value", "unmask.choices"),
    ({"unmask": {"template": "{{ }}"}}, "invalid_value", "unmask.template"),
    ({"unmask": {"template": "{{a}}", "holes": {"b": {"regex": "x"}}}}, "invalid_value", "unmask.holes"),
    ({"unmask": {"template": "x{{a}}", "holes": {"a": {"regex": "a)|(b"}}}}, "invalid_value", "unmask.template"),
    ({"unmask": {"json_schema": {"type": "string", "format": {}}}}, "unsupported_value", "unmask.json_schema"),
    ({"logit_bias": {"1": 5, "01": -5}}, "invalid_value", "logit_bias"),
    ({"unmask": {"holes": {}}}, "invalid_value", "unmask.holes"),
    ({"unmask": {"template": "{{a}}", "holes": {"a": {}}}}, "invalid_value", "unmask.holes"),
]


@pytest.mark.parametrize(("fields", "code", "param"), REFUSED)
async def test_what_cannot_be_honoured_is_named(http, fields, code, param):
    body = {"messages": QUESTION, **fields}
    async with http.post("/v1/chat/completions", json=body) as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"], error["param"]) == (400, code, param), error
