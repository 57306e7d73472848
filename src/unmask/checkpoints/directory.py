"""Opening a checkpoint: a model directory as Hugging Face lays it out, a GGUF file, or a model of the hub.

Of a directory its JSON files are read, of a GGUF file its header, no tensor. What is no diffusion language model is
refused here, with an error that says what it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.gguf_split import model_name, read_gguf
from unmask.checkpoints.hub import HubModel
from unmask.checkpoints.json_file import read_fields, read_json
from unmask.checkpoints.paradigm import (
    SIDECAR_PREFIXES,
    Verdict,
    architecture_of_config,
    architecture_of_gguf,
    judge_config,
    judge_gguf,
)
from unmask.checkpoints.refusals import (
    first_bytes,
    refuse_config,
    refuse_directory,
    refuse_file,
    refuse_gguf,
    refuse_pickle,
    refuse_pickles,
)
from unmask.checkpoints.tokenizer_files import TokenizerFiles
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.shown import shown

EMBEDDED_MODEL = "unmask-tiny"
_EMBEDDED_PATH = Path(__file__).parents[1] / "models" / "tiny"

_MOST_SHARDS = 1024
_MOST_INDEX = {"most_bytes": 8 * 2**20, "most_values": 2**16}  # the largest served has 24,000 tensors in 2.3 MB


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint of which no tensor has been read.

    ``path`` is the model directory; ``config`` and ``generation`` are its ``config.json`` and, if it has one, its
    ``generation_config.json``. Of a GGUF model, ``path`` is the (first) file, and ``header`` is there in their place.
    """

    name: str
    path: Path
    config: dict[str, Any]
    generation: dict[str, Any]
    header: GgufHeader | None = None

    @property
    def format(self) -> Literal["safetensors", "gguf"]:
        """How the weights are stored."""
        return "safetensors" if self.header is None else "gguf"

    @property
    def architecture(self) -> str | None:
        """The architecture that the checkpoint names, in the words of its format."""
        return architecture_of_config(self.config) if self.header is None else architecture_of_gguf(self.header)

    @property
    def verdict(self) -> Verdict:
        """What kind of model it is, told by its config and its tokenizer's, or its metadata."""
        if self.header is not None:
            return judge_gguf(self.header)
        return judge_config(self.config, _mask_token(self.path))

    @property
    def weights(self) -> tuple[Path, ...]:
        """The files that hold the tensors, as the directory has or names them now; a named one may be missing."""
        if self.header is None:
            return _weight_files(self.path)
        return tuple(sorted({self.path, *(tensor.file for tensor in self.header.tensors.values())}))


def open_checkpoint(model: str) -> Checkpoint:
    """The checkpoint ``model``: a path, a hub id (``org/name`` or ``org/name@revision``), or the embedded model's name.

    A path wins over a hub id. A hub model that the cache lacks is downloaded. Raises ``CheckpointNotFoundError`` if
    there is none, ``InvalidCheckpointError`` if it is broken, and the error of its own of what Unmask does not serve.
    """
    checkpoint = find_checkpoint(model)
    refuse_foreign(checkpoint)
    return checkpoint


def find_checkpoint(model: str, *, download: bool = True) -> Checkpoint:
    """As ``open_checkpoint``, but any kind of model; ``download`` says whether the hub may be asked."""
    try:
        name, path = _place(model, download)
        return _opened_directory(name, path) if path.is_dir() else _opened_file(path)
    except OSError as error:
        raise InvalidCheckpointError(
            f"{shown(model)} cannot be read: {error.strerror or error}.",
            hint="May it be read by the user who runs Unmask?",
        ) from None


def name_of(model: str) -> str:
    """The name that the checkpoint ``model`` has if there is one, told from names of files alone."""
    if model == EMBEDDED_MODEL:
        return EMBEDDED_MODEL
    path = Path(os.path.expanduser(model))
    if not os.path.exists(path):
        hub_model = HubModel.parse(model)
        return path.name or model if hub_model is None else hub_model.repo
    if not path.is_dir():
        return model_name(path)
    try:
        file = None if os.path.lexists(path / "config.json") else _gguf_file(path)
    except InvalidCheckpointError:  # several
        file = None
    return (path.resolve().name or model) if file is None else model_name(file)


def refuse_foreign(checkpoint: Checkpoint) -> None:
    """Raise the error of ``checkpoint`` if it is no diffusion language model, or lacks its weights."""
    refuse_kind(checkpoint)
    require_weights(checkpoint)


def refuse_kind(checkpoint: Checkpoint) -> None:
    """Raise the error of ``checkpoint`` if it is no diffusion language model, or one with packed weights."""
    if checkpoint.header is not None:
        refuse_gguf(checkpoint.header)
    else:
        refuse_config(checkpoint.path, checkpoint.config)


