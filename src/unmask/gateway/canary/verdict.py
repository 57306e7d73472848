"""What the answers to a canary's prompts say of the model. It only judges: who asks is elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from unmask.answers.symptoms.mask_text import mask_text
from unmask.answers.symptoms.repetition import loops
from unmask.answers.symptoms.salad import salad
from unmask.shown import cut, printable

_LOOP = 24  # characters
_UNSURE = -3.5  # mean natural logarithm of a greedy answer's probabilities: measured -0.1 to -1.3 of models that work
_FEWEST_LOGPROBS = 8
_FEWEST_ALIKE = 3


@dataclass(frozen=True, slots=True)
class CanaryAnswer:
    """What came of ``prompt``. ``logprobs`` of its tokens, where the engine tells them. ``error``: why none came."""

    prompt: str
    text: str = ""
    logprobs: Sequence[float] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class CanaryVerdict:
    """``failed``: no prompt got an answer of any token. ``suspect``: a mask stands in a text, or every other answer is
    ill at least. ``reasons`` name what is wrong, most frequent first; ``sample`` is an answer that shows it.
    """

    status: Literal["ok", "suspect", "failed"]
    reasons: tuple[str, ...] = ()
    sample: str = ""


def judge(answers: Sequence[CanaryAnswer], masks: Collection[str] = ()) -> CanaryVerdict:
    """The verdict on a model whose mask tokens are ``masks``."""
    deaf = len(answers) >= _FEWEST_ALIKE and len({answer.text for answer in answers}) == 1
    ills = [_ills(answer, masks, deaf=deaf) for answer in answers]
    kinds = Counter(kind for found in ills for kind in found)
    reasons = tuple(f"{kind} in {count} of {len(answers)} answers" for kind, count in kinds.most_common())
    if all(answer.error or not answer.text for answer in answers):
        errors = tuple(dict.fromkeys(cut(answer.error) for answer in answers if answer.error))
        return CanaryVerdict("failed", errors or reasons)
    ill = [answer.text for answer, found in zip(answers, ills, strict=True) if found]
    if not kinds["mask_text"] and len(ill) * 2 < len(answers):
        return CanaryVerdict("ok")
    sample = max(ill, key=lambda text: (bool(mask_text(text, masks)), len(text)))
    return CanaryVerdict("suspect", reasons, printable(cut(sample)))


def _ills(answer: CanaryAnswer, masks: Collection[str], *, deaf: bool) -> list[str]:
    """What is wrong with one answer, of the kinds that ``docs/gateway.md`` lists."""
    if answer.error:
        return ["error"]
    text = answer.text
    logprobs = answer.logprobs
    found = {
        "empty": not any(map(str.isalnum, text)),
        "mask_text": bool(mask_text(text, masks)),
        "repetition": loops(text, _LOOP),
        "salad": bool(salad(text)),
        "same": deaf and bool(text),
        "unsure": len(logprobs) >= _FEWEST_LOGPROBS and sum(logprobs) < _UNSURE * len(logprobs),
    }
    return [kind for kind, is_so in found.items() if is_so]
