"""The file of keys: JSON, written by ``unmask keys`` and by hand. It holds no key, only their digests."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from unmask.errors import InvalidKeyFileError
from unmask.serving.security.key import Key

API_KEY_NAME = "api-key"  # what the key of --api-key is called
_MOST_BYTES = 2**20
_MOST_KEYS = 1024

Stamp = tuple[int, int, int]  # modification time in ns, size, inode: another one means that the file has changed


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. Without keys in it, everything is refused."""

    keys: Annotated[list[Key], Meta(max_length=_MOST_KEYS)]


def stamp(path: Path) -> Stamp | None:
    """What tells this version of the file from others; None if there is no file."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def read(path: Path) -> tuple[list[Key], Stamp]:
    """The keys in the file, and which version of it that was. Raises ``InvalidKeyFileError``."""
    try:
        with open(path, "rb") as file:
            version = _stamp(os.fstat(file.fileno()))
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidKeyFileError(
            f"Cannot read the key file {path}: {error.strerror}.", hint="'unmask keys new NAME' makes one."
        ) from None
    if len(text) > _MOST_BYTES:
        raise InvalidKeyFileError(f"The key file {path} is larger than {_MOST_BYTES >> 20} MiB.")
    try:
        keys = msgspec.json.decode(text, type=KeyFile).keys
    except msgspec.DecodeError as error:
        raise InvalidKeyFileError(f"The key file {path} does not hold keys: {error}.") from None
    _check_names(keys, path)
    return keys, version


def write(path: Path, keys: list[Key]) -> None:
    """Put ``keys`` in the file, all at once: who reads it meanwhile reads the old ones. Only its owner may read it.

    Raises ``InvalidKeyFileError``.
    """
    text = msgspec.json.format(msgspec.json.encode(KeyFile(keys)), indent=2) + b"\n"
    try:
        handle, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=f".{path.name}.")  # mode 0600
        try:
            with open(handle, "wb") as file:
                file.write(text)
            os.replace(name, path.resolve())
        except OSError:
            os.unlink(name)
            raise
    except OSError as error:
        raise InvalidKeyFileError(f"Cannot write the key file {path}: {error.strerror}.") from None


def _check_names(keys: list[Key], path: Path) -> None:
    names = [key.name for key in keys]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidKeyFileError(f"The key file {path} has two keys named '{twice}'.")
    if API_KEY_NAME in names:
        raise InvalidKeyFileError(f"'{API_KEY_NAME}' in {path} is the name of the key of --api-key.")


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
