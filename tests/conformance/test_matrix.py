"""Every client, dialect and way to ask: the same answer, counted alike.

What is expected is what a plain HTTP request gets that is not streamed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.conformance.cases import CASES, TEXT, Case
from tests.conformance.client import CLIENTS, Client, Job
from tests.conformance.dialects import CHAT, COMPLETIONS, DIALECTS, Dialect
from tests.conformance.dialects.base import calls_of


@dataclass(frozen=True)
class Cell:
    client: Client
    dialect: Dialect
    mode: str
    case: Case
    canvas: bool

    def request(self) -> dict[str, Any]:
        body = self.dialect.body(self.case)
        return self.dialect.extended(body, {"canvas": "frames"}) if self.canvas else body

    def __str__(self) -> str:
        return "-".join(map(str, (self.client, self.dialect, self.mode, self.case))) + self.canvas * "-canvas"


WITH_FRAMES = ("text", "several blocks", "reasoning", "tool")  # of each kind of delta, one that they come between
CELLS = [
    Cell(client, dialect, mode, case, canvas)
    for client in CLIENTS
    for dialect, mode in client.pairs
    for case in CASES
    if dialect.put(case) is not None
    for canvas in ([False, True] if mode != "whole" else [False])
]


def quick(cell: Cell) -> bool:
    return not cell.canvas or cell.case.name in WITH_FRAMES


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=[] if quick(cell) else pytest.mark.slow) for cell in CELLS], ids=str
)
def test_a_client_sees_the_answer(cell, server, driver, whole):
    seen = driver(cell.client).ask(Job(server.url, cell.dialect, cell.mode, cell.request()))
    expected = whole(cell.dialect, cell.case)
    assert seen["error"] is None
    if cell.mode != "whole":
        assert "".join(seen["deltas"]) == expected.text
        assert "".join(seen["thoughts"]) == expected.reasoning
    assert seen["text"] in (None, expected.text)
    assert seen["reasoning"] in (None, expected.reasoning)
    assert calls_of([(call["name"], call["arguments"]) for call in seen["calls"]]) == expected.calls
    assert len({call["id"] for call in seen["calls"]}) == len(seen["calls"])
    assert seen["finish"] == expected.finish
    assert tuple(seen["usage"]) == expected.usage
    assert cell.canvas or not seen["frames"]


SLOWLY = replace(TEXT, name="slowly", unmask={"rule": "low_confidence"})


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.canvas and cell.case == TEXT], ids=str)
def test_a_client_that_asks_for_frames_sees_them(cell, server, driver):
    """Frames may be left out, but not all of so many. (None: the library hides what it does not know.)"""
    request = replace(cell, case=SLOWLY).request()
    seen = driver(cell.client).ask(Job(server.url, cell.dialect, cell.mode, request))
    assert seen["frames"] is None or seen["frames"] > 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_dialect_gives_the_same_answer(case, whole):
    """The same text, thoughts, calls and counts, and the end told in each one's own words."""
    chat = whole(CHAT, case)
    if case.pinned is not None:
        assert (chat.text, chat.reasoning, chat.calls) == (case.pinned, case.thought, case.called)
    for dialect in DIALECTS:
        if dialect.put(case) is None or dialect == COMPLETIONS:
            continue  # a completion's prompt is no conversation
        answer = whole(dialect, case)
        assert answer == replace(chat, finish=dialect.word(chat.finish, case)), dialect
