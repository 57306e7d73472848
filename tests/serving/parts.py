"""Answers made of any text: read as a live server reads them, cut into events anywhere."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.serving.fakes import MODEL
from unmask.answers.answer import AnswerAssembler, AnswerDelta
from unmask.answers.reading import Reading
from unmask.answers.syntax import HERMES, THINK, AnswerSyntax
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.engine.completion import TextRequest
from unmask.engine.text import TextAssembler
from unmask.events import CanvasEvent, Frame, RequestStats, TokenLogprob
from unmask.params import GenerationParams
from unmask.resolve import resolve

TOKENIZER = PromptEncoder(EMBEDDED_MODEL, MODEL).tokenizer
READING = Reading(syntax=AnswerSyntax(THINK, HERMES), tools=True)

_CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é<think>"}}\n</tool_call>'
_PIECES = (
    "<think>", "</think>", "<think>\nhm\n</think>\n\n", "word", " ", "\n", "日本", "<tool_call>", "</tool_call>", _CALL,
    '<tool_call>{"arguments": {}, "name": "g"}</tool_call>', '{"name": "h"', "<",
)  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3)), max_size=10).map("".join)


@st.composite
def cuts(draw, text: st.SearchStrategy[str] = texts) -> tuple[list[int], list[int]]:
    """The ids of a text, and where to cut them into events."""
    ids = TOKENIZER.encode_text(draw(text))
    return ids, sorted(draw(st.lists(st.integers(0, len(ids)), max_size=8)))


def deltas(
    ids: list[int],
    borders: list[int],
    reading: Reading = READING,
    *,
    stop: tuple[str, ...] = (),
    finish: str = "stop",
    frames: bool = False,
    logprobs: bool = False,
) -> list[AnswerDelta]:
    """What a dialect is given of an answer of ``ids`` that comes in events cut at ``borders``."""
    params = resolve(GenerationParams(seed=1, logprobs=0 if logprobs else None), MODEL, 3)
    text = TextAssembler(TOKENIZER, TextRequest([1, 2, 3], params, stop, shown=reading.shown))
    answer = AnswerAssembler(reading)
    found = []
    for start, end in zip([0, *borders], [*borders, len(ids)], strict=True):
        last = end == len(ids) and start >= (borders[-1] if borders else 0)
        stats = RequestStats(forwards=len(found) + 1, blocks=1, committed=end + 1)
        frame = Frame([*ids[:end], MODEL.mask_id]) if frames else None
        event = CanvasEvent("0", ids[start:end], stats, finish if last else None, last and finish == "stop", frame)
        if logprobs:
            event.logprobs = [TokenLogprob(token, -float(number), []) for number, token in enumerate(ids)][start:end]
        found.append(answer.feed(text.feed(event)))
        if found[-1].answer is not None:
            break
    return found
