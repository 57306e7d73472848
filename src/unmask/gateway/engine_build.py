"""A llama.cpp built from its source with cmake."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from unmask.errors import EngineBuildError, InvalidValueError
from unmask.gateway.tool_run import Say, run_tool
from unmask.shown import shown

# No tests, no web pages (which the build would fetch), and no TLS: the engine listens on this machine only.
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_UI=OFF",
)
_DEFINITION = re.compile(r"[A-Za-z_]\w*(?::[A-Z]+)?=.*")
_COMPILERS = ("c++", "g++", "clang++")
_HEADERS = ("include/llama.h", "llama.h")  # where it is, and was until the middle of 2024


def build_llama_cpp(
    source: Path, folder: Path, target: str, jobs: int, say: Say, definitions: Sequence[str] = ()
) -> Path:
    """Build the program ``target`` of the tree ``source`` in ``folder``, ``jobs`` files at a time; gives its path.

    ``definitions`` are cmake's, ``GGML_CUDA=ON`` for one. What was built in ``folder`` before is used again, and so are
    its definitions. Raises ``InvalidValueError`` if there is no such tree or definition, ``EngineBuildError`` if a tool
    is missing or the build fails.
    """
    if wrong := next((one for one in definitions if not _DEFINITION.fullmatch(one)), None):
        raise InvalidValueError(f"{shown(wrong)} defines nothing.", hint="Give NAME=VALUE, as GGML_CUDA=ON.")
    if not (source / "CMakeLists.txt").is_file():
        raise InvalidValueError(
            f"{source} holds no source that cmake could build.", hint="Give the folder in which CMakeLists.txt is."
        )
    if not any((source / header).is_file() for header in _HEADERS):
        raise InvalidValueError(
            f"{source} is no source of llama.cpp: it has no {_HEADERS[0]}.", hint="Give that folder."
        )
    cmake = _tool("cmake", ("cmake",))
    if not os.environ.get("CXX"):
        _tool("a C++ compiler", _COMPILERS)
    configure = [cmake, "-S", str(source.absolute()), "-B", str(folder), *_OPTIONS]
    configure += [f"-D{one}" for one in definitions]
    if shutil.which("ninja") and not (folder / "CMakeCache.txt").exists():
        configure += ["-G", "Ninja"]
    folder.mkdir(parents=True, exist_ok=True)
    run_tool(configure, say, "Configuring the build")
    run_tool([cmake, "--build", str(folder), "--target", target, "--parallel", str(jobs)], say, "The build")
    program = folder / "bin" / target
    if not program.is_file():
        raise EngineBuildError(f"The build made no {program}.", hint="Is the target a program of llama.cpp?")
    return program


def _tool(what: str, names: tuple[str, ...]) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise EngineBuildError(
            f"To build llama.cpp takes {what}, which is not installed.",
            hint="On Debian and Ubuntu: apt install cmake ninja-build g++.",
        )
    return found
