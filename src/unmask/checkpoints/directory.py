"""A model directory as Hugging Face lays it out: ``config.json``, safetensors weights, tokenizer files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError

EMBEDDED_MODEL = "unmask-tiny"
_EMBEDDED_PATH = Path(__file__).parents[1] / "models" / "tiny"
# Nobody's config.json is larger; a tokenizer.json may hold a large vocabulary.
_MAX_JSON_BYTES = {"tokenizer.json": 128 * 2**20}
_DEFAULT_MAX_JSON_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened model directory: nothing but its JSON files has been read.

    ``weights`` are the safetensors files; ``generation`` is ``generation_config.json`` or empty.
    """

    name: str
    path: Path
    config: dict[str, Any]
    generation: dict[str, Any]
    weights: tuple[Path, ...]


def open_checkpoint(model: str) -> Checkpoint:
    """Open the model directory ``model``, or the embedded model by its name.

    Raises ``CheckpointNotFoundError`` for a wrong path, ``InvalidCheckpointError`` for a broken directory.
    """
    path = _EMBEDDED_PATH if model == EMBEDDED_MODEL else Path(os.path.expanduser(model))
    if not _exists(path):
        raise CheckpointNotFoundError(
            f"There is no model at '{model}'.",
            hint=f"Give the path of a model directory (config.json and *.safetensors), or '{EMBEDDED_MODEL}' "
            "for the embedded model.",
        )
    if not path.is_dir():
        raise InvalidCheckpointError(
            f"'{model}' is a file, not a model directory.",
            hint="Give the directory that holds config.json, tokenizer.json and the safetensors files.",
        )
    return Checkpoint(
        name=EMBEDDED_MODEL if model == EMBEDDED_MODEL else path.resolve().name,
        path=path,
        config=read_json(path / "config.json"),
        generation=read_json(path / "generation_config.json", optional=True),
        weights=_weight_files(path),
    )


def read_json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """The JSON object in ``path``; ``{}`` if it is absent and ``optional``. Bounded in size."""
    if optional and not path.exists():
        return {}
    most = _MAX_JSON_BYTES.get(path.name, _DEFAULT_MAX_JSON_BYTES)
    try:
        if not path.is_file() and path.exists():  # a pipe or a device could be read for ever
            raise InvalidCheckpointError(f"'{path}' is not a regular file.", hint="Copy the checkpoint again.")
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise InvalidCheckpointError(f"'{path}' is over {most >> 20} MiB.", hint="Is it what its name says?")
        value = json.loads(content)
    except FileNotFoundError:
        raise CheckpointNotFoundError(
            f"'{path.parent}' has no {path.name}.",
            hint="Is this the model's own directory? It must hold config.json and *.safetensors.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidCheckpointError(
            f"'{path}' cannot be read as JSON: {error}.", hint="Copy the checkpoint again."
        ) from None
    if not isinstance(value, dict):
        raise InvalidCheckpointError(f"'{path}' is not a JSON object.", hint="Copy the checkpoint again.")
    return value


def _weight_files(path: Path) -> tuple[Path, ...]:
    index = read_json(path / "model.safetensors.index.json", optional=True)
    if index:
        places = index.get("weight_map")
        if not isinstance(places, dict):
            raise InvalidCheckpointError(f"The weight_map of '{path}' is not an object.", hint="Copy the index again.")
        names = sorted({Path(str(name)).name for name in places.values()})
        files = tuple(path / name for name in names)
    else:
        files = tuple(sorted(path.glob("*.safetensors")))
    missing = [file.name for file in files if not file.is_file()]
    if missing or not files:
        raise InvalidCheckpointError(
            f"'{path}' lacks its weights ({', '.join(missing) or 'no *.safetensors file'}).",
            hint="Unmask reads safetensors only; pickled .bin and .pt files are never opened.",
        )
    return files


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long for any file
        return False
