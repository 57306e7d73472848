"""Responses kept for their clients, in SQLite: in memory, or in a file that outlives the server.

All work is done in a thread of the store's own, one job after another, so that the event loop never waits for a disk.
Several servers may share a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from unmask.errors import StoreError
from unmask.shown import cut

T = TypeVar("T")

_APPLICATION = 0x756E6D73  # "unms": marks the file as ours
_VERSION = 1
_BUSY_SECONDS = 5  # how long another process may hold the file
_HINT = "Give another file with --store, or leave it out: responses are then kept in memory."

_TABLE = """
CREATE TABLE responses (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    created REAL NOT NULL,
    size INTEGER NOT NULL,
    input BLOB NOT NULL,
    body BLOB NOT NULL
)
"""
# It holds all that trimming asks for, so that whole responses need not be read for it.
_INDEX = "CREATE INDEX sizes ON responses (number, size, created)"


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What is kept at most: so many responses, so many bytes of them in all, and each for so many seconds.

    The oldest ones go first.
    """

    rows: int = 10_000
    size: int = 256 * 2**20
    age: float = 30 * 86_400


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """A response as JSON, ``body``, and the conversation that it answers, ``input``."""

    id: str
    input: bytes
    body: bytes


class ResponseStore:
    """What is kept for whom. An ``owner`` finds its own responses and no others."""

    def __init__(
        self,
        path: Path | None = None,
        limits: StoreLimits = StoreLimits(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """The store in the file ``path``, made if it is not there; None keeps all in memory.

        Raises ``StoreError`` for a file that is damaged, of a newer version, or no store.
        """
        self._limits = limits
        self._clock = clock
        self._where = "memory" if path is None else f"the file '{path}'"
        with self._named():
            self._database = _open(path)
            self._closing = weakref.finalize(self, self._database.close)
            _prepare(self._database, self._where)
        self._thread = ThreadPoolExecutor(1, "response-store")

    def close(self) -> None:
        """Finish what is being done, and let go of the file."""
        self._thread.shutdown()
        self._closing()

    async def keep(self, owner: str, response: KeptResponse) -> bool:
        """Keep ``response``, and drop the oldest ones where limits ask for it.

        False for a response that is larger than all that may be kept. Raises ``StoreError``.
        """
        size = len(response.input) + len(response.body)
        if size > self._limits.size:
            return False
        now = self._clock()
        row = (response.id, owner, now, size, response.input, response.body)

        def insert() -> bool:
            with self._database:
                self._database.execute(
                    "INSERT INTO responses (id, owner, created, size, input, body) VALUES (?, ?, ?, ?, ?, ?)", row
                )
                _trim(self._database, self._limits, now - self._limits.age)
            return True

        return await self._do(insert)

    async def find(self, owner: str, response_id: str) -> KeptResponse | None:
        """What ``owner`` keeps under ``response_id``. Raises ``StoreError``."""
        oldest = self._clock() - self._limits.age

        def select() -> KeptResponse | None:
            row = self._database.execute(
                "SELECT input, body FROM responses WHERE id = ? AND owner = ? AND created >= ?",
                (response_id, owner, oldest),
            ).fetchone()
            return None if row is None else KeptResponse(response_id, *row)

        return await self._do(select)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response; False if ``owner`` keeps none of that id. Raises ``StoreError``."""

        def delete() -> bool:
            with self._database:
                found = self._database.execute("DELETE FROM responses WHERE id = ? AND owner = ?", (response_id, owner))
            return found.rowcount > 0

        return await self._do(delete)

    async def _do(self, job: Callable[[], T]) -> T:
        with self._named():
            return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """What goes wrong with the file is an error of the catalogue."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"Responses cannot be kept in {self._where}: {cut(reason)}.", hint=_HINT) from None


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # conversations are nobody else's business
    return sqlite3.connect(":memory:" if path is None else path, timeout=_BUSY_SECONDS, check_same_thread=False)


def _prepare(database: sqlite3.Connection, where: str) -> None:
    """Make the table, or see that the one there is ours and whole. Raises ``StoreError`` and ``sqlite3.Error``."""
    database.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten
    database.execute("BEGIN IMMEDIATE")  # another server may be making the same file
    application, version = _pragma(database, "application_id"), _pragma(database, "user_version")
    if application != _APPLICATION:
        if application or version or database.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreError(f"Responses cannot be kept in {where}: it is another program's.", hint=_HINT)
        database.execute(_TABLE)
        database.execute(_INDEX)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {_VERSION}")
    elif version > _VERSION:
        raise StoreError(f"Responses cannot be kept in {where}: a newer version of Unmask wrote it.", hint=_HINT)
    database.commit()
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    damage = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise StoreError(f"Responses cannot be kept in {where}, which is damaged: {cut(damage)}.", hint=_HINT)


def _trim(database: sqlite3.Connection, limits: StoreLimits, since: float) -> None:
    """Drop the oldest responses until the others are within ``limits`` and not from before ``since``."""
    rows, size = database.execute("SELECT count(*), sum(size) FROM responses").fetchone()
    while rows:
        oldest = "SELECT number, size, created FROM responses ORDER BY number LIMIT 1"
        number, own_size, created = database.execute(oldest).fetchone()
        if rows <= limits.rows and size <= limits.size and created >= since:
            return
        database.execute("DELETE FROM responses WHERE number = ?", (number,))
        rows, size = rows - 1, size - own_size


def _pragma(database: sqlite3.Connection, name: str) -> int:
    value: int = database.execute(f"PRAGMA {name}").fetchone()[0]
    return value
