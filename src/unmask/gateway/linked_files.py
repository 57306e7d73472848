"""The files that hold llama.cpp's code: a program, and the libraries of llama.cpp that it is started with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from unmask.errors import EngineUnusableError
from unmask.shown import shown

_SECONDS = 20.0
_OURS = re.compile(r"llama|ggml|mtmd")
_LINE = re.compile(r"^\s*(\S+) => (not found|/.*?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)


def engine_environment() -> dict[str, str]:
    """This process's own, without Unmask's variables, which hold secrets of others."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UNMASK_")}


def linked_files(program: Path) -> list[Path]:
    """``program`` first. Raises ``EngineUnusableError`` if a library of it is missing."""
    libraries = list(_told_by_loader(program)) if sys.platform == "linux" else []
    if not libraries:
        libraries = list(_beside(program))
    return [program, *sorted({library.resolve() for library in libraries} - {program})]


def _told_by_loader(program: Path) -> Iterator[Path]:
    """What the system's loader would load; a program without one, a script for one, is asked for its help instead."""
    try:
        done = subprocess.run(
            [program, "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=engine_environment() | {"LD_TRACE_LOADED_OBJECTS": "1"},
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):  # the trial tells why
        return
    for name, where in _LINE.findall(done.stdout[: 2**20].decode(errors="replace")):
        if where == "not found":
            raise EngineUnusableError(
                f"{program} cannot be started: its library {shown(name)} is not found.",
                hint="Put it next to the program, or install it; a build with -DBUILD_SHARED_LIBS=OFF needs none.",
            )
        if _OURS.search(name):
            yield Path(where)


def _beside(program: Path) -> Iterator[Path]:
    for folder in (program.parent, program.parent.parent / "lib"):
        for pattern in ("libllama*.so*", "libllama*.dylib"):
            yield from sorted(folder.glob(pattern))
