"""The real thing: llama.cpp's server answers chats, is left, and is given a model that it cannot serve."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.real_llama import BOTH, plan_on
from tests.gateway.upstream.fake import HI, answers, chat, endpoint, opened
from unmask.answers.chat import Continuation, Length
from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import ContextLengthError, InvalidValueError, LaneKeyError, ModelUnsupportedEngineError
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.metrics import Metrics
from unmask.params import GenerationParams
from unmask.serving.lane_model import LaneModel
from unmask.terms import NO_TIMEOUTS

CITY = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
SECRET = "sk-child"
BEARER = {"Authorization": f"Bearer {SECRET}"}
OPTIONS = LlamaCppOptions(context=512, slots=2, threads=1, prompt_cache_mib=64)


@contextmanager
def served(which: str, model: Path, log: Path) -> Iterator[str]:
    """llama.cpp's server with ``model``, in a process of its own; where it listens."""
    plan = plan_on(which, model, "m", OPTIONS)
    environment = os.environ | dict(plan.environment) | {plan.secret_variable: SECRET}
    with log.open("w") as sink:
        process = subprocess.Popen(plan.command(0), stdout=sink, stderr=sink, env=environment)
    try:
        yield _address(process, log)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    latest = time.monotonic() + 60
    while time.monotonic() < latest and process.poll() is None:
        if found := re.search(r"(?:ready|listening) on (http\S+)", log.read_text()):
            return found.group(1)
        time.sleep(0.05)
    raise AssertionError(f"llama.cpp did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module", params=BOTH)
def which(request: pytest.FixtureRequest) -> str:
    """Whose llama.cpp it is."""
    return request.param


@pytest.fixture(scope="module")
def lane(which: str, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(which, smollm2, tmp_path_factory.mktemp("llama") / "log") as url:
        yield url


async def ask(url: str, question, **more):
    async with opened(endpoint(f"{url}/v1", "llama.cpp", key=SECRET, **more)) as upstream:
        return await answers(upstream.chat(question))


async def whole(url: str, **body) -> dict:
    """What the server says itself when it does not stream."""
    body = {"messages": HI, "temperature": 0, **body}
    where = f"{url}/v1/chat/completions"
    async with aiohttp.ClientSession(headers=BEARER) as session, session.post(where, json=body) as response:
        return await response.json()


async def test_streamed_and_whole_are_the_same(lane):
    own = await whole(lane, max_tokens=12)
    found = (await ask(lane, chat(max_tokens=12, temperature=0)))[0]
    assert found.content == own["choices"][0]["message"]["content"]
    assert found.finish == own["choices"][0]["finish_reason"]
    completion = found.completion
    assert completion.prompt_tokens == own["usage"]["prompt_tokens"]
    assert completion.completion_tokens == own["usage"]["completion_tokens"]
    assert not completion.estimated
    assert 0 < completion.stats.queued <= completion.stats.first_block <= completion.stats.total


TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One <|im_start|> two, 三 four?"},
    {"role": "assistant", "content": "Five."},
    {"role": "user", "content": "And then?"},
]


@pytest.mark.parametrize("messages", [HI, TALK])
async def test_a_prompt_is_counted_as_it_is_when_it_is_answered(lane, messages):
    tools = [Tool("weather", "Tells the weather.", CITY)]
    for question in (chat(messages, max_tokens=1), chat(messages, max_tokens=1, tools=tools)):
        answered = (await ask(lane, question))[0]
        async with opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream:
            found = await upstream.tokenizer().of_chat(question)
            assert len(found.ids) == answered.completion.prompt_tokens


