"""Echoed prompts and their scores: over a live server as evaluation tools ask for them, and with a scripted engine."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_scoring import slow_scores
from tests.engines import make_loop
from tests.serving.fakes import MODEL, serving, until
from tests.serving.wire import events, finish_of, text_of
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.events import CanvasEvent, RequestStats, TokenLogprob
from unmask.serving.echo import EchoedPrompt

COMPLETIONS = "/v1/completions"
TEXTS = ["What is 7 + 8?", "Emma is a writer. Carl lives in Athens. What is the job of Emma? \U0001f989", "a"]
EVALUATION = {"model": "unmask-tiny", "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}


@pytest.fixture(scope="module")
def loop():
    """The embedded model, for forwards of its own."""
    return make_loop(EMBEDDED_MODEL)


@pytest.fixture(scope="module")
def tokenizer(loop):
    return PromptEncoder(EMBEDDED_MODEL, loop.model).tokenizer


async def post(http, body, path=COMPLETIONS):
    async with http.post(path, json=body) as response:
        return response.status, await response.json()


async def ask(http, body):
    status, answer = await post(http, body)
    assert status == 200, answer
    return answer


async def stream(http, body):
    async with http.post(COMPLETIONS, json=body | {"stream": True, "stream_options": {"include_usage": True}}) as reply:
        return events(await reply.read())


def entries_of(chunks, index):
    """The four lists of one choice, put together from its chunks."""
    told = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    lists = [choice["logprobs"] for choice in told if choice["logprobs"] is not None]
    return {name: [value for one in lists for value in one[name]] for name in lists[0]} if lists else None


def read_as_evaluations_do(choice, context):
    """lm-evaluation-harness' way: (log-likelihood, is greedy) of what follows the first ``context`` tokens."""
    logprobs = choice["logprobs"]["token_logprobs"][context:-1]
    tops = choice["logprobs"]["top_logprobs"][context:-1]
    return sum(logprobs), all(own == max(top.values()) for own, top in zip(logprobs, tops, strict=True))


@pytest.mark.parametrize("as_text", [False, True])
async def test_what_an_evaluation_reads_is_the_chain_rule(http, loop, tokenizer, as_text):
    pairs = [("What is 7 + 8?", " 7 + 8 = 15"), ("Count from 1 to 5.", " 1 2 3 4 5"), ("a", " b")]
    encoded = [(tokenizer.encode_text(context), tokenizer.encode_text(context + ending)) for context, ending in pairs]
    prompt = [context + ending for context, ending in pairs] if as_text else [ids for _, ids in encoded]
    answer = await ask(http, EVALUATION | {"prompt": prompt})
    for choice, (context, ids) in zip(answer["choices"], encoded, strict=True):
        likelihood, greedy = read_as_evaluations_do(choice, len(context))
        slow = slow_scores(loop, ids, 1, block_length=loop.model.block_length)[len(context) - 1 :]
        assert likelihood == pytest.approx(sum(chosen for chosen, _ in slow), abs=2e-3)
        assert greedy == all(chosen == best[0] for chosen, best in slow)


async def test_a_right_ending_behind_a_chat_prompt_is_greedy(http, loop):
    """The embedded model answers chats: the special tokens of its template go as ids."""
    async with http.post("/tokenize", json={"messages": [{"role": "user", "content": "What is 7 + 8?"}]}) as reply:
        context = (await reply.json())["tokens"]
    found = {}
    for ending in ("7 + 8 = 15", "7 + 8 = 14"):
        async with http.post("/tokenize", json={"prompt": ending}) as reply:
            ids = context + (await reply.json())["tokens"]
        (choice,) = (await ask(http, EVALUATION | {"prompt": ids}))["choices"]
        found[ending] = read_as_evaluations_do(choice, len(context))
    assert found["7 + 8 = 15"][1]
    assert not found["7 + 8 = 14"][1]
    assert math.exp(found["7 + 8 = 15"][0]) > 0.9 > 0.1 > math.exp(found["7 + 8 = 14"][0])


