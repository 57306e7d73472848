"""The page on simulating names what there is."""

from __future__ import annotations

from tests.test_docs import DOCS, cells_under, quoted
from unmask.bench.costs import TERMS
from unmask.bench.distributions import _KINDS
from unmask.bench.policies import POLICIES
from unmask.bench.report import Result
from unmask.bench.routing import ROUTINGS
from unmask.bench.trace import TraceRow

PAGE = (DOCS / "simulate.md").read_text()


def names(head: str) -> list[str]:
    """What the first cells of a table name."""
    return [name for cell, *_ in cells_under(PAGE, head) for name in quoted(cell)]


def test_the_page_names_what_there_is():
    assert set(names("field of a trace | meaning")) == set(TraceRow.__struct_fields__)
    assert set(names("key of a result | meaning")) == set(Result.__struct_fields__)
    assert tuple(names("policy | what it does")) == POLICIES
    assert {name.partition(":")[0] for name in names("DISTRIBUTION | numbers")} == {*_KINDS, "64"} - {"constant"}
    assert [routing for routing in ROUTINGS if f"`{routing}`" not in PAGE] == []
    assert [term for term in TERMS if f"{term} " not in PAGE.split("seconds = ")[1].split("`")[0]] == []
