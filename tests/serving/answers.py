"""Answers in deltas, as dialects get them: one text, read in any pieces, in any groups of pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from tests.answers.reading import QWEN, texts
from tests.serving.fakes import MODEL
from unmask.answers.answer import AnswerAssembler, AnswerDelta
from unmask.answers.reading import Reading
from unmask.engine.completion import Completion
from unmask.engine.text import TextDelta
from unmask.events import FinishReason, Frame, RequestStats
from unmask.params import GenerationParams
from unmask.resolve import resolve

APPLIED = resolve(GenerationParams(seed=1), MODEL, 3)

pieces = texts(
    "<think>", "</think>", "<tool_call>", "</tool_call>", "\n", " ", "word", "é",
    '{"name": "f", "arguments": {"a": 1}}',
    '<tool_call>\n{"name": "g", "arguments": {"b": [1, "x\\n", null], "c": {"d": "long"}}}\n</tool_call>',
    '<think>\nhm\n</think>\n\n', '{"name": "h", "arguments": {"a": "b',
)  # fmt: skip


@st.composite
def cut_answers(draw) -> tuple[str, list[list[str]]]:
    """A text, and the same text in pieces, in groups; empty pieces and groups too."""
    text = draw(pieces)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    parts = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    borders = sorted(draw(st.lists(st.integers(0, len(parts)), max_size=6)))
    return text, [parts[start:end] for start, end in pairwise([0, *borders, len(parts)])]


def deltas(
    groups: list[list[str]], *, finish: FinishReason = "stop", stopped_by: str | None = None, frames: bool = False
) -> list[AnswerDelta]:
    """What comes of a request whose text is ``groups`` of pieces, each piece a token."""
    assembler = AnswerAssembler(Reading(QWEN, tools=True))
    given = []
    count = sum(map(len, groups))
    for number, group in enumerate(groups, 1):
        stats = RequestStats(
            forwards=number, blocks=1, committed=count, cached=2, queued=0.25, first_block=0.5, total=1.5
        )
        completion = None
        if number == len(groups):
            text = "".join(map("".join, groups))
            completion = Completion(text, [7] * count, finish, 3, count, stats, APPLIED, stopped_by=stopped_by)
        frame = Frame([MODEL.mask_id] * 4) if frames else None
        given.append(assembler.feed(TextDelta(group, [7] * len(group), stats, frame, completion)))
    return given