FIELDS = [
    {"max_tokens": 0, "logprobs": 1},
    {"max_tokens": 0},
    {"max_tokens": 1, "logprobs": 0},
    {"max_tokens": 24, "logprobs": 2},
    {"max_tokens": 24},
    {"max_tokens": 24, "logprobs": 1, "stop": " "},
    {"max_tokens": 24, "logprobs": 1, "ignore_eos": True, "temperature": 1.0, "unmask": {"rule": "d2f"}},
]


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("prompt", [TEXTS, [[3, 9, 12, 700], [2]]], ids=["texts", "ids"])
async def test_streamed_and_whole_are_equal_and_the_answer_is_the_plain_one(http, tokenizer, prompt, fields):
    body = {"prompt": prompt, "seed": 7} | fields
    whole = await ask(http, body | {"echo": True})
    chunks = await stream(http, body | {"echo": True})
    plain = await ask(http, body) if fields["max_tokens"] else None
    usage = whole["usage"]
    for chunk in chunks[:-1]:
        assert chunk["usage"] is None
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert chunks[-1]["usage"][count] == usage[count]
        assert plain is None or plain["usage"][count] == usage[count]
    assert plain or usage["completion_tokens"] == 0
    for index, choice in enumerate(whole["choices"]):
        ids = prompt[index] if isinstance(prompt[index], list) else tokenizer.encode_text(prompt[index])
        shown = prompt[index] if isinstance(prompt[index], str) else tokenizer.decode(ids, keep_special=True)
        own = plain["choices"][index] if plain else {"text": "", "finish_reason": "length", "logprobs": None}
        assert choice["text"] == text_of(chunks, index) == shown + own["text"]
        assert choice["finish_reason"] == finish_of(chunks, index) == own["finish_reason"]
        told, streamed = choice["logprobs"], entries_of(chunks, index)
        if "logprobs" not in fields:
            assert told is streamed is None
            continue
        assert told["tokens"] == streamed["tokens"]
        assert told["text_offset"] == streamed["text_offset"]
        assert told["token_logprobs"][1:] == pytest.approx(streamed["token_logprobs"][1:], abs=1e-4)
        check_entries(choice, len(ids), own, fields)


def check_entries(choice, prompt_tokens, plain, fields):
    """One for each token, the first without a number; behind the prompt those of the plain answer."""
    told, text = choice["logprobs"], choice["text"]
    assert len({len(values) for values in told.values()}) == 1
    assert told["token_logprobs"][0] is told["top_logprobs"][0] is None
    assert all(value <= 0 for value in told["token_logprobs"][1:])
    assert all(1 <= len(top) <= fields["logprobs"] + 1 for top in told["top_logprobs"][1:])
    assert all(first <= second for first, second in pairwise(told["text_offset"]))
    for token, offset in zip(told["tokens"], told["text_offset"], strict=True):
        special = token.startswith(("bytes:", "<|"))
        assert special or text[offset:].startswith(token[: len(text) - offset])
    if plain["logprobs"] is None:
        assert len(told["tokens"]) == prompt_tokens
        return
    count = len(plain["logprobs"]["tokens"])
    behind = {name: values[prompt_tokens : prompt_tokens + count] for name, values in told.items()}
    assert behind["tokens"] == plain["logprobs"]["tokens"]
    assert behind["token_logprobs"] == pytest.approx(plain["logprobs"]["token_logprobs"], abs=1e-4)
    prompt_text = len(text) - len(plain["text"])
    assert behind["text_offset"] == [prompt_text + offset for offset in plain["logprobs"]["text_offset"]]
    closing = told["tokens"][prompt_tokens + count :]
    if "stop" in fields:  # which of the two ended the answer cannot be seen here
        assert closing in ([], ["<|endoftext|>"])
    else:
        assert closing == (["<|endoftext|>"] if plain["finish_reason"] == "stop" else [])


