"""Fields that an object of a request does not have, and those that were probably meant."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import get_args

from unmask.serving.wire import Only, WireModel

_EVERYWHERE = {"type", "name", "description"}  # many objects have such a field: which one was meant?
_ALIKE = 0.82


def advice(model: type[WireModel], name: str, place: str) -> str | None:
    """What to send instead of ``name`` in the object of ``model`` that stands at ``place`` (body: ""), if anything."""
    path = _paths(model).get(name)
    if path is not None:
        example = f": {_example(path)}" if "." in path and not place else ""
        return f"Use '{_join(place, path)}'{example}."
    known = _paths(model) | {own: own for own in _honoured(model)}
    near = get_close_matches(name[:100].lower(), known, n=1, cutoff=_ALIKE)
    return f"Did you mean '{_join(place, known[near[0]])}'?" if near else None


@cache
def _paths(model: type[WireModel]) -> dict[str, str]:
    """Where an object of ``model`` has what is asked for by names that are not its own: under another one, or in an
    object within it, whose path may have been taken for a name.
    """
    found: dict[str, str] = {}
    for field, inner in _objects(model):
        for name, path in ({own: own for own in _honoured(inner)} | _paths(inner)).items():
            if name not in _EVERYWHERE:
                found.setdefault(name, f"{field}.{path}")
    return {path: path for path in found.values()} | found | model.foreign_names


def _honoured(model: type[WireModel]) -> list[str]:
    """The fields of ``model``, but for those that pass only with values that ask for nothing."""
    return [
        field.alias or name
        for name, field in model.__pydantic_fields__.items()
        if field.is_required() or not any(isinstance(mark, Only) for mark in field.metadata)
    ]


def _objects(model: type[WireModel]) -> Iterator[tuple[str, type[WireModel]]]:
    """The fields of ``model`` that hold an object of one kind, and its kind."""
    for name, field in model.__pydantic_fields__.items():
        annotation = field.annotation
        for kind in get_args(annotation) if isinstance(annotation, UnionType) else [annotation]:
            if isinstance(kind, type) and issubclass(kind, WireModel):
                yield field.alias or name, kind


def _join(place: str, path: str) -> str:
    return f"{place}.{path}" if place else path


def _example(path: str) -> str:
    """``options.seed`` as the JSON that it stands for."""
    *outer, last = path.split(".")
    return "".join(f'{{"{name}": ' for name in outer) + f'{{"{last}": ...' + "}" * (len(outer) + 1)
