"""A client that goes away, as each library does it: its request leaves the engine at once."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from tests.conformance.cases import LONG
from tests.conformance.client import CLIENTS, Client, Job
from tests.conformance.dialects import Dialect
from tests.conformance.http import gauges

HELD = ("unmask_requests_running", "unmask_requests_waiting", "unmask_kv_pages_in_use")


@dataclass(frozen=True)
class Cell:
    client: Client
    dialect: Dialect
    mode: str

    def __str__(self) -> str:
        return f"{self.client}-{self.dialect}-{self.mode}"


CELLS = [Cell(client, dialect, mode) for client in CLIENTS for dialect, mode in client.pairs]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_leaving_frees_the_engine(cell, server, driver):
    before = gauges(server.url)
    body = cell.dialect.body(LONG)
    if cell.mode == "whole":
        seen = driver(cell.client).ask(Job(server.url, cell.dialect, cell.mode, body, timeout=0.5))
        assert "timeout" in f"{seen['error']['class']} {seen['error']['message']}".lower().replace(
            "timed out", "timeout"
        )
    else:
        seen = driver(cell.client).ask(Job(server.url, cell.dialect, cell.mode, body, leave_after=2))
        assert seen["error"] is None
        assert seen["left"]
    left = time.monotonic()
    while any((after := gauges(server.url))[name] for name in HELD):
        assert time.monotonic() - left < 2, after  # the whole answer takes several times as long
        time.sleep(0.02)
    assert after["unmask_disconnects_total"] - before["unmask_disconnects_total"] == 1
