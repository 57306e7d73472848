"""The prefix cache of one engine, kept in the session store from one life of the engine to the next."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from errno import ENOENT
from pathlib import Path

import torch
from safetensors import SafetensorError

from unmask import __version__
from unmask.checkpoints.directory import Checkpoint
from unmask.engine.options import EngineOptions
from unmask.engine.prefix import PrefixCache
from unmask.engine.prefix_file import read_units, write_units
from unmask.engine.session_place import RESTORE_SECONDS, SAVE_SECONDS, SessionPlace
from unmask.engine.wire import Session
from unmask.errors import InvalidValueError
from unmask.models.base import KeyValueCache, Model
from unmask.session_store import FileMark, Kept, SessionStore, key_of, machine_mark, mark_of
from unmask.shown import cut

# Options that change neither keys nor values; what is not named here, and what comes to be added, does.
_WITHOUT_EFFECT = {"model", "max_running", "draft_rows", "kv_tokens", "service_classes", "step_log", "threads"}

# Variables by which torch and its libraries choose how they compute, and so how they round.
_VARIABLES = ("ATEN_", "CUBLAS_", "DNNL_", "MKL_", "NVIDIA_TF32_", "ONEDNN_", "TORCH_")


def file_marks(checkpoint: Checkpoint, options: EngineOptions) -> list[FileMark] | None:
    """Those of all files that a model is read from: its own, and those of adapters; None if one is gone."""
    places = [checkpoint.path, *(Path(one) for one in [options.adapter, *options.adapters.values()] if one)]
    try:
        folders = [place.iterdir() if place.is_dir() else [place] for place in places]
        files = {file for folder in folders for file in folder if file.is_file()}
        return [mark_of(file) for file in sorted(files.union(checkpoint.weights))]
    except OSError:  # the reading of the model tells
        return None


def prefixes_key(files: list[FileMark], options: EngineOptions, model: Model) -> str:
    """A name for all that a model's keys and values depend on."""
    said = {name: value for name, value in asdict(options).items() if name not in _WITHOUT_EFFECT}
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else model.device.type
    environment = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    machine = machine_mark(), environment, device, torch.get_num_threads()
    kind = str(model.dtype), model.precision, list(model.adapters)
    return key_of(["prefixes", __version__, str(torch.__version__), files, said, machine, kind])


class PrefixSessions:
    """What ``prefixes`` and ``cache`` hold is kept at ``place`` as ``key``. What fails costs computing, no answer."""

    def __init__(self, place: SessionPlace, key: str, prefixes: PrefixCache, cache: KeyValueCache) -> None:
        self._place, self._key, self._prefixes, self._cache = place, key, prefixes, cache

    def _store(self) -> SessionStore:
        return SessionStore(Path(self._place.directory), self._place.most_bytes)

    def restore(self) -> Session:
        """Take up what there is; what cannot be used is deleted."""
        due, tokens = time.monotonic() + RESTORE_SECONDS, 0
        try:
            store = self._store()
            for one in store.kept(self._key):
                if not store.intact(one, due):
                    store.forget(one)
                    return Session("restored", reason="a damaged file was deleted")
                tokens += self._read(store, one)
        except (OSError, ValueError, RuntimeError, InvalidValueError) as error:  # RuntimeError: torch's out of memory
            return Session("restored", tokens, cut(error))
        return Session("restored", tokens)

    def _read(self, store: SessionStore, one: Kept) -> int:
        try:
            return read_units(one.path, self._prefixes, self._cache)
        except (ValueError, SafetensorError) as error:
            store.forget(one)
            raise ValueError(f"a file that holds no prefixes was deleted: {error}") from None

    @torch.inference_mode()
    def save(self) -> Session:
        """Keep what was used last, as far as room and time reach."""
        due = time.monotonic() + SAVE_SECONDS
        units = self._prefixes.recent()
        if not units:
            return Session("saved")
        try:
            store = self._store()
            with store.draft(self._key, 0) as draft:
                # Half of the time is for reading it once more, for its digest.
                half = time.monotonic() + SAVE_SECONDS / 2
                tokens = write_units(draft.path, units, self._cache, store.most_bytes, half)
                if not tokens:
                    raise OSError(ENOENT, "not even one unit fits into the room and the time that there are")
                draft.seal(due)
        except (OSError, RuntimeError, InvalidValueError) as error:
            return Session("saved", reason=cut(error))
        return Session("saved", tokens)
