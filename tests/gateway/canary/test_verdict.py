"""What a canary makes of answers, and of models that do not give any."""

from __future__ import annotations

import asyncio

import pytest

from unmask.gateway.canary.asking import Reply, ask_canary
from unmask.gateway.canary.prompts import CONVERSATIONS, TEXTS
from unmask.gateway.canary.verdict import CanaryAnswer, judge

GOOD = ("I am a model.", "1 2 3 4 5 6 7 8 9 10", "Thursday.", "The capital of France is Paris.")


def answers(*texts: str, logprobs: tuple[float, ...] = ()) -> list[CanaryAnswer]:
    return [CanaryAnswer("?", text, logprobs) for text in texts]


def test_a_model_that_works_is_ok():
    assert judge(answers(*GOOD, logprobs=(-0.5,) * 9)).status == "ok"


@pytest.mark.parametrize("answer", ["", "no no no no no no no no no no", "\x13\ufffd\ufffd\x01x"])
def test_one_ill_answer_is_an_accident_and_two_are_a_symptom(answer):
    assert judge(answers(*GOOD[:3], answer)).status == "ok"
    verdict = judge(answers(*GOOD[:2], answer, answer))
    assert verdict.status == "suspect"
    assert len(verdict.reasons) == 1
    assert verdict.reasons[0].endswith("in 2 of 4 answers")


def test_one_answer_to_everything_is_none():
    verdict = judge(answers("I am.", "I am.", "I am.", "I am."))
    assert (verdict.status, verdict.reasons) == ("suspect", ("same in 4 of 4 answers",))
    assert judge(answers("I am.", "I am.", "I am.", "I am a model.")).status == "ok"
    assert judge(answers("I am.", "I am.")).status == "ok"


def test_one_mask_is_enough_and_is_shown():
    verdict = judge(answers(*GOOD[:3], "The <|mask|> of\x07 France"))
    assert verdict.status == "suspect"
    assert verdict.reasons == ("mask_text in 1 of 4 answers",)
    assert verdict.sample == "The <|mask|> of\\x07 France"
    assert judge(answers(*GOOD[:3], "The ¤ of France"), masks=["¤"]).status == "suspect"


def test_a_model_that_is_sure_of_nothing_is_suspect():
    assert judge(answers(*GOOD, logprobs=(-4.0,) * 9)).reasons == ("unsure in 4 of 4 answers",)
    assert judge(answers(*GOOD, logprobs=(-4.0,) * 3)).status == "ok"  # too few tokens to tell


def test_no_answer_at_all_is_a_failed_load():
    assert judge(answers("", "", "", "")).status == "failed"
    broken = [CanaryAnswer("?", error="HTTP 500: no logits"), *answers("", "", "")]
    assert judge(broken).status == "failed"
    assert judge(broken).reasons == ("HTTP 500: no logits",)
    assert judge([*broken, *answers("Thursday.")]).status == "suspect"


async def test_all_prompts_are_asked_in_their_kind():
    asked = []

    async def ask(prompt: str) -> Reply:
        asked.append(prompt)
        return Reply(f"I think that {prompt}", [-0.1] * 9)

    for conversations, prompts in ((True, CONVERSATIONS), (False, TEXTS)):
        asked.clear()
        verdict = await ask_canary(ask, conversations=conversations)
        assert verdict is not None
        assert verdict.status == "ok"
        assert tuple(asked) == prompts


async def test_errors_are_answers():
    async def ask(prompt: str) -> str:
        raise ConnectionError

    verdict = await ask_canary(ask, conversations=True)
    assert verdict is not None
    assert (verdict.status, verdict.reasons) == ("failed", ("ConnectionError",))


async def test_a_slow_model_is_judged_by_what_it_has_said():
    async def ask(prompt: str) -> str:
        await asyncio.sleep(0 if prompt == TEXTS[0] else 60)
        return " Paris, as everybody knows."

    assert (await ask_canary(ask, conversations=False, seconds=0.05)).status == "ok"
    assert await ask_canary(ask, conversations=True, seconds=0.05) is None
