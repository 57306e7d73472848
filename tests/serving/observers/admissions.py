"""Admissions that say what a test has written down."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import contextmanager

from tests.serving.parts import TOKENIZER
from unmask.answers.answer import AnswerDelta
from unmask.engine.text import CellDecoder
from unmask.serving.admission import Admission

CELLS = CellDecoder(TOKENIZER)


class Scripted(Admission):
    """Says ``told``, then nothing; an exception in it is raised, and a number is a pause in seconds."""

    def __init__(self, told: Iterable[tuple[int, AnswerDelta] | Exception | float]) -> None:
        self.told = deque(told)
        self.ran = False

    @property
    def cells(self) -> CellDecoder:
        return CELLS

    @property
    def prompt_tokens(self) -> int:
        return 3

    @contextmanager
    def running(self):
        self.ran = True
        yield

    @property
    def finished(self) -> bool:
        return not self.told

    async def next(self) -> tuple[int, AnswerDelta]:
        while isinstance(self.told[0], float):
            await asyncio.sleep(self.told[0])
            self.told.popleft()
        told = self.told.popleft()
        if isinstance(told, Exception):
            raise told
        return told


async def all_of(admission: Admission) -> list[tuple[int, AnswerDelta]]:
    """Everything that it says."""
    with admission.running():
        found = []
        while not admission.finished:
            found.append(await admission.next())
        return found


def run(admission: Admission) -> list[AnswerDelta]:
    """The same of one answer, without a loop of one's own."""
    return [delta for _, delta in asyncio.run(all_of(admission))]