async def test_the_answers_of_a_prompt_share_one_score(http):
    body = {"prompt": [TEXTS[0], "a b c"], "n": 2, "temperature": 1.0, "seed": 3, "max_tokens": 6, "logprobs": 1}
    plain, echoed = await ask(http, body), await ask(http, body | {"echo": True})
    assert echoed["usage"] == plain["usage"] | {"prompt_tokens_details": echoed["usage"]["prompt_tokens_details"]}
    for number, (choice, own) in enumerate(zip(echoed["choices"], plain["choices"], strict=True)):
        assert choice["text"] == body["prompt"][number // 2] + own["text"]
        check_entries(choice, len(choice["logprobs"]["tokens"]) - behind(own), own, body)
    scores = [choice["unmask"]["scoring"] for choice in echoed["choices"]]
    assert scores[0] == scores[1]
    assert scores[2] == scores[3]


def behind(choice):
    """The entries of a plain answer, and of the end token that closed it."""
    return len(choice["logprobs"]["tokens"]) + (choice["finish_reason"] == "stop")


async def test_every_counted_token_has_an_entry(http):
    """So that a reader who leaves out the last one, as evaluations do, leaves out the answer's, also an end token."""
    for prompt in ("a b", "What is 7 + 8?", [3, 9, 12, 41, 7, 100]):
        answer = await ask(http, EVALUATION | {"prompt": prompt})
        assert len(answer["choices"][0]["logprobs"]["tokens"]) == answer["usage"]["total_tokens"]


async def test_what_scoring_cost_is_told(http, tokenizer):
    ids = [3, 9, *range(20, 60)]
    for max_tokens in (0, 4):
        report = (await ask(http, EVALUATION | {"prompt": ids, "max_tokens": max_tokens}))["unmask"]
        scoring = report["scoring"]
        assert scoring["forwards"] + scoring["drafts_accepted"] == len(ids) - 1
        assert scoring["canvas_tokens"] >= len(ids) - 1
        assert report["applied"]["max_tokens"] == max_tokens
        assert bool(report["forwards"]) == bool(max_tokens)
        assert report["discarded_tokens"] >= 0
    assert "scoring" not in (await ask(http, {"prompt": ids, "max_tokens": 4, "echo": True}))["unmask"]


async def test_sixteen_evaluations_at_once_get_what_they_get_alone(http):
    prompts = [[(7 * n + 11 * i) % 900 + 7 for i in range(n)] for n in range(2, 50, 3)]
    alone = [(await ask(http, EVALUATION | {"prompt": ids}))["choices"][0]["logprobs"] for ids in prompts]
    together = await asyncio.gather(*(ask(http, EVALUATION | {"prompt": ids}) for ids in prompts))
    for one, answer in zip(alone, together, strict=True):
        other = answer["choices"][0]["logprobs"]
        assert other["tokens"] == one["tokens"]
        assert other["token_logprobs"][1:] == pytest.approx(one["token_logprobs"][1:], abs=2e-4)


async def test_a_whole_context_is_scored_and_no_more(http):
    ids = [7 + n % 900 for n in range(1024)]
    answer = await ask(http, EVALUATION | {"prompt": ids, "max_tokens": 0})
    assert len(answer["choices"][0]["logprobs"]["tokens"]) == 1024
    for body in ({"prompt": [*ids, 9], "max_tokens": 0}, {"prompt": ids, "max_tokens": 1}):
        status, refusal = await post(http, EVALUATION | body)
        assert status == 400
        assert refusal["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"echo": 1}, "echo"),
        ({"echo": True, "logprobs": 6}, "logprobs"),
        ({"echo": True, "max_tokens": -1}, "max_tokens"),
        ({"echo": True, "max_tokens": 0, "temperature": -1}, "temperature"),
        ({"echo": True, "max_tokens": 0, "unmask": {"steps": 0}}, "unmask.steps"),
        ({"echo": True, "prompt": ""}, "prompt"),
        ({"echo": True, "logprobs": 1, "prompt": ["a b"] * 81}, "prompt"),  # two requests each; 160 have room
        ({"echo": True, "logprobs": 1, "prompt_logprobs": 1}, "prompt_logprobs"),
    ],
)
async def test_what_cannot_be_honoured_is_named(http, fields, param):
    status, refusal = await post(http, {"prompt": "a b"} | fields)
    assert status == 400
    assert refusal["error"]["param"] == param


# --- a scripted engine


def scored(request_id, count, finish="length"):
    entries = [TokenLogprob(9, -0.5, [(9, -0.5)])] * count
    stats = RequestStats(forwards=1, committed=max(9, count))
    return CanvasEvent(request_id, [9] * count, stats, finish, logprobs=entries)


def answered(request_id, ids, finish=None):
    entries = [TokenLogprob(index, -0.25, []) for index in ids]
    return CanvasEvent(request_id, ids, RequestStats(forwards=1, committed=9), finish, logprobs=entries)


async def test_what_is_answered_before_the_score_waits_for_it():
    async with serving() as server, aiohttp.ClientSession(server.url) as http:
        body = {"prompt": [20, 9, 9], "echo": True, "logprobs": 0, "max_tokens": 8, "stream": True}
        async with http.post(COMPLETIONS, json=body) as reply:
            await until(lambda: len(server.engine.submitted) == 2)
            answer, score = server.engine.submitted
            assert score.params.answer == (9, 9)
            assert (answer.prompt_ids, answer.params.answer) == ([20, 9, 9], ())
            server.engine.say(answered(answer.request_id, [30]))
            server.engine.say(answered(answer.request_id, [31], finish="length"))
            server.engine.say(scored(score.request_id, 1, finish=None))
            server.engine.say(scored(score.request_id, 1))
            chunks = events(await reply.read())
    lists = entries_of(chunks, 0)
    assert lists["token_logprobs"] == [None, -0.5, -0.5, -0.25, -0.25]
    assert chunks[0]["choices"][0]["text"] == server.model.tokenizer.decode([20, 9, 9], keep_special=True)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_score_that_time_ended_is_an_error(streamed):
    async with serving() as server, aiohttp.ClientSession(server.url) as http:
        body = {"prompt": [20, 9, 9], "echo": True, "logprobs": 0, "max_tokens": 0, "stream": streamed}
        server.engine.on_submit = lambda command: server.engine.say(scored(command.request_id, 1, finish="timeout"))
        async with http.post(COMPLETIONS, json=body) as reply:
            status, said = reply.status, await reply.text()
    assert status == (200 if streamed else 503)
    assert "scoring_timeout" in said
    assert "1 of 2 tokens" in said
    assert "[DONE]" not in said


