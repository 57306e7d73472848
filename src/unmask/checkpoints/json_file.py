"""Reading JSON files of a checkpoint, which may hold anything: bounded in time and memory."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unmask.checkpoints.regular_file import open_regular
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.shown import cut

Fields = TypeVar("Fields")

# What a file may cost that is read whole. Nobody's config.json is larger than 1 MiB; tokenizer_config.json may repeat
# some thousand added tokens.
_MOST_BYTES = {"tokenizer_config.json": 4 * 2**20}
_DEFAULT_MOST_BYTES = 2**20
_MOST_VALUES = 2**16
_PART = 2**20  # bytes looked at at once


def read_json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """The JSON object in ``path``; ``{}`` if it is absent and ``optional``.

    Raises ``CheckpointNotFoundError`` if it is absent, ``InvalidCheckpointError`` if it is too large or no object.
    """
    if optional and not os.path.lexists(path):
        return {}
    most = _MOST_BYTES.get(path.name, _DEFAULT_MOST_BYTES)
    with _named_errors(path):
        with open_regular(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise _too_large(path, f"{most >> 20} MiB")
        # Every value but the first follows one of these: their number bounds the memory that all values take.
        if sum(map(content.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            raise _too_large(path, f"{_MOST_VALUES} values")
        value = json.loads(content)
    if not isinstance(value, dict):
        raise InvalidCheckpointError(f"'{path}' is not a JSON object.", hint="Copy the checkpoint again.")
    return value


def read_fields(path: Path, fields: type[Fields], *, most_bytes: int, most_values: int) -> Fields:
    """What ``fields``, a ``msgspec.Struct`` of defaults or a dictionary type, names of the object in ``path``.

    The rest is skipped; an absent file has no fields. Raises ``InvalidCheckpointError`` for a file of over
    ``most_bytes`` or, roughly, ``most_values``, for one that is no object, and for a field of another type.
    """
    if not os.path.lexists(path):
        return fields()
    with _named_errors(path):
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > most_bytes:
                raise _too_large(path, f"{most_bytes >> 20} MiB")
            if sum(part.count(b",") for part in iter(partial(file.read, _PART), b"")) > most_values:
                raise _too_large(path, f"{most_values} values")
            # Not closed here: fields of type Raw point into it.
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return msgspec.json.decode(content, type=fields)


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CheckpointNotFoundError(
            f"'{path.parent}' has no {path.name}.",
            hint="Is this the model's own directory, and complete? It must hold config.json and *.safetensors.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidCheckpointError(
            f"'{path}' cannot be read as JSON: {cut(error)}.", hint="Copy the checkpoint again."
        ) from None


def _too_large(path: Path, limit: str) -> InvalidCheckpointError:
    return InvalidCheckpointError(f"'{path}' has over {limit}.", hint="Is it what its name says?")
