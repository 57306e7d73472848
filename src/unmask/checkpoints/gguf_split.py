"""A GGUF model in one file, or split over several named ``<name>-00001-of-0000N.gguf``."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from unmask.checkpoints.gguf_header import GgufError, GgufHeader, Reason, TensorInfo, read_gguf_header
from unmask.shown import shown

_SHARD = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


def read_gguf(path: Path) -> GgufHeader:
    """The header of the model at ``path``: one file, or any shard of a split model.

    Of a split model it has the metadata of the first shard and the tensors of all; each tensor knows its file. Raises
    ``CheckpointNotFoundError`` or ``GgufError``, which names a missing or foreign shard.
    """
    paths = shards(path)
    first = read_gguf_header(paths[0])
    if len(paths) == 1 and first.metadata.get("split.count", 1) in (0, 1):
        return first
    tensors: dict[str, TensorInfo] = {}
    for number, shard in enumerate([first, *map(read_gguf_header, paths[1:])]):
        _check_place(shard, number, len(paths))
        twice = tensors.keys() & shard.tensors.keys()
        if twice:
            raise GgufError(shard.path, Reason.MALFORMED, f"another shard holds its tensor {shown(min(twice))} too")
        tensors |= shard.tensors
    total = first.metadata.get("split.tensors.count", len(tensors))
    if total != len(tensors):
        raise GgufError(paths[0], Reason.TRUNCATED, f"its shards hold {len(tensors)} tensors of {total!s:.20}")
    return dataclasses.replace(first, tensors=tensors)


def model_name(path: Path) -> str:
    """The name of the model that the file ``path`` holds, or is a shard of."""
    found = _SHARD.fullmatch(path.name)
    return found["name"] if found else path.stem


def shards(path: Path) -> list[Path]:
    """All files of the model that ``path`` is a part of. Raises ``GgufError``, which names a missing one."""
    found = _SHARD.fullmatch(path.name)
    if not found or not path.exists():
        return [path]
    parts = []
    for number in range(1, int(found["count"]) + 1):
        shard = path.with_name(f"{found['name']}-{number:05}-of-{found['count']}.gguf")
        if not shard.exists():
            raise GgufError(
                path, Reason.TRUNCATED, f"'{shard.name}' is missing", hint="Put all its shards into one directory."
            )
        parts.append(shard)
    return parts or [path]


def _check_place(shard: GgufHeader, number: int, count: int) -> None:
    place = shard.metadata.get("split.no"), shard.metadata.get("split.count")
    if place != (number, count):
        raise GgufError(
            shard.path,
            Reason.MALFORMED,
            f"it calls itself shard {place[0]!s:.20} of {place[1]!s:.20}, and stands for {number} of {count} "
            "(counted from 0)",
            hint="Give the shards of one model the names they were made with, <name>-00001-of-0000N.gguf.",
        )