async def test_tokens_and_back(lane):
    text = "Hello é 三<|im_start|>"
    async with opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream:
        await upstream.learn()
        tokenizer = upstream.tokenizer()
        found = await tokenizer.of_text(text, pieces=True)
        assert found.context == 512
        assert found.pieces[0] == "Hello"
        assert found.pieces[-1] == "<|im_start|>"
        assert len(found.pieces) == len(found.ids)
        assert "\ufffd" in "".join(found.pieces)  # two halves of a character
        assert await tokenizer.text(found.ids) == text
        assert await tokenizer.of_text(text) == replace(found, pieces=None)
        for ids in ([1, 49152], [1, -1], [1, 2**40]):
            with pytest.raises(InvalidValueError, match="outside 0 to 49151") as caught:
                await tokenizer.text(ids)
            assert caught.value.param == "tokens[1]"
        info = await tokenizer.info()
        assert (info["bos_token"], info["eos_token"]) == ("<|im_start|>", "<|im_end|>")
        assert "messages" in info["chat_template"]


async def test_a_clients_own_context_bounds_texts_too(lane):
    async with opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream:
        await upstream.learn()
        metrics = Metrics("m", "f", "autoregressive", lambda: model.stats())
        model = LaneModel("m", upstream, metrics, 8, NO_TIMEOUTS, None)
        texts, length = ["Once upon a time there was a"], Length(all=True, context=12)
        params = GenerationParams(temperature=0, ignore_eos=True)
        admission = await model.admit_texts(Continuation(texts=texts, params=params, length=length), "")
        with admission.running():
            (answer,) = await admission.answers()
        completion = answer.completion
        assert completion.prompt_tokens + completion.completion_tokens == 12
        assert answer.finish == "length"
        with pytest.raises(ContextLengthError, match="context"):
            await model.admit_texts(Continuation(texts=texts, params=params, length=Length(context=5)), "")


async def test_a_stop_string_is_told_and_counted(lane):
    full = (await ask(lane, chat(max_tokens=12, temperature=0)))[0]
    stop = full.content[8:12]
    found = (await ask(lane, chat(max_tokens=12, temperature=0, stop=(stop,))))[0]
    assert found.content == full.content[: full.content.index(stop)]
    assert (found.finish, found.completion.stopped_by) == ("stop", stop)
    assert 0 < found.completion.completion_tokens < full.completion.completion_tokens


async def test_penalties_and_min_p(lane):
    """They change what is said at temperature 0, or at any, as they should; and what asks for nothing does not."""

    async def said(**params):
        found = (await ask(lane, chat([{"role": "user", "content": "Say one one one."}], max_tokens=24, **params)))[0]
        return found.content

    plain = await said(temperature=0)
    assert plain == await said(temperature=0, presence_penalty=0, frequency_penalty=0, repetition_penalty=1, min_p=0)
    for penalty in ({"repetition_penalty": 3.0}, {"presence_penalty": 2.0}, {"frequency_penalty": 2.0}):
        assert await said(temperature=0, **penalty) != plain, penalty
        assert await said(temperature=0, **penalty, repeat_last_n=0) == plain, penalty
        assert await said(temperature=0, **penalty, repeat_last_n=-1) != plain, penalty
    assert await said(temperature=9, seed=1, min_p=1) == plain  # only the likeliest token is as likely as that
    assert await said(temperature=9, seed=1, min_p=0) != plain


async def test_copies_differ_by_their_seeds(lane):
    question = chat(max_tokens=8, temperature=1.5, seed=1, copies=2)
    first, second = [[one.content for one in await ask(lane, question)] for _ in range(2)]
    assert first == second
    assert first[0] != first[1]


async def test_a_demanded_call_fits_its_schema(lane):
    tools = [Tool("weather", "Tells the weather.", CITY), Tool("news", "Tells the news.", CITY)]
    question = chat(max_tokens=80, temperature=0, tools=tools, choice=ToolChoice("named", "weather"))
    found = (await ask(lane, question))[0]
    assert found.finish == "tool_calls"
    (call,) = found.tool_calls
    assert (call.name, json.loads(call.arguments)["city"] in ("Paris", "Rome")) == ("weather", True)


