"""Builds of llama.cpp that somebody may have: small programs with a real table of names, which serve as told."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.conftest import ROOT
from unmask.gateway.mainline import LOADED_NOT_SERVED, MAINLINE

RELEASED = ("llama", *sorted((MAINLINE | LOADED_NOT_SERVED) - {"llama"}))
SERVER = b"/v1/completions"
CANVASES = b"block-diffusion\0generation_type\0/v1/completions"
WORKER = b"READY %d\n\0ERR badreq"

_PROGRAM = """#!/bin/sh
[ "$1" = --help ] && {{ echo usage; {help}; }}
echo "$@" >> "$0.calls"
while [ $# -gt 1 ]; do [ "$1" = --port ] && port=$2; shift; done
PYTHONPATH='{root}' exec '{python}' -m tests.gateway.{engine} "$port" {faults}
"""


def table(*names: str) -> bytes:
    """``names`` as a compiler leaves them."""
    return b"\0an error occurred\0" + b"".join(name.encode() + b"\0" for name in (*names, "(unknown)")) + b"%s.x\0"


def build(
    path: Path,
    *names: str,
    words: bytes = SERVER,
    faults: str = "",
    help: str = "exit 0",
    engine: str = "fake_engine",
) -> Path:
    """A program at ``path`` that knows ``names`` and has ``words``; it serves as ``engine`` does, with ``faults``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _PROGRAM.format(root=ROOT, python=sys.executable, engine=engine, faults=faults, help=help)
    path.write_bytes(text.encode() + b"\0" + words + b"\0" + table(*names))
    path.chmod(0o755)
    return path


def denying(architecture: str) -> str:
    """What llama-server b11434 says of an architecture that it does not know, and how it ends."""
    lines = (
        f"E llama_model_load: error loading model: unknown model architecture: '{architecture}'",
        "E llama_model_load_from_file_impl: failed to load model",
        "E srv  llama_server: exiting due to model loading error",
    )
    return " ".join(f'--say "{line}"' for line in lines) + " --exit 1"


def calls(program: Path) -> int:
    """How often ``program`` was started to serve."""
    log = Path(f"{program}.calls")
    return len(log.read_text().splitlines()) if log.exists() else 0


def python_with(path: Path, packages: Path) -> Path:
    """A Python at ``path`` that finds ``packages``, too."""
    path.write_text(f"#!/bin/sh\nPYTHONPATH='{packages}{os.pathsep}{ROOT}' exec '{sys.executable}' \"$@\"\n")
    path.chmod(0o755)
    return path


MODELS = {"sglang": "srt/models", "vllm": "model_executor/models"}


def python_package(packages: Path, package: str, *classes: str) -> Path:
    """A package like SGLang or vLLM in the folder ``packages``, with model ``classes``; gives its beginning."""
    models = packages / package / MODELS[package]
    models.mkdir(parents=True)
    (models / "some.py").write_text("\n".join(f"class {name}:\n    raise SystemExit" for name in classes))
    (sglang if package == "sglang" else vllm)(models, *classes)
    (packages / package / "version.py").write_text('__version__ = "1"')
    origin = packages / package / "__init__.py"
    origin.write_text("raise SystemExit('imported')")
    return origin


def sglang(models: Path, *classes: str) -> None:
    """Register ``classes`` as SGLang does, and have them all decoded by diffusion."""
    (models / "more.py").write_text(
        "class Other:\n    pass\n\n\nEntryClass = [\n    " + ",\n    ".join(classes) + ",\n]\n"
    )
    (models / "one.py").write_text("EntryClass = MistralForCausalLM\n")
    dllm = models.parent / "dllm" / "config.py"
    dllm.parent.mkdir()
    dllm.write_text("\n".join(f'"{name}": {{"block_size": 32}},' for name in classes))


def vllm(models: Path, *classes: str) -> None:
    """Register ``classes`` as vLLM does."""
    rows = "\n".join(f'    "{name}": (\n        "some",\n        "{name}",\n    ),' for name in classes)
    gone = '_PREVIOUSLY_SUPPORTED_MODELS = {\n    "BaichuanForCausalLM": "0.23.0",\n}\n'
    (models / "registry.py").write_text(f'_ALL = {{\n{rows}\n    "MistralForCausalLM": ("m", "M"),\n}}\n{gone}')
