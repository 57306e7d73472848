"""The Python API, sync and async."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing

import pytest

import unmask
from tests.foreign_models import tiny_copy
from unmask.errors import InvalidValueError, UnmaskError

QUESTIONS = ["What is 7 + 8?", "Spell the word ocean.", "Write in reverse order: dragon yellow square"]


@pytest.fixture(scope="module")
def llm():
    return unmask.LLM(device="cpu", threads=1)


def test_one_prompt_and_many(llm):
    (single,) = llm.generate(QUESTIONS[0])
    many = llm.generate(QUESTIONS)
    assert [answer.text for answer in many] == [llm.generate(question)[0].text for question in QUESTIONS]
    assert many[0].text == single.text
    assert single.finish_reason in ("stop", "length")
    assert single.completion_tokens == len(single.token_ids) + 1
    assert single.prompt_tokens > 3
    assert single.tokens_per_forward == single.completion_tokens / single.stats.forwards


def test_messages_text_and_ids_are_the_same_prompt(llm):
    ids = llm.prompts.encode(QUESTIONS[0])
    by_ids, by_message = llm.generate([ids, [{"role": "user", "content": QUESTIONS[0]}]])
    assert by_ids.text == by_message.text == llm.generate(QUESTIONS[0])[0].text
    assert llm.generate(ids)[0].text == by_ids.text


def test_stop_strings(llm):
    (whole,) = llm.generate(QUESTIONS[0])
    stop = whole.text[3]
    (cut,) = llm.generate(QUESTIONS[0], unmask.GenerationParams(stop=(stop,)))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.completion_tokens < whole.completion_tokens
    assert cut.discarded_tokens == cut.stats.committed - cut.completion_tokens
    assert llm._loop.idle
    assert llm._loop.step().stats.pages_in_use == 0


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError])
def test_whatever_ends_a_call_nothing_stays_behind(llm, monkeypatch, fault):
    execute, calls = llm._loop._runner.execute, []

    def failing(spans):
        calls.append(len(spans))
        if len(calls) == 2:
            raise fault
        return execute(spans)

    with monkeypatch.context() as patch:
        patch.setattr(llm._loop._runner, "execute", failing)
        with pytest.raises(KeyboardInterrupt if fault is KeyboardInterrupt else UnmaskError):
            llm.generate(QUESTIONS, unmask.GenerationParams(max_tokens=200, ignore_eos=True))
    assert len(calls) == 2
    assert llm._loop.idle
    assert llm._loop.step().stats.pages_in_use == 0
    assert llm.generate(QUESTIONS[0])[0].text


def test_bad_input_raises_before_anything_runs(llm):
    with pytest.raises(InvalidValueError) as caught:
        llm.generate([*QUESTIONS, [1, llm.model.mask_id]])
    assert caught.value.param == "prompt"
    with pytest.raises(InvalidValueError):
        llm.generate(QUESTIONS, unmask.GenerationParams(temperature=-1.0))
    assert llm._loop.idle


@pytest.mark.parametrize(
    ("prompts", "params", "field"),
    [
        (None, None, "prompts"),
        (5, None, "prompts"),
        (b"text", None, "prompts"),
        ({"role": "user"}, None, "prompts"),
        ([None], None, "prompt"),
        ([5.5], None, "prompt"),
        ([["a", "b"]], None, "prompt"),
        ([True], None, "prompt"),
        ([[5, True]], None, "prompt"),
        (QUESTIONS[0], {"max_tokens": 5}, "params"),
        (QUESTIONS[0], {}, "params"),
        (QUESTIONS[0], unmask.GenerationParams(frames="yes"), "frames"),
        (QUESTIONS[0], unmask.GenerationParams(stop=5), "stop"),
    ],
    ids=repr,
)
def test_what_is_no_prompt_and_no_parameters_is_named(llm, prompts, params, field):
    with pytest.raises(InvalidValueError) as caught:
        llm.generate(prompts, params)
    assert caught.value.param == field
    assert llm._loop.idle


def test_stop_may_be_none(llm):
    answers = [llm.generate(QUESTIONS[0], unmask.GenerationParams(stop=stop))[0] for stop in (None, (), [])]
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize(
    "options",
    [{"max_running": 1.5}, {"max_running": True}, {"threads": "2"}, {"device": 0}, {"adapters": []}, {"dtype": None},
     {"adapter": 1}, {"adapters": {1: "a"}}],
    ids=str,
)  # fmt: skip
def test_options_of_the_wrong_kind_are_named(options):
    with pytest.raises(InvalidValueError) as caught:
        unmask.LLM(**options)
    assert caught.value.param in options


async def test_the_async_twin_takes_one_prompt():
    async with await unmask.AsyncLLM.load(device="cpu", threads=1) as async_llm:
        for prompt in (QUESTIONS, [[1, 2]], None, 5):
            with pytest.raises(InvalidValueError, match="one prompt") as caught:
                await async_llm.generate(prompt)
            assert caught.value.param == "prompt"
            with pytest.raises(InvalidValueError, match="one prompt"):
                await anext(async_llm.stream(prompt))


def test_no_prompts_no_answers(llm):
    assert llm.generate([]) == []


def test_the_model_may_be_a_path(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (answer,) = unmask.LLM(path, device="cpu", threads=1).generate(QUESTIONS[0])
    assert answer.text
    with pytest.raises(UnmaskError, match="no model"):
        unmask.LLM(tmp_path / "none", device="cpu", threads=1)


def test_a_wrong_model_says_what_to_do():
    with pytest.raises(UnmaskError, match="model directory"):
        unmask.LLM("/nowhere")


async def test_the_async_twin_gives_the_same(llm):
    wanted = [answer.text for answer in llm.generate(QUESTIONS)]
    async with await unmask.AsyncLLM.load(device="cpu", threads=1) as async_llm:
        answers = await asyncio.gather(*(async_llm.generate(question) for question in QUESTIONS))
        assert [answer.text for answer in answers] == wanted
        deltas = [delta async for delta in async_llm.stream(QUESTIONS[1])]
        assert "".join(delta.text for delta in deltas) == wanted[1] == deltas[-1].completion.text
        async with aclosing(async_llm.stream(QUESTIONS[2])) as deltas:
            async for _ in deltas:
                break
        assert (await async_llm.generate(QUESTIONS[0])).text == wanted[0]


def test_importing_unmask_does_not_import_torch():
    code = "import sys, unmask, unmask.serving.app, unmask.engine.process\n"
    code += "unmask.UnmaskError, unmask.EngineOptions, unmask.TextDelta, unmask.GenerationParams, unmask.Completion\n"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
