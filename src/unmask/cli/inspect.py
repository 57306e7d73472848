"""``unmask inspect``: what a model is, and which engine serves it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.completion import complete_lanes, complete_paths

if TYPE_CHECKING:
    from unmask.gateway.routing import Route
    from unmask.models.card import ModelCard
    from unmask.refusal import Refusal

Model = Annotated[
    str,
    typer.Argument(
        help="Model directory, .gguf file, hub id, or the embedded model's name.", autocompletion=complete_paths
    ),
]

Lane = Annotated[
    str | None,
    typer.Option(
        envvar="UNMASK_LANE",
        help="Ask of this engine alone, as 'lane' in a configuration does.",
        autocompletion=complete_lanes,
    ),
]


def inspect(model: Model, lane: Lane = None, json: options.Json = False) -> None:
    """Say what MODEL is and which engine serves it, from the headers of its files alone."""
    import msgspec

    from unmask.gateway.lanes import known_lanes
    from unmask.gateway.routing import route
    from unmask.models.card import inspect_model

    card = inspect_model(model)
    card, taken, warning = _decided(card, route(card, known_lanes(), lane))
    report = msgspec.to_builtins(card) | {"lane": taken, "warning": warning}
    typer.echo(msgspec.json.encode(report).decode() if json else _table(card, taken, warning))
    if card.refusal is not None:
        raise card.refusal.error()


def _decided(card: ModelCard, found: Route | Refusal) -> tuple[ModelCard, str | None, str | None]:
    """The card as it is for all engines together, the name of the lane that was ``found``, and a warning."""
    from unmask.gateway.routing import Route

    if not isinstance(found, Route):
        return replace(card, served=False, how=None, refusal=found), None, card.suspect
    lane = found.lane
    if lane.kind != "unmask":
        by = lane.name if lane.name == lane.kind else f"{lane.name} ({lane.kind})"
        card = replace(card, served=True, how=f"by {by}", refusal=None)
    return card, lane.name, " ".join(found.warnings) or None


def _table(card: ModelCard, lane: str | None = None, warning: str | None = None) -> str:
    """One aligned line for each thing that is known, whatever the names in it hold."""
    from unmask.cli.sizes import size
    from unmask.shown import printable

    rows = {
        "model": card.name or card.model,
        "path": card.path,
        "format": card.format,
        "architecture": card.architecture,
        "family": card.family,
        "paradigm": card.paradigm,
        "evidence": ", ".join(card.evidence),
        "parameters": f"{card.parameters:,}" if card.parameters is not None else None,
        "stored as": ", ".join(card.stored_as),
        "quantization": card.quantization,
        "weights": size(card.weight_bytes),
        "to serve": ", ".join(f"{size(count)} in {dtype}" for dtype, count in card.memory_bytes.items()),
        "context": f"{card.context_length:,} tokens" if card.context_length else None,
        "block": f"{card.block_length} tokens" if card.block_length else None,
        "attention": card.attention,
        "mask id": str(card.mask_id) if card.mask_id is not None else None,
        "end ids": ", ".join(map(str, card.end_ids)),
        "rules": ", ".join(card.rules),
        "caches": ", ".join(card.caches),
    }
    if card.family is not None:
        rows["tokenizer"] = "yes" if card.tokenizer else "no"
        rows["chat template"] = "yes" if card.chat_template else "no"
    rows |= {"warning": warning, "lane": lane, "served": card.how or "no"}
    width = max(map(len, rows)) + 2
    return "\n".join(f"{label:<{width}}{printable(value)}" for label, value in rows.items() if value)
