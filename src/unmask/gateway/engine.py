"""An engine that a user made known: how it is started, where it came from, and what its probe found."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from unmask.checkpoints.paradigm import Paradigm

EngineKind = Literal["llama.cpp", "logits_worker", "sglang", "vllm"]

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
MOST_ARCHITECTURES = 4096

Text = Annotated[str, Meta(max_length=4096)]
Names = Annotated[list[Text], Meta(max_length=MOST_ARCHITECTURES)]


class FileMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of an engine as it was probed. ``mtime_ns``: when it was last changed."""

    path: Text
    size: int
    mtime_ns: int
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Probed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the ``files`` of an engine know: ``architectures`` by the paradigm as which it serves them."""

    files: Annotated[list[FileMark], Meta(max_length=256)]
    architectures: dict[Paradigm, Names]

    @property
    def mark(self) -> str:
        """Differs as soon as a file does."""
        return hashlib.sha256("".join(file.sha256 for file in self.files).encode()).hexdigest()


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An engine called ``name``. ``program`` is the one that is started, or the Python that has the package ``kind``.

    ``source`` says where it came from, in words. ``fault`` is why it could not be probed the last time, '' if it was.
    """

    name: Annotated[str, Meta(pattern=NAME)]
    kind: EngineKind
    program: Text
    source: Text
    probed: Probed | None = None
    fault: Text = ""


def mark_file(path: Path) -> FileMark:
    """Raises ``OSError``."""
    status = path.stat()
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileMark(str(path), status.st_size, status.st_mtime_ns, digest)
