"""A llama.cpp built from its source with cmake."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from unmask.errors import EngineBuildError, InvalidValueError
from unmask.gateway.tool_run import Say, run_tool

# No tests, no web pages (which the build would fetch), and no TLS: the engine listens on this machine only.
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_UI=OFF",
)
_COMPILERS = ("c++", "g++", "clang++")


def build_llama_cpp(source: Path, folder: Path, target: str, jobs: int, say: Say) -> Path:
    """Build the program ``target`` of the tree ``source`` in ``folder``, ``jobs`` files at a time; gives its path.

    What was built in ``folder`` before is used again. Raises ``InvalidValueError`` if there is no such tree,
    ``EngineBuildError`` if a tool is missing or the build fails.
    """
    if not (source / "CMakeLists.txt").is_file():
        raise InvalidValueError(
            f"{source} holds no source that cmake could build.", hint="Give the folder in which CMakeLists.txt is."
        )
    cmake = _tool("cmake", ("cmake",))
    if not os.environ.get("CXX"):
        _tool("a C++ compiler", _COMPILERS)
    configure = [cmake, "-S", str(source.absolute()), "-B", str(folder), *_OPTIONS]
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
