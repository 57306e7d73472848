"""The file of engines that users made known, and of what was learnt when they failed."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from unmask.checkpoints.paradigm import Paradigm
from unmask.errors import InvalidEngineRegistryError
from unmask.gateway.engine import Engine, Text
from unmask.gateway.lane import PACKAGE
from unmask.home import home
from unmask.params import OWN_LANE

_MOST_BYTES = 2**22
_MOST_ENGINES = 64
MOST_PINS = 256
RESERVED = frozenset({OWN_LANE, PACKAGE})  # names of lanes that are there without being registered


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model's ``architecture`` was sent to ``lane``, since the build ``failed_mark`` of ``failed`` did not know it.

    It holds as long as ``failed`` is that build.
    """

    paradigm: Paradigm
    architecture: Text
    failed: Text
    failed_mark: Text
    lane: Text


class Registry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. ``version`` changes when older programs could not read it any more."""

    version: Literal[1] = 1
    engines: Annotated[list[Engine], Meta(max_length=_MOST_ENGINES)] = []
    pins: Annotated[list[Pin], Meta(max_length=MOST_PINS)] = []

    def engine(self, name: str) -> Engine | None:
        """The one of that name."""
        return next((engine for engine in self.engines if engine.name == name), None)

    def with_engine(self, engine: Engine) -> Registry:
        """With ``engine`` in place of the one of its name, or as the last one."""
        if self.engine(engine.name) is None:
            return msgspec.structs.replace(self, engines=[*self.engines, engine])
        changed = [engine if other.name == engine.name else other for other in self.engines]
        return msgspec.structs.replace(self, engines=changed)

    def without(self, name: str) -> Registry:
        """Without the engine ``name``, and what was learnt of it."""
        engines = [engine for engine in self.engines if engine.name != name]
        pins = [pin for pin in self.pins if name not in (pin.failed, pin.lane)]
        return msgspec.structs.replace(self, engines=engines, pins=pins)

    def with_pin(self, pin: Pin) -> Registry:
        """With ``pin`` as the newest; the oldest of too many are forgotten."""
        key = (pin.paradigm, pin.architecture, pin.failed)
        others = [one for one in self.pins if (one.paradigm, one.architecture, one.failed) != key]
        return msgspec.structs.replace(self, pins=[*others, pin][-MOST_PINS:])


class RegistryFile:
    """The registry on disk, by default in Unmask's home. Readers see a whole one, writers come one after the other."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or home() / "engines.json"

    def read(self) -> Registry:
        """What is in the file; nothing if there is none. Raises ``InvalidEngineRegistryError``."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                text = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return Registry()
        except OSError as error:
            raise self._fault(f"cannot be read: {error.strerror}") from None
        if status.st_uid not in (os.geteuid(), 0) or stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
            raise self._fault("may be written by others, who could name programs to be started")
        if len(text) > _MOST_BYTES:
            raise self._fault(f"is larger than {_MOST_BYTES >> 20} MiB")
        try:
            registry = msgspec.json.decode(text, type=Registry)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._fault(f"does not hold engines: {error}") from None
        names = [engine.name for engine in registry.engines]
        if len(set(names)) < len(names) or RESERVED.intersection(names):
            raise self._fault("has two engines of one name, or one with a name of Unmask's own")
        return registry

    @contextmanager
    def changing(self) -> Iterator[Changes]:
        """Read the file, and write what is in ``registry`` afterwards, if that has changed. Raises as ``read``.

        Only one process at a time gets here: others wait.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._fault(f"cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.read()
            changes = Changes(before)
            yield changes
            if changes.registry != before:
                self._write(changes.registry)
        finally:
            os.close(lock)

    def _write(self, registry: Registry) -> None:
        text = msgspec.json.format(msgspec.json.encode(registry), indent=2) + b"\n"
        path = self.path.resolve()
        try:
            msgspec.json.decode(text, type=Registry)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
            try:
                with open(handle, "wb") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, path)
            except OSError:
                os.unlink(name)
                raise
        except msgspec.ValidationError as error:
            raise self._fault(f"would not be readable any more: {error}") from None
        except OSError as error:
            raise self._fault(f"cannot be written: {error.strerror}") from None

    def _fault(self, why: str) -> InvalidEngineRegistryError:
        return InvalidEngineRegistryError(
            f"The file of engines {self.path} {why}.", hint="Mend it, or move it away and add the engines again."
        )


class Changes:
    """What is to be written: put another one in ``registry``."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
