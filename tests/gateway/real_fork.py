"""A second real build of llama.cpp, made of the first without a compiler: its table of architectures says otherwise.

Released builds list ``gptj`` and have no code for it. The fork calls its llama models that.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from unmask.gateway.linked_files import linked_files

ARCHITECTURE = "gptj"
_RENAMED = {b"\0gptj\0": b"\0gptx\0", b"\0llama\0": b"\0gptj\0\0"}
_TABLE = b"\0(unknown)\0"


def fork_of(program: Path, folder: Path) -> Path:
    """A copy of ``program`` and what lies beside it, in ``folder``, which knows ``llama`` under another name."""
    here = program.resolve().parent
    holders = {file.resolve().name for file in linked_files(program) if _TABLE in file.read_bytes()}
    shutil.copytree(here, folder, symlinks=True)
    for file in (one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()):
        old = file.read_bytes()
        new = _at_home(old, here)
        for name, other in _RENAMED.items() if file.name in holders else ():
            new = new.replace(name, other)
        if new != old:
            file.write_bytes(new)
    return folder / program.name


def _at_home(data: bytes, folder: Path) -> bytes:
    """``data`` of a program that looks for its libraries beside itself, in place of ``folder``."""
    path = bytes(folder)
    return data.replace(path, b"$ORIGIN".ljust(len(path), b"\0"))