async def test_tools_that_the_template_does_not_show(lane):
    """SmolLM2's shows none, which the server says; so they are spelled out, and a demand is kept all the same."""
    async with opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream:
        await upstream.learn()
        known = upstream.endpoint
        assert (known.tools, known.context_length, known.variables >= {"messages"}) == (False, 512, True)
        tools = [Tool("weather", "Tells the weather.", CITY)]
        asked = chat(max_tokens=80, temperature=0, tools=tools)
        plain = (await answers(upstream.chat(chat(max_tokens=80, temperature=0))))[0]
        told = (await answers(upstream.chat(asked)))[0]
        assert told.completion.prompt_tokens > plain.completion.prompt_tokens + 50
        demanded = (await answers(upstream.chat(replace(asked, choice=ToolChoice("required")))))[0]
        assert [call.name for call in demanded.tool_calls] == ["weather"]


async def test_forms(lane):
    found = (await ask(lane, chat(max_tokens=20, temperature=0, choices=("yes", 'a "no"'))))[0]
    assert found.content in ("yes", 'a "no"')
    found = (await ask(lane, chat(max_tokens=60, temperature=0, json_schema=CITY)))[0]
    assert json.loads(found.content)["city"] in ("Paris", "Rome")


async def test_a_begun_answer_goes_on(lane):
    begun = chat([*HI, {"role": "assistant", "content": "Sure, the"}], max_tokens=6, temperature=0)
    for question in (chat(max_tokens=6, temperature=0, prefill="Sure, the"), begun):
        found = (await ask(lane, question))[0]
        assert found.content
        assert not found.content.startswith("Sure")
        async with opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream:
            assert len((await upstream.tokenizer().of_chat(question)).ids) == found.completion.prompt_tokens


async def test_log_probabilities(lane):
    async with opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream:
        request = upstream.chat(chat(max_tokens=4, temperature=0, logprobs=2))
        found = (await answers(request))[0]
        assert "".join(request.cells.spell(one.token_id)[0] for one in found.logprobs) == found.content
        assert all(len(one.alternatives) == 2 and one.logprob == one.alternatives[0][1] for one in found.logprobs)
        params = GenerationParams(max_tokens=2, logprobs=0)
        for prompts in ({"texts": ["The capital of France is", "One, two,"]}, {"ids": [[504, 3575]]}):
            found = await answers(upstream.complete(Continuation(params=params, **prompts)))
            assert all(len(one.logprobs) == 2 and not one.logprobs[0].alternatives for one in found)


async def test_what_does_not_fit(lane):
    with pytest.raises(ContextLengthError, match=r"my-lane.*context"):
        await ask(lane, chat([{"role": "user", "content": "word " * 3000}]))
    with pytest.raises(InvalidValueError, match="nonsense"):
        await ask(lane, chat(json_schema={"type": "nonsense"}))


async def test_left_alone_it_is_idle_at_once(lane):
    async with (
        opened(endpoint(f"{lane}/v1", "llama.cpp", key=SECRET)) as upstream,
        aiohttp.ClientSession(headers=BEARER) as session,
    ):
        with upstream.chat(chat(max_tokens=500, ignore_eos=True)) as request:
            await request.next()
            assert await _busy(session, lane) == 1
        started = time.monotonic()
        while await _busy(session, lane):
            assert time.monotonic() - started < 2, "it goes on"
            await asyncio.sleep(0.01)


async def _busy(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/slots") as response:
        return sum(slot["is_processing"] for slot in await response.json())


async def test_another_key_is_no_fault_of_the_clients(lane):
    async with opened(endpoint(f"{lane}/v1", "llama.cpp", key="sk-other")) as upstream:
        with pytest.raises(LaneKeyError, match="my-lane"):
            await answers(upstream.chat(chat()))


async def test_a_diffusion_model_is_taught_about(which, golden, tmp_path):
    teaching = pytest.raises(ModelUnsupportedEngineError, match="one token after another")
    with served(which, golden / "gguf" / "llada-q8_0.gguf", tmp_path / "log") as url, teaching as caught:
        await ask(url, chat(max_tokens=4))
    assert "unmask" in caught.value.hint
