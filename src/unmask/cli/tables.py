"""Aligned columns on the terminal, whatever the names in them hold."""

from __future__ import annotations

from collections.abc import Sequence


def columns(head: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """A line for ``head`` and one for each of ``rows``; "-" stands where there is nothing."""
    from unmask.shown import printable

    cells = [tuple(head), *(tuple(printable(cell) if cell else "-" for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def few(names: Sequence[str], most: int = 2) -> str:
    """The first of ``names``, and how many more there are: a cell has to be short."""
    told = ", ".join(names[:most])
    return f"{told}, +{len(names) - most}" if len(names) > most else told


def why_not(name: str, code: str, message: str, remedy: str) -> list[str]:
    """The lines below a table that say why the model called ``name`` is not served, and what to do."""
    return [f"{name}: {message} [{code}]", *([f"  hint: {remedy}"] if remedy else [])]
