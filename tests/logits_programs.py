"""Programs on this disk that give logits, for engines to start."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.conftest import ROOT
from tests.gateway.builds import RELEASED, WORKER, table

_PROGRAM = """#!/bin/sh
[ "$1" = --help ] && exit 1
PYTHONPATH='{paths}' exec '{python}' {script} "$@"
"""


def logits_program(folder: Path, *names: str) -> str:
    """The path of one in ``folder`` that computes real models, and knows the architectures ``names`` as a build of
    llama.cpp would.
    """
    return _program(folder / "llama-diffusion-gemma-server", "-m tests.logits_worker", *names)


def toy_program(folder: Path, *names: str) -> str:
    """The same of one that has no weights, and is ready at once."""
    return _program(folder / "toy-logits", f"-I -S '{ROOT / 'tests' / 'toy_logits.py'}'", *names)


def _program(path: Path, script: str, *names: str) -> str:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    text = _PROGRAM.format(paths=paths, python=sys.executable, script=script)
    path.write_bytes(text.encode() + b"exit\n\0" + WORKER + b"\0" + table(*RELEASED, *names))
    path.chmod(0o755)
    return str(path)