def require_weights(checkpoint: Checkpoint) -> None:
    """Raise an error if a file with weights of ``checkpoint`` is missing, or all there are is pickled."""
    if checkpoint.header is not None:
        return
    files = checkpoint.weights
    if not files:
        refuse_pickles(checkpoint.path)
    missing = [file.name for file in files if not file.is_file()]
    if missing or not files:
        others = sorted(file.name for file in checkpoint.path.glob("*.gguf"))
        raise InvalidCheckpointError(
            f"'{checkpoint.path}' lacks its weights ({', '.join(missing[:5]) or 'no *.safetensors file'}).",
            hint=f"Give the path of the GGUF file {others[0]} itself."
            if others
            else "Copy or download the checkpoint again; Unmask reads safetensors and GGUF files only.",
        )
    for file in files:
        refuse_pickle(file)


def _place(model: str, download: bool) -> tuple[str, Path]:
    """The name of ``model``, and where it is."""
    model = os.fspath(model)  # programs may have paths
    if model == EMBEDDED_MODEL:
        return EMBEDDED_MODEL, _EMBEDDED_PATH
    if not model:
        raise CheckpointNotFoundError("The model's name is empty.", hint=f"Give a path or '{EMBEDDED_MODEL}'.")
    path = Path(os.path.expanduser(model))
    if os.path.exists(path):
        return path.resolve().name, path
    hub_model = HubModel.parse(model)
    if hub_model is None:
        raise CheckpointNotFoundError(
            f"There is no model at {shown(model)}.",
            hint="Give the path of a model directory (config.json and *.safetensors) or of a .gguf file, an id of the "
            f"Hugging Face hub (org/name), or '{EMBEDDED_MODEL}' for the embedded model.",
        )
    cached = hub_model.cached()
    if cached is not None and _is_complete(cached):
        return hub_model.repo, cached
    if not download:
        raise hub_model.not_found("only 'unmask serve' and 'unmask run' download")
    return hub_model.repo, hub_model.download()


def _opened_file(path: Path) -> Checkpoint:
    if path.suffix != ".gguf" and first_bytes(path)[:4] not in (b"GGUF", b"FUGG"):
        refuse_file(path)
    header = read_gguf(path)
    return Checkpoint(model_name(header.path), header.path, config={}, generation={}, header=header)


def _opened_directory(name: str, path: Path) -> Checkpoint:
    refuse_directory(path)
    if not os.path.lexists(path / "config.json") and (file := _gguf_file(path)) is not None:
        return _opened_file(file)
    config = read_json(path / "config.json")
    return Checkpoint(name, path, config, generation=read_json(path / "generation_config.json", optional=True))


def _gguf_file(path: Path) -> Path | None:
    """A file of the one GGUF model in the directory ``path``; ``None`` if it has none."""
    files = sorted(file for file in path.glob("*.gguf") if not file.name.startswith(SIDECAR_PREFIXES))
    models = {model_name(file): file for file in files}
    if len(models) > 1:
        raise InvalidCheckpointError(
            f"'{path}' holds {len(models)} GGUF models ({', '.join(list(models)[:5])}).", hint="Give the file of one."
        )
    return files[0] if files else None


class _Index(msgspec.Struct):
    weight_map: dict[str, str] | None = None


def _weight_files(path: Path) -> tuple[Path, ...]:
    """The files that the index of ``path`` names, or all there are if it has no index."""
    index = read_fields(path / "model.safetensors.index.json", _Index, **_MOST_INDEX)
    named = {Path(name).name for name in set((index.weight_map or {}).values())}
    files = (path / name for name in named) if named else path.glob("*.safetensors")
    found = sorted(islice(files, _MOST_SHARDS + 1))
    if len(found) > _MOST_SHARDS:
        raise InvalidCheckpointError(f"'{path}' has over {_MOST_SHARDS} shards.", hint="Is it a model directory?")
    return tuple(found)


def _mask_token(path: Path) -> str:
    """The mask token of the tokenizer in ``path``; '' if it has none, or one that cannot be read."""
    try:
        return TokenizerFiles(path).mask_token
    except InvalidCheckpointError:
        return ""


def _is_complete(path: Path) -> bool:
    """Whether the directory ``path`` holds all parts of a model, or enough of something else to tell what it is."""
    if (path / "config.json").is_file():
        files = _weight_files(path) or tuple(path.glob("*.bin"))
        return bool(files) and all(file.is_file() for file in files)
    others = (*path.glob("adapter_config.json"), *path.glob("model_index.json"), *path.glob("*.gguf"))
    return any(file.is_file() for file in others)
