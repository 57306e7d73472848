"""Responses through OpenAI's own client, against a live server."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import openai
import pytest
from pydantic import BaseModel, Field

from tests.conformance.vendor_schemas import check, check_event
from tests.serving.fakes import finished, serving, until
from tests.serving.processes import serve
from tests.serving.responses import LOGPROBS, SUM, WEATHER, assembled, response_events, texts_of
from unmask.events import CanvasEvent, RequestStats
from unmask.serving.security import key_file
from unmask.serving.security.key import Key, digest, new_secret


def ask(client: openai.OpenAI, question=SUM, **fields):
    return client.responses.create(model="unmask-tiny", input=question, **fields)


def refusal(call, *arguments, **fields) -> dict:
    with pytest.raises(openai.APIStatusError) as raised:
        call(*arguments, **fields)
    return {"status": raised.value.status_code, **raised.value.body}


def test_an_answer(client):
    raw = client.responses.with_raw_response.create(model="unmask-tiny", input=SUM, metadata={"a": "b"}, user="me")
    assert int(raw.headers["x-unmask-forwards"]) >= 1
    body = json.loads(raw.text)
    check(body, "Response")
    answer = raw.parse()
    assert answer.output_text == "7 + 8 = 15"
    assert (answer.status, answer.model, answer.metadata) == ("completed", "unmask-tiny", {"a": "b"})
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert body["unmask"]["finish"] == "stop"
    assert body["unmask"]["applied"]["rule"] == "threshold"
    assert body["created_at"] <= body["completed_at"]


def test_it_is_the_chats_answer(client):
    chat = client.chat.completions.create(model="unmask-tiny", messages=[{"role": "user", "content": SUM}])
    answer = ask(client)
    assert answer.output_text == chat.choices[0].message.content
    assert answer.usage.input_tokens == chat.usage.prompt_tokens
    assert answer.usage.output_tokens == chat.usage.completion_tokens


def test_all_ways_to_say_it_are_one(client):
    parts = [{"type": "input_text", "text": "What is "}, {"type": "input_text", "text": "7 + 8?"}]
    asked = [
        SUM,
        [{"role": "user", "content": SUM}],
        [{"type": "message", "role": "user", "content": parts, "status": "completed", "id": "msg_x"}],
    ]
    assert len({(ask(client, one).output_text, ask(client, one).usage.input_tokens) for one in asked}) == 1


def test_input_tokens_are_counted_as_they_are_billed(client):
    first = ask(client, tools=[WEATHER], instructions="Be brief.")
    fields = {"input": SUM, "tools": [WEATHER], "instructions": "Be brief."}
    assert client.responses.input_tokens.count(model="unmask-tiny", **fields).input_tokens == first.usage.input_tokens
    raw = client.responses.input_tokens.with_raw_response.count(input=SUM, previous_response_id=first.id)
    check(json.loads(raw.text), "TokenCountsResource")
    assert raw.parse().input_tokens == ask(client, previous_response_id=first.id).usage.input_tokens
    told = refusal(client.responses.input_tokens.count, input=SUM, extra_body={"max_output_tokens": 5})
    assert (told["code"], told["param"]) == ("unknown_field", "max_output_tokens")
    told = refusal(client.responses.input_tokens.count, input=SUM, reasoning={"effort": "low"})
    assert told["param"] == "reasoning.effort"


def test_instructions_come_first(client):
    told = ask(client, instructions="Be brief.")
    said = ask(client, [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": SUM}])
    both = ask(
        client, [{"role": "system", "content": "Be kind."}, {"role": "user", "content": SUM}], instructions="Hm."
    )
    one = ask(client, instructions="Hm.\n\nBe kind.")
    assert told.usage.input_tokens == said.usage.input_tokens > ask(client).usage.input_tokens
    assert both.usage.input_tokens == one.usage.input_tokens
    assert told.instructions == "Be brief."


@pytest.mark.parametrize("extra", [{}, {"unmask": {"canvas": "frames"}}, {"include": [LOGPROBS], "top_logprobs": 2}])
@pytest.mark.parametrize("limit", [None, 3])
def test_streamed_is_whole(client, extra, limit):
    answer = ask(client, max_output_tokens=limit, extra_body={k: v for k, v in extra.items() if k != "unmask"})
    with client.responses.stream(model="unmask-tiny", input=SUM, max_output_tokens=limit, extra_body=extra) as stream:
        events = list(stream)
    final = events[-1].response
    assert final.status == answer.status == ("completed" if limit is None else "incomplete")
    assert final.output_text == answer.output_text
    assert final.usage == answer.usage
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == answer.output_text
    (told,), (again,) = final.output[0].content, answer.output[0].content
    assert told.logprobs == again.logprobs
    assert bool(told.logprobs) == ("include" in extra)
    assert any(event.type == "keepalive" for event in events) == ("unmask" in extra)
    if limit is None:
        assert stream.get_final_response().output_text == answer.output_text
    else:
        assert final.incomplete_details.reason == "max_output_tokens"
        assert final.usage.output_tokens == limit


async def test_events_are_in_the_schema(http):
    body = {"input": SUM, "stream": True, "include": [LOGPROBS], "top_logprobs": 1, "tools": [WEATHER]}
    async with http.post("/v1/responses", json=body) as response:
        assert response.content_type == "text/event-stream"
        events = response_events(await response.read())
    for event in events:
        check_event(event)
    assert assembled(events) == events[-1]["response"]["output"]


def test_json_that_fits_a_schema(client):
    class Pet(BaseModel):
        name: str = Field(max_length=8)
        legs: int = Field(ge=0, le=8)

    answer = client.responses.parse(model="unmask-tiny", input="A pet?", text_format=Pet)
    assert isinstance(answer.output_parsed, Pet)
    assert answer.text.format.name == "Pet"
    anything = ask(client, text={"format": {"type": "json_object"}}, max_output_tokens=300)
    if anything.status == "completed":
        assert isinstance(json.loads(anything.output_text), dict)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_call_and_its_result(client, choice):
    asked = ask(client, "Weather?", tools=[WEATHER], tool_choice=choice)
    (call,) = asked.output
    assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed")
    assert json.loads(call.arguments)["place"] in ("Paris", "Rome")
    check(json.loads(asked.model_dump_json(exclude_unset=True)), "Response")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    kept = ask(client, [result], previous_response_id=asked.id, tools=[WEATHER])
    for sent in (call, call.model_dump()):  # as it came, in both ways that clients have
        by_hand = ask(client, [{"role": "user", "content": "Weather?"}, sent, result], tools=[WEATHER])
        assert kept.output_text == by_hand.output_text
        assert kept.usage.input_tokens == by_hand.usage.input_tokens > asked.usage.input_tokens
    with client.responses.stream(model="unmask-tiny", input="Weather?", tools=[WEATHER], tool_choice=choice) as stream:
        (streamed,) = stream.get_final_response().output
    assert streamed.arguments == call.arguments


def test_going_on_from_a_response(client):
    first = ask(client)
    second = ask(client, "What is 3 + 8?", previous_response_id=first.id)
    by_hand = [
        {"role": "user", "content": SUM},
        *[item.model_dump() for item in first.output],
        {"role": "user", "content": "What is 3 + 8?"},
    ]
    assert second.usage.input_tokens == ask(client, by_hand).usage.input_tokens
    assert second.previous_response_id == first.id
    client.responses.delete(first.id)
    third = ask(client, "And 1 + 1?", previous_response_id=second.id)
    items = list(client.responses.input_items.list(third.id, order="asc"))
    texts = [item.content[0].text for item in items]
    assert texts == [SUM, first.output_text, "What is 3 + 8?", second.output_text, "And 1 + 1?"]
    assert refusal(ask, client, previous_response_id=first.id)["code"] == "previous_response_not_found"


async def test_a_response_that_broke_off_within_a_call_cannot_be_gone_on_from():
    async with serving() as live, aiohttp.ClientSession(live.url) as http:
        ids = live.prompts.tokenizer.encode_text('<tool_call>\n{"name": "get_weather", "arguments": {"place": "Par')
        stats = RequestStats(forwards=1, blocks=1, committed=len(ids))
        live.engine.on_submit = lambda command: live.engine.say(
            CanvasEvent(command.request_id, ids, stats, finish="length")
        )
        body = {"input": "Weather?", "tools": [WEATHER | {"strict": None}]}
        async with http.post("/v1/responses", json=body) as response:
            told = await response.json()
        check(told, "Response")
        (call,) = told["output"]
        assert (told["status"], call["type"], call["status"]) == ("incomplete", "function_call", "incomplete")
        assert call["arguments"] == '{"place": "Par'
        async with http.post("/v1/responses", json={"input": "?", "previous_response_id": told["id"]}) as response:
            assert response.status == 400
            assert (await response.json())["error"]["param"] == "previous_response_id"


def test_log_probabilities_are_told_once(client):
    first = ask(client, include=[LOGPROBS])
    assert client.responses.retrieve(first.id).output[0].content[0].logprobs
    second = ask(client, previous_response_id=first.id)
    sent = client.responses.input_items.list(second.id, order="asc").data
    assert [item.content[0].logprobs for item in sent if item.role == "assistant"] == [[]]


def test_kept_responses_are_found_listed_and_forgotten(client):
    with client.responses.stream(model="unmask-tiny", input=SUM) as stream:
        answer = stream.get_final_response()
    again = client.responses.retrieve(answer.id)
    assert again.model_dump() == ask_again(again).model_dump()
    assert (again.id, again.output_text, again.usage) == (answer.id, answer.output_text, answer.usage)
    listing = json.loads(client.responses.input_items.with_raw_response.list(answer.id).text)
    check(listing, "ResponseItemList")
    assert [item["content"][0]["text"] for item in listing["data"]] == [SUM]
    assert client.responses.delete(answer.id) is None
    for call in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        told = refusal(call, answer.id)
        assert (told["status"], told["code"]) == (404, "response_not_found")


def ask_again(response):
    """Through JSON and back: nothing is lost."""
    return type(response).model_validate_json(response.model_dump_json())


def test_paging_through_input_items(client):
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    answer = ask(client, said)
    pages = client.responses.input_items.list(answer.id, limit=2)
    assert len(pages.data) == 2
    assert pages.has_more
    assert [item.content[0].text for item in pages] == ["4", "3", "2", "1", "0"]
    ordered = client.responses.input_items.list(answer.id, order="asc", limit=3)
    rest = client.responses.input_items.list(answer.id, order="asc", after=ordered.data[-1].id)
    assert [item.content[0].text for item in [*ordered.data, *rest.data]] == list("01234")
    assert not rest.has_more
    assert refusal(client.responses.input_items.list, answer.id, after="msg_none")["param"] == "after"
    assert refusal(client.responses.input_items.list, answer.id, limit=101)["param"] == "limit"


def test_items_with_one_id_are_told_apart(client):
    said = [{"type": "message", "role": "user", "content": text, "id": "msg_x"} for text in "ab"]
    items = client.responses.input_items.list(ask(client, said).id).data
    assert len({item.id for item in items}) == 2


def test_what_shall_not_be_kept_is_not(client):
    answer = ask(client, store=False)
    assert answer.to_dict()["store"] is False
    assert refusal(client.responses.retrieve, answer.id)["status"] == 404


def test_only_background_responses_can_be_cancelled(client):
    told = refusal(client.responses.cancel, ask(client).id)
    assert (told["status"], told["code"]) == (400, "invalid_value")
    assert "background" in told["message"]


def test_seeds_make_answers_repeatable(client):
    texts = {ask(client, temperature=1.0, extra_body={"seed": 5, "stop": "="}).output_text for _ in range(3)}
    assert len(texts) == 1
    assert "=" not in texts.pop()


def test_others_do_not_find_it(server):
    mine, yours = (openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) for key in ("mine", "yours"))
    with mine, yours:
        answer = ask(mine, user="a")
        assert mine.responses.retrieve(answer.id).id == answer.id
        for call in (yours.responses.retrieve, yours.responses.delete, yours.responses.input_items.list):
            assert refusal(call, answer.id)["status"] == 404
        told = refusal(ask, yours, previous_response_id=answer.id)
        assert (told["code"], told["param"]) == ("previous_response_not_found", "previous_response_id")
        assert mine.responses.retrieve(answer.id).id == answer.id


async def test_a_key_sees_its_own_responses_if_it_may_make_any(tmp_path):
    secrets = {name: new_secret() for name in ("ann", "bob", "cat")}
    keys = [
        Key(name=name, sha256=digest(secret.encode()), scopes=("models",) if name == "cat" else ("generate",))
        for name, secret in secrets.items()
    ]
    key_file.write(tmp_path / "keys.json", keys)
    async with serving(keys=tmp_path / "keys.json") as live, aiohttp.ClientSession(live.url) as http:
        live.engine.answer(live.prompts.tokenizer.encode_text("15"))
        headers = {name: {"authorization": f"Bearer {secret}"} for name, secret in secrets.items()}
        async with http.post("/v1/responses", json={"input": SUM}, headers=headers["ann"]) as response:
            made = (await response.json())["id"]
        found = {}
        for name in secrets:
            async with http.get(f"/v1/responses/{made}", headers=headers[name]) as response:
                found[name] = response.status
    assert found == {"ann": 200, "bob": 404, "cat": 403}


def test_a_file_keeps_responses_over_a_restart(tmp_path):
    path = str(tmp_path / "responses.db")
    with serve("--store", path) as first, openai.OpenAI(base_url=f"{first.url}/v1", api_key="k") as client:
        answer = ask(client)
    with serve("--store", path) as second, openai.OpenAI(base_url=f"{second.url}/v1", api_key="k") as client:
        assert client.responses.retrieve(answer.id) == answer
        assert ask(client, "And 1 + 1?", previous_response_id=answer.id).output_text


async def test_an_engine_that_fails_ends_the_stream_with_an_error():
    async with serving() as live, aiohttp.ClientSession(live.url) as http:
        async with http.post("/v1/responses", json={"input": SUM, "stream": True}) as response:
            await until(lambda: len(live.engine.submitted) == 1)
            (command,) = live.engine.submitted
            live.engine.say(CanvasEvent.failure(command.request_id, "engine_fault", "The engine stumbled."))
            *_, error, failed = response_events(await response.read())
        assert (error["type"], error["code"]) == ("error", "engine_fault")
        assert (failed["type"], failed["response"]["status"]) == ("response.failed", "failed")
        check(failed, "ResponseFailedEvent")
        async with http.get(f"/v1/responses/{failed['response']['id']}") as gone:
            assert gone.status == 404


async def test_silence_is_filled_with_comments():
    async with (
        serving(keep_alive_seconds=0.05) as live,
        aiohttp.ClientSession(live.url) as http,
        http.post("/v1/responses", json={"input": SUM, "stream": True}) as response,
    ):
        await until(lambda: len(live.engine.submitted) == 1)
        await asyncio.sleep(0.2)
        live.engine.say(finished(live.engine.submitted[0].request_id, live.prompts.tokenizer.encode_text("15")))
        body = await response.read()
    assert body.count(b": keep-alive\n\n") >= 2
    assert texts_of(response_events(body)[-1]["response"]["output"], "message") == ["15"]


async def test_a_response_that_cannot_be_kept_is_told_and_says_so():
    async with serving() as live, aiohttp.ClientSession(live.url) as http:
        live.engine.answer(live.prompts.tokenizer.encode_text("15"))
        live.responses._database.execute("DROP TABLE responses")
        for stream in (False, True):
            async with http.post("/v1/responses", json={"input": SUM, "stream": stream}) as response:
                assert response.status == 200
                body = await response.read()
            told = response_events(body)[-1]["response"] if stream else json.loads(body)
            assert (told["status"], told["store"]) == ("completed", False)
            assert texts_of(told["output"], "message") == ["15"]
        async with http.get(f"/v1/responses/{told['id']}") as response:
            assert response.status == 500
            assert (await response.json())["error"]["code"] == "store_unusable"


async def test_a_client_that_leaves_takes_its_request_along_and_nothing_is_kept():
    async with serving() as live:
        async with (
            aiohttp.ClientSession(live.url) as http,
            http.post("/v1/responses", json={"input": SUM, "stream": True}) as response,
        ):
            await until(lambda: len(live.engine.submitted) == 1)
            created = json.loads((await response.content.readuntil(b"\n\n")).partition(b"data: ")[2])
        await until(lambda: len(live.engine.cancelled) == 1)
        assert await live.responses.find("", created["response"]["id"]) is None
