"""Programs on this disk that give logits, for engines to start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.gateway.builds import RELEASED, WORKER, table

_PROGRAM = """#!/bin/sh
[ "$1" = --help ] && exit 1
PYTHONPATH='{paths}' exec '{python}' -m tests.logits_worker "$@"
"""


def logits_program(folder: Path, *names: str) -> str:
    """The path of one in ``folder``, which knows the architectures ``names`` as a build of llama.cpp would."""
    path = folder / "llama-diffusion-gemma-server"
    text = _PROGRAM.format(paths=os.pathsep.join([str(ROOT / "src"), str(ROOT)]), python=sys.executable)
    path.write_bytes(text.encode() + b"exit\n\0" + WORKER + b"\0" + table(*RELEASED, *names))
    path.chmod(0o755)
    return str(path)


def toy_program(folder: Path) -> str:
    """The path of one in ``folder`` that has no weights, and is ready at once."""
    path = folder / "toy-logits"
    path.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I -S '{ROOT / 'tests' / 'toy_logits.py'}' \"$@\"\n")
    path.chmod(0o755)
    return str(path)
