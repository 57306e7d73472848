"""What the page on the gateway says of lanes is what they are sent."""

from __future__ import annotations

from tests.test_docs import DOCS, table
from unmask.gateway.upstream.endpoint import Patience
from unmask.gateway.upstream.understood import HERE, KINDS, TAKEN

PAGE = (DOCS / "gateway.md").read_text()


def sent_table() -> str:
    """Which field of a lane's says each of our parameters, as the page shows it."""

    def cell(field: str | None) -> str:
        return "-" if field is None else field if field == HERE else f"`{field}`"

    rows = [[f"`{name}`" if name.isidentifier() else name, *(cell(kinds.get(kind)) for kind in KINDS)]
            for name, kinds in TAKEN.items()]  # fmt: skip
    return table(" | ".join(["what is asked for", *(f"`{kind}`" for kind in KINDS)]), rows)


def test_the_table_of_what_lanes_are_sent():
    assert sent_table() in PAGE, f"docs/gateway.md must hold this table:\n{sent_table()}"


def test_the_times():
    patience = Patience()
    assert f"{patience.begin:.0f} seconds before its answer begins, {patience.stall:.0f} within it" in PAGE
    assert f"{patience.connect:.0f} seconds for the connection" in PAGE