async def test_a_client_that_leaves_takes_its_score_along():
    async with serving() as server:
        async with aiohttp.ClientSession(server.url) as http:
            body = {"prompt": [[20, 9, 9], [20, 30]], "echo": True, "logprobs": 0, "max_tokens": 8}
            asking = asyncio.create_task(http.post(COMPLETIONS, json=body))
            await until(lambda: len(server.engine.submitted) == 4)
            asking.cancel()
            await until(lambda: len(server.engine.cancelled) == 4)
        assert {command.request_id for command in server.engine.submitted} == {*server.engine.cancelled}


async def test_a_model_that_renoises_echoes_and_refuses_to_score():
    async with serving() as server, aiohttp.ClientSession(server.url) as http:
        info = msgspec.structs.replace(
            MODEL, family="diffusion_gemma", denoiser="renoise", rules=("entropy_bound",), mask_id=None
        )
        server.model.variants = {MODEL.name: info}
        status, refusal = await post(http, {"prompt": "a b", "echo": True, "logprobs": 1})
        assert (status, refusal["error"]["param"]) == (400, "logprobs")
        assert "diffusion_gemma" in refusal["error"]["message"]
        server.engine.answer([30])
        echoed = await ask(http, {"prompt": "a b", "echo": True})
        assert echoed["choices"][0]["text"].startswith("a b")


@given(ids=st.lists(st.integers(0, 1023).filter(lambda index: index != 6), min_size=1, max_size=40))
def test_a_prompt_of_any_ids_is_shown_as_it_reads(tokenizer, ids):
    shown = EchoedPrompt.of(tokenizer, ids, None)
    assert shown.text == tokenizer.decode(ids, keep_special=True)
    assert shown.offsets[0] == 0
    assert shown.offsets == sorted(shown.offsets)
    assert shown.offsets[-1] <= len(shown.text)


@given(text=st.text(min_size=1, max_size=60).filter(lambda text: text.isprintable()))
def test_offsets_of_a_text_are_where_its_tokens_begin(tokenizer, text):
    ids = tokenizer.encode_text(text)
    shown = EchoedPrompt.of(tokenizer, ids, text)
    assert shown.text == text
    for token_id, offset in zip(ids, shown.offsets, strict=True):
        piece = tokenizer.pieces([token_id])[0]
        assert "\ufffd" in piece or text[offset:].startswith(piece)


async def test_answers_without_tokens_count_as_answers():
    """They need no place in the queue; all the same a small body must not ask for very many."""
    async with serving(capacity=8) as fake, aiohttp.ClientSession(fake.url) as http:
        body = {"prompt": ["x"] * 4, "echo": True, "max_tokens": 0}
        answer = await ask(http, body | {"n": 2})
        assert [choice["text"] for choice in answer["choices"]] == ["x"] * 8
        status, refusal = await post(http, body | {"n": 3})
        assert (status, refusal["error"]["param"]) == (400, "prompt")
        assert refusal["error"]["message"].startswith("12 answers at once; this server holds 8.")


async def test_copies_do_not_repeat_very_many_scores():
    async with serving(capacity=400) as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.on_submit = lambda command: fake.engine.say(scored(command.request_id, 999))
        body = {"prompt": [[9] * 1000] * 3, "echo": True, "max_tokens": 0, "logprobs": 1}
        status, refusal = await post(http, body | {"n": 128})
        assert (status, refusal["error"]["param"]) == (400, "n")
        assert len((await ask(http, body | {"n": 2}))["choices"]) == 6


@pytest.mark.parametrize("streamed", [False, True])
async def test_others_are_served_while_many_scores_are_told(streamed):
    async with serving(capacity=200) as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.on_submit = lambda command: fake.engine.say(scored(command.request_id, 999))
        body = {"prompt": [9] * 1000, "echo": True, "max_tokens": 0, "logprobs": 1, "n": 128, "stream": streamed}

        async def read() -> None:
            async with http.post(COMPLETIONS, json=body) as reply:
                await reply.read()

        telling, served = asyncio.create_task(read()), 0
        while not telling.done():
            async with http.get("/health") as health:
                served += health.status == 200
        await telling
    assert served > 5
