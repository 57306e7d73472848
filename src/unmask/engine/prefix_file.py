"""Units of the prefix cache as a file: safetensors, one tensor of bytes for each unit, and an index in its metadata.

A unit's bytes are those of its pages, layer after layer. The units that were used last come first, and none before the
one that it follows: so the file can end after any of them, where time or room are at an end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.engine.prefix import Namespace, PrefixCache, Unit
from unmask.models.base import KeyValueCache

_INDEX = "prefixes"
_TOKEN_BYTES = np.dtype(np.int64).itemsize
_ROW_BYTES, _INDEX_TOKEN_BYTES = 300, 16  # more than the headers take for a unit, and for each of its tokens
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """A unit of ``tokens``, ``length`` of them as int64; ``before``: the number of the one that it follows, -1 if it is
    the first one of its namespace.
    """

    before: Annotated[int, msgspec.Meta(ge=-1)]
    namespace: Namespace
    length: _Count
    tokens: bytes


def write_units(path: Path, units: Sequence[Unit], cache: KeyValueCache, most_bytes: int, due: float) -> int:
    """Write as many of ``units`` as fit into ``most_bytes``, and until it is ``due``; how many tokens they are.

    They are in the order of ``PrefixCache.recent``. Raises ``OSError``.
    """
    page_bytes = sum(layer[:PAGE_TOKENS].nbytes for layer in cache.layers)
    sizes = [len(unit.pages) * page_bytes for unit in _fitting(units, page_bytes, most_bytes)]
    rows = list(_rows(units[: len(sizes)]))
    with path.open("r+b", buffering=0) as file:
        room = len(_header(rows, sizes))
        file.seek(room)
        written = 0
        while written < len(rows) and time.monotonic() < due:
            _write(file, _bytes_of(cache, units[written].pages))
            written += 1
        # What was not written is not told of; safetensors lets spaces follow a header.
        header = _header(rows[:written], sizes[:written])[8:].ljust(room - 8)
        file.seek(0)
        _write(file, (len(header)).to_bytes(8, "little") + header)
    return sum(row.length for row in rows[:written])


def read_units(path: Path, prefixes: PrefixCache, cache: KeyValueCache) -> int:
    """Put the units of a file into ``prefixes``, as far as there are free pages; how many tokens they are.

    Raises ``ValueError``, or what ``safetensors`` raises, for a file that is not as ``write_units`` leaves it.
    """
    units: list[Unit] = []
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        for number, row in enumerate(msgspec.json.decode(metadata.get(_INDEX, ""), type=list[_Row])):
            content = file.get_tensor(str(number))
            if row.before >= number or len(row.tokens) != row.length * _TOKEN_BYTES:
                raise ValueError(f"unit {number} is none")
            parts = list(_parts(content, cache, pages_for(row.length) * PAGE_TOKENS))
            before = units[row.before] if row.before >= 0 else row.namespace
            unit = prefixes.adopt((before, row.tokens), row.length, partial(_fill, cache, parts))
            if unit is None:
                break
            units.append(unit)
    prefixes.touch(units)
    return sum(unit.length for unit in units)


def _fitting(units: Sequence[Unit], page_bytes: int, most_bytes: int) -> Iterator[Unit]:
    for unit in units:
        most_bytes -= len(unit.pages) * page_bytes + _ROW_BYTES + _INDEX_TOKEN_BYTES * unit.length
        if most_bytes < 0:
            return
        yield unit


def _rows(units: Sequence[Unit]) -> Iterator[_Row]:
    numbers = {unit: number for number, unit in enumerate(units)}
    for unit in units:
        before, tokens = unit.key
        number = numbers[before] if isinstance(before, Unit) else -1
        yield _Row(number, unit.namespace, unit.length, tokens)


def _header(rows: list[_Row], sizes: list[int]) -> bytes:
    """The header of a safetensors file with the bytes of ``rows``, its length in front."""
    header: dict[str, object] = {"__metadata__": {_INDEX: msgspec.json.encode(rows).decode()}}
    end = 0
    for number, size in enumerate(sizes):
        header[str(number)] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
        end += size
    text = msgspec.json.encode(header)
    text = text.ljust(-(-len(text) // 8) * 8)
    return len(text).to_bytes(8, "little") + text


def _write(file: BinaryIO, content: bytes | memoryview) -> None:
    """All of ``content``: a raw file may take a part of it only."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _slots(pages: list[int]) -> Tensor:
    return (torch.tensor(pages)[:, None] * PAGE_TOKENS + torch.arange(PAGE_TOKENS)).flatten()


def _bytes_of(cache: KeyValueCache, pages: list[int]) -> memoryview:
    """What ``pages`` hold, layer after layer."""
    slots = _slots(pages).to(cache.layers[0].device)
    parts = [layer[slots].flatten().view(torch.uint8).cpu() for layer in cache.layers]
    return torch.cat(parts).numpy().data


def _parts(content: Tensor, cache: KeyValueCache, slots: int) -> Iterator[Tensor]:
    """``content`` as each layer of ``cache`` has so many ``slots``."""
    sizes = [slots * layer[:1].nbytes for layer in cache.layers]
    if content.dtype != torch.uint8 or content.numel() != sum(sizes):
        raise ValueError(f"{content.numel()} bytes are not {slots} positions of this model")
    for part, layer in zip(torch.split(content, sizes), cache.layers, strict=True):
        yield part.clone().view(layer.dtype).view(slots, *layer.shape[1:]).to(layer.device)


def _fill(cache: KeyValueCache, parts: list[Tensor], pages: list[int]) -> None:
    slots = _slots(pages).to(cache.layers[0].device)
    for layer, part in zip(cache.layers, parts, strict=True):
        layer[slots] = part
