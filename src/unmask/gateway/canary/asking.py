"""The prompts put to a model, one after the other, within bounds of time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from unmask.gateway.canary.prompts import SECONDS, prompts
from unmask.gateway.canary.verdict import CanaryAnswer, CanaryVerdict, judge


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer's text, reasoning included, and the natural logarithms of its tokens' probabilities, if told."""

    text: str
    logprobs: Sequence[float] = ()


Ask = Callable[[str], Awaitable[str | Reply]]


async def ask_canary(
    ask: Ask, *, conversations: bool, masks: Collection[str] = (), seconds: float = SECONDS
) -> CanaryVerdict | None:
    """The verdict on the model that ``ask`` asks: at temperature 0, for at most ``MAX_TOKENS`` tokens.

    ``conversations``: whether it takes them; else it goes on with texts. What ``ask`` raises is an answer too. None if
    not even one prompt was answered in ``seconds``: a slow model is no broken one.
    """
    answers: list[CanaryAnswer] = []
    with suppress(TimeoutError):  # what there is, is judged
        async with asyncio.timeout(seconds):
            for prompt in prompts(conversations=conversations):
                answer = await _answer(ask, prompt)
                answers.append(answer)
    return judge(answers, masks) if answers else None


async def _answer(ask: Ask, prompt: str) -> CanaryAnswer:
    try:
        told = await ask(prompt)
    except Exception as error:
        return CanaryAnswer(prompt, error=str(error) or type(error).__name__)
    return CanaryAnswer(prompt, told) if isinstance(told, str) else CanaryAnswer(prompt, told.text, told.logprobs)
