"""The models in a folder, told from the names of files alone; what they are, their headers say later."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from unmask.checkpoints.gguf_split import model_name
from unmask.checkpoints.paradigm import SIDECAR_PREFIXES
from unmask.errors import InvalidConfigError
from unmask.gateway.config.schema import NAME_CHARACTERS

MOST_MODELS = 1024
_MOST_LISTED = 20_000  # files and folders
_DEPTH = 3
_SIGNS = frozenset({"config.json", "model_index.json", "adapter_config.json"})


def models_in(folder: Path) -> list[tuple[str, Path]]:
    """The models in ``folder`` and the folders in it, three levels deep, each by its name and its path, sorted.

    A name is the path from ``folder``, without what ends it: ``org/model`` for a directory, ``model-Q4_K_M`` for a file
    ``model-Q4_K_M.gguf``. Characters that no name has become ``-``. What is hidden is left out. Raises
    ``InvalidConfigError`` if the folder cannot be read, or holds too many.
    """
    try:
        found = sorted(set(_found(folder, "", [0])))  # each file of a split model gives the same
    except OSError as error:
        raise _unreadable(folder, error.strerror or str(error)) from None
    if len(found) > MOST_MODELS:
        raise _unreadable(folder, f"it holds over {MOST_MODELS} models")
    return found


def _found(folder: Path, prefix: str, listed: list[int]) -> Iterator[tuple[str, Path]]:
    files: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            listed[0] += 1
            if listed[0] > _MOST_LISTED:
                raise _unreadable(folder, f"it holds over {_MOST_LISTED} files")
            if not entry.name.startswith("."):
                files.append(Path(entry.path))
    depth = prefix.count("/")
    for path in sorted(files):
        if path.is_dir():
            yield from _in_directory(path, f"{prefix}{_named(path.name)}", depth, listed)
        elif path.suffix == ".gguf" and not path.name.startswith(SIDECAR_PREFIXES):
            first = path.with_name(re.sub(r"-\d{5}-of-(\d{5})\.gguf$", r"-00001-of-\1.gguf", path.name))
            yield f"{prefix}{_named(model_name(path))}", first if first.exists() else path


def _in_directory(path: Path, name: str, depth: int, listed: list[int]) -> Iterator[tuple[str, Path]]:
    if any(os.path.lexists(path / sign) for sign in _SIGNS) or any(path.glob("*.safetensors")):
        yield name, path
    elif depth + 1 < _DEPTH:
        try:
            yield from _found(path, f"{name}/", listed)
        except PermissionError:
            yield name, path  # to be told why it is not served


def _named(text: str) -> str:
    return re.sub(rf"(?!{NAME_CHARACTERS}).", "-", text, flags=re.DOTALL)[:200]


def _unreadable(folder: Path, why: str) -> InvalidConfigError:
    return InvalidConfigError(
        f"The folder of models '{folder}' cannot be used: {why}.",
        hint="Give the path of a folder that holds models as 'models_dir'.",
        param="models_dir",
    )
