"""``unmask inspect``: what a model is, and which engine serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options

if TYPE_CHECKING:
    from unmask.gateway.routing import Route
    from unmask.models.card import ModelCard, Refusal

Model = Annotated[str, typer.Argument(help="Model directory, .gguf file, hub id, or the embedded model's name.")]


def inspect(model: Model, json: options.Json = False) -> None:
    """Say what MODEL is and which engine serves it, from the headers of its files alone."""
    import msgspec

    from unmask.errors import UnmaskError
    from unmask.gateway.lanes import known_lanes
    from unmask.gateway.routing import route
    from unmask.models.card import Refusal, inspect_model

    card = inspect_model(model)
    found = route(card, known_lanes())
    decided = _served(card, found) if not isinstance(found, Refusal) else _refused(card, found)
    report = msgspec.to_builtins(card) | decided
    typer.echo(msgspec.json.encode(report).decode() if json else _table(card, decided))
    if isinstance(found, Refusal):
        raise UnmaskError.from_code(found.code, found.message, found.remedy)


def _served(card: ModelCard, found: Route) -> dict[str, Any]:
    lane = found.lane
    by = lane.name if lane.name == lane.kind else f"{lane.name} ({lane.kind})"
    how = card.how if lane.kind == "unmask" else f"by {by}"
    warning = " ".join(found.warnings) or None
    return {"served": True, "how": how, "refusal": None, "lane": lane.name, "warning": warning}


def _refused(card: ModelCard, refusal: Refusal) -> dict[str, Any]:
    return {"served": False, "how": None, "refusal": refusal, "lane": None, "warning": card.suspect}


def _table(card: ModelCard, decided: dict[str, Any]) -> str:
    """One aligned line for each thing that is known, whatever the names in it hold."""
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
        "weights": _size(card.weight_bytes),
        "to serve": ", ".join(f"{_size(size)} in {dtype}" for dtype, size in card.memory_bytes.items()),
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
    rows |= {"warning": decided["warning"], "lane": decided["lane"], "served": decided["how"] or "no"}
    width = max(map(len, rows)) + 2
    return "\n".join(f"{label:<{width}}{printable(value)}" for label, value in rows.items() if value)


def _size(count: int | None) -> str | None:
    """``count`` bytes, in the unit that suits."""
    if count is None:
        return None
    power = min(max((count.bit_length() - 1) // 10, 1), 3)
    return f"{count / 1024**power:.1f} {' KMG'[power]}iB"
