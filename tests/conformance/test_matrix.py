"""Every client, dialect and way to ask: the same answer, counted alike.

What is expected is what a plain HTTP request gets that is not streamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.cases import Case
from tests.conformance.client import CLIENTS, Client, Job
from tests.conformance.dialects import Dialect


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


CELLS = [
    Cell(client, dialect, mode, case, canvas)
    for client in CLIENTS
    for dialect, mode in client.pairs
    for case in dialect.cases
    for canvas in ([False] if mode == "whole" else [False, True])
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_client_sees_the_answer(cell, server, driver, whole):
    seen = driver(cell.client).ask(Job(server.url, cell.dialect, cell.mode, cell.request()))
    expected = whole(cell.dialect, cell.case)
    assert seen["error"] is None
    if cell.mode != "whole":
        assert "".join(seen["deltas"]) == expected.text
        assert "".join(seen["thoughts"]) == expected.reasoning
    if seen["text"] is not None:
        assert (seen["text"], seen["reasoning"] or "") == (expected.text, expected.reasoning)
    assert tuple((call["name"], call["arguments"]) for call in seen["calls"]) == expected.calls
    assert seen["finish"] == expected.finish
    assert tuple(seen["usage"]) == expected.usage
    assert seen["frames"] is None or (seen["frames"] > 0) == cell.canvas
