"""What the slots of a llama.cpp hold, kept on disk from one life of the model to the next.

llama.cpp writes a slot's keys and values to a file, and reads them back, when it is asked to. It believes what it
reads, and ends where that is cut: so it is only shown files of which each byte is what it was.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from errno import ENOSPC
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import structlog

from unmask.checkpoints.directory import find_checkpoint
from unmask.errors import InvalidValueError
from unmask.gateway.lane import Lane
from unmask.gateway.llama_cpp import LlamaCppOptions, arguments
from unmask.models.card import ModelCard
from unmask.session_store import Kept, SessionStore, key_of, machine_mark, mark_of
from unmask.shown import cut

SAVE_SECONDS = 5.0  # in all: a model that goes because of another one's need must not keep it waiting
_RESTORE_SECONDS = 10.0
_MARGIN_SECONDS = 1.0  # for a disk that does not answer at all, rather than an engine
_WORTH_KEEPING = 64  # tokens; fewer are computed again
_MOST_BYTES = 65536  # of an answer
_VARIABLES = ("LLAMA_ARG_", "GGML_")  # further options that llama.cpp reads from the environment

Note = Callable[[str, int], None]

_log = structlog.get_logger()


class _Refused(Exception):
    """The server answers, and does not do it."""


def slots_key(lane: Lane, files: Sequence[Path], options: LlamaCppOptions) -> str:
    """A name for all that keys and values depend on: these files, this build, these options, this kind of machine.

    Raises ``OSError`` if a file is gone.
    """
    said = {name: value for name, value in os.environ.items() if name.startswith(_VARIABLES)}
    return key_of(
        ["slots", [mark_of(file) for file in files], lane.name, lane.mark, arguments(options), said, machine_mark()]
    )


def sessions_for(
    store: SessionStore | None, lane: Lane, card: ModelCard, options: LlamaCppOptions, note: Note, name: str
) -> SlotSessions | None:
    """Those of a model that is about to be loaded on ``lane``; None if nothing can be kept of it.

    That is so where the ``store`` is not wanted or has lost its folder, the engine has no slots, or nothing tells its
    build from others.
    """
    if store is None or lane.kind != "llama.cpp" or card.paradigm == "diffusion" or not lane.mark or not card.path:
        return None
    files = find_checkpoint(card.path, download=False).weights
    try:
        store.prepare()
        return SlotSessions(store, lambda: slots_key(lane, files, options), options.slots, name, note)
    except InvalidValueError as error:  # the folder has changed since the server started
        _log.warning("sessions not kept", model=name, reason=cut(error))
        return None
    except OSError:  # a file is gone: the engine tells
        return None


class SlotSessions:
    """Keeps the first ``slots`` slots of the model called ``name`` in ``store``, under the key that ``mark`` gives.

    ``note`` is told what was done, "saved" or "restored", with how many tokens. What fails costs computing, never an
    answer: it is a line in the log. Raises what ``mark`` raises.
    """

    def __init__(self, store: SessionStore, mark: Callable[[], str], slots: int, name: str, note: Note) -> None:
        self._store, self._mark, self._slots, self._name, self._note = store, mark, slots, name, note
        self._key = mark()
        self._fatal: set[str] = set()
        self.directory = store.directory

    async def restore(self, url: str, secret: str) -> bool:
        """Give the engine at ``url``, which has just been loaded, what it had; whether it has survived that."""
        due = time.monotonic() + _RESTORE_SECONDS
        try:
            async with asyncio.timeout(_RESTORE_SECONDS + _MARGIN_SECONDS), _session(url, secret) as http:
                for one in await asyncio.to_thread(self._found):
                    if not await self._restore(http, one, due):
                        return False
        except (_Refused, OSError) as error:  # a TimeoutError is an OSError
            self._tell("restored", error)
        return True

    def _found(self) -> list[Kept]:
        """What there is for the model, if its files are still those that were there before it was loaded."""
        if self._mark() != self._key:
            self._slots = 0  # nor is anything kept of what nobody knows
            raise OSError("the model's files have changed while it was loaded")
        kept = self._store.kept(self._key)
        return [one for one in kept if one.part < self._slots and one.path.name not in self._fatal]

    async def _restore(self, http: aiohttp.ClientSession, one: Kept, due: float) -> bool:
        """Whether the engine has survived it."""
        if not await asyncio.to_thread(self._store.intact, one, due):
            self._store.forget(one)
            self._tell("restored", "a damaged file was deleted")
            return True
        try:
            async with asyncio.timeout(due - time.monotonic()):
                told = await _ask(http, one.part, "restore", one.path.name)
        except _Refused:
            self._store.forget(one)  # it would be refused again
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            self._fatal.add(one.path.name)
            self._store.forget(one)
            self._tell("restored", error)
            return False
        self._note("restored", _count(told, "n_restored"))
        return True

    async def save(self, url: str, secret: str) -> bool:
        """Keep what the engine at ``url`` has, which is about to end; whether it answers."""
        due = time.monotonic() + SAVE_SECONDS
        try:
            async with asyncio.timeout(SAVE_SECONDS), _session(url, secret) as http:
                for slot in range(self._slots):
                    await self._save(http, slot, due)
        except (_Refused, OSError, aiohttp.ClientError) as error:
            self._tell("saved", error)
            return not isinstance(error, TimeoutError | aiohttp.ClientConnectionError)
        return True

    async def _save(self, http: aiohttp.ClientSession, slot: int, due: float) -> None:
        with self._store.draft(self._key, slot) as draft:
            told = await _ask(http, slot, "save", draft.path.name)
            tokens = _count(told, "n_saved")
            if tokens < _WORTH_KEEPING:
                return
            if draft.size != _count(told, "n_written"):  # llama.cpp does not look whether the disk took it all
                raise OSError(ENOSPC, "the file was not written to its end")
            await asyncio.to_thread(draft.seal, due)
        self._note("saved", tokens)

    def _tell(self, done: str, why: Exception | str) -> None:
        reason = "it takes too long" if isinstance(why, TimeoutError) else cut(why)
        _log.warning(f"session not {done}", model=self._name, reason=reason)


def _session(url: str, secret: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {secret}"})


async def _ask(http: aiohttp.ClientSession, slot: int, action: str, file: str) -> dict[str, Any]:
    """What llama.cpp tells of what it did. Raises ``_Refused`` if it did not do it."""
    where = f"/slots/{slot}?action={action}"
    async with http.post(where, json={"filename": file}, allow_redirects=False) as response:
        body = await response.content.read(_MOST_BYTES)
    try:
        told: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        told = None
    if response.status != 200 or not isinstance(told, dict):
        raise _Refused(f"the engine answers with status {response.status}: {body[:500].decode(errors='replace')}")
    return told


def _count(told: dict[str, Any], name: str) -> int:
    """The number ``name`` of an answer; 0 if there is none."""
    count = told.get(name)
    return max(count, 0) if isinstance(count, int) else 0
