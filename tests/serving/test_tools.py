"""Tools, several answers, and snapshots over HTTP: the embedded model cannot choose a tool, but can be made to."""

from __future__ import annotations

import json

import openai
import pytest
from openai.lib.streaming.chat import ContentDeltaEvent

from tests.serving.wire import events

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
MARBLES = [  # an answer of two blocks: the first snapshot cannot be the last
    {
        "role": "user",
        "content": "Gina has 12 marbles. Bob has 4 more marbles than Gina. How many marbles do they have together?",
    }
]
SUM = [{"role": "user", "content": "What is 7 + 8?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "maxLength": 8}, "days": {"enum": [1, 2, 3]}},
            "required": ["place", "days"],
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}


def ask(client: openai.OpenAI, messages=QUESTION, **fields):
    return client.chat.completions.create(model="unmask-tiny", messages=messages, **fields)


def named(name: str) -> dict:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize("choice", ["required", named("get_weather"), named("now")])
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1, "seed": 5}])
def test_a_forced_call_fits_its_schema_streamed_and_whole(client, choice, sampling):
    fields = {"tools": [WEATHER, NOW], "tool_choice": choice, **sampling}
    answer = ask(client, **fields)
    (call,) = answer.choices[0].message.tool_calls
    arguments = json.loads(call.function.arguments)
    if call.function.name == "now":
        assert arguments == {}
    else:
        assert len(arguments["place"]) <= 8
        assert arguments["days"] in (1, 2, 3)
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content is None
    with client.chat.completions.stream(
        model="unmask-tiny", messages=QUESTION, stream_options={"include_usage": True}, **fields
    ) as stream:
        assert not any(isinstance(event, ContentDeltaEvent) and event.delta for event in stream)
        streamed = stream.get_final_completion()
    assert streamed.choices[0].finish_reason == "tool_calls"
    (again,) = streamed.choices[0].message.tool_calls
    assert (again.function.name, again.function.arguments) == (call.function.name, call.function.arguments)
    assert streamed.usage.completion_tokens == answer.usage.completion_tokens


def test_a_call_and_its_result_go_on_as_a_conversation(client):
    call = ask(client, tools=[WEATHER], tool_choice="required").choices[0].message
    result = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "sunny"}
    answer = ask(client, [*QUESTION, call.model_dump(exclude_none=True), result], tools=[WEATHER])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.tool_calls is None


def test_a_choice_of_none_does_not_tell_of_tools(client):
    plain = ask(client, SUM)
    assert ask(client, SUM, tools=[WEATHER], tool_choice="none").choices[0].message == plain.choices[0].message
    told = ask(client, SUM, tools=[WEATHER])
    assert told.usage.prompt_tokens > plain.usage.prompt_tokens


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": named("other")}, "tool_choice"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [WEATHER] * 129}, "tools"),
        ({"tools": [WEATHER], "tool_choice": "required", "response_format": {"type": "json_object"}}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "required", "extra_body": {"unmask": {"regex": "a"}}}, "tool_choice"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"extra_body": {"diffusing": True, "n": 2}}, "n"),
        ({"extra_body": {"diffusing": True, "stream": False}}, "stream"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
    ],
)
def test_what_does_not_fit_is_named(client, fields, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(client, **fields)
    assert refusal.value.param == param


def test_the_largest_seed_is_followed_by_the_smallest(client):
    answer = ask(client, QUESTION, n=2, seed=2**63 - 1, max_tokens=4)
    assert [choice.unmask["applied"]["seed"] for choice in answer.choices] == [2**63 - 1, -(2**63)]
    with pytest.raises(openai.BadRequestError, match=f"'seed' is {2**63}"):
        ask(client, QUESTION, n=2, seed=2**63, max_tokens=4)


def test_several_answers_are_each_the_one_that_its_seed_gives(client):
    fields = {"temperature": 1.5, "max_tokens": 24}
    answers = ask(client, QUESTION, n=3, seed=20, **fields)
    alone = [ask(client, QUESTION, seed=20 + number, **fields) for number in range(3)]
    assert [choice.message.content for choice in answers.choices] == [one.choices[0].message.content for one in alone]
    assert [choice.index for choice in answers.choices] == [0, 1, 2]
    assert answers.usage.prompt_tokens == alone[0].usage.prompt_tokens
    assert answers.usage.completion_tokens == sum(one.usage.completion_tokens for one in alone)
    with client.chat.completions.stream(
        model="unmask-tiny", messages=QUESTION, n=3, seed=20, stream_options={"include_usage": True}, **fields
    ) as stream:
        streamed = stream.get_final_completion()
    assert [choice.message.content for choice in streamed.choices] == [
        choice.message.content for choice in answers.choices
    ]
    assert streamed.usage.total_tokens == answers.usage.total_tokens


def test_several_completions_of_several_prompts(client):
    fields = {"temperature": 1.5, "max_tokens": 8}
    both = client.completions.create(model="unmask-tiny", prompt=["one two", "7 + 8 ="], n=2, seed=3, **fields)
    alone = [
        client.completions.create(model="unmask-tiny", prompt=prompt, seed=seed, **fields)
        for prompt in ("one two", "7 + 8 =")
        for seed in (3, 4)
    ]
    assert [choice.text for choice in both.choices] == [one.choices[0].text for one in alone]
    assert both.usage.prompt_tokens == alone[0].usage.prompt_tokens + alone[2].usage.prompt_tokens


async def test_snapshots_of_a_live_answer(http):
    body = {"messages": MARBLES, "diffusing": True, "unmask": {"rule": "low_confidence"}}
    async with http.post("/v1/chat/completions", json=body) as response:
        chunks = events(await response.read())
    del body["diffusing"]
    async with http.post("/v1/chat/completions", json=body) as plain:
        answer = await plain.json()
        assert plain.headers["x-unmask-forwards"] == str(answer["unmask"]["forwards"])
        assert float(plain.headers["x-unmask-tokens-per-forward"]) == answer["unmask"]["tokens_per_forward"]
    *snapshots, last = chunks
    contents = [chunk["choices"][0]["delta"]["content"] for chunk in snapshots]
    assert contents[-1] == answer["choices"][0]["message"]["content"]
    assert len(set(contents)) > 1, "noisy snapshots came before"
    assert last["unmask"]["forwards"] == answer["unmask"]["forwards"]
