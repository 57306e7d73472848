"""What an engine is able to do, asked of its files; and whether it runs on this machine at all."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from unmask.errors import EngineUnusableError
from unmask.gateway.advertised import Speaks, advertised
from unmask.gateway.engine import EngineKind, Probed, mark_file
from unmask.gateway.hugging_face_engines import VERSIONS, served_by
from unmask.gateway.linked_files import engine_environment, linked_files
from unmask.gateway.llama_table import architectures_in, mapped
from unmask.gateway.telling import explain_signal
from unmask.shown import cut, printable

_TRIAL_SECONDS = 30.0
_IMPORT_SECONDS = 30.0
_MOST_OUTPUT = 2**16
_NOT_STARTED = (126, 127)  # by the system's loader, or a shell

# Words in the files of a program, all of which say how it speaks.
_SPEECHES: tuple[tuple[Speaks, tuple[bytes, ...]], ...] = (
    ("canvases", (b"block-diffusion", b"generation_type")),
    ("logits", (b"READY %d", b"badreq")),
    ("tokens", (b"/v1/completions",)),
)


def probe(kind: EngineKind, program: Path) -> tuple[EngineKind, Probed]:
    """What the engine started by ``program`` serves, and the kind that it turns out to be.

    Raises ``EngineUnusableError``: it is none, or it does not run here.
    """
    if not program.exists():
        raise EngineUnusableError(f"There is no {program}.", hint="Give the path of the program.")
    if not program.is_file() or not os.access(program, os.X_OK):
        raise EngineUnusableError(f"{program} is no program that may be run.", hint="Give the path of the program.")
    if kind in ("sglang", "vllm"):
        return kind, _probe_package(program, kind)
    return _probe_llama_cpp(program)


def _probe_llama_cpp(program: Path) -> tuple[EngineKind, Probed]:
    files = linked_files(program)
    likely_first = sorted(files, key=lambda file: "llama" not in file.name)
    names = next(filter(None, map(_names, likely_first)), frozenset())
    if not names:
        raise EngineUnusableError(
            f"{program} is no program of llama.cpp: neither it nor its libraries hold a table of architectures.",
            hint="If it is a script that starts another program, give the path of that one.",
        )
    speaks = _speech(files)
    if speaks is None:
        raise EngineUnusableError(
            f"{program} is a program of llama.cpp, and none that serves models.", hint="Give the path of llama-server."
        )
    _try(program)
    served = {paradigm: sorted(known) for paradigm, known in advertised(names, speaks).items()}
    kind: EngineKind = "logits_worker" if speaks == "logits" else "llama.cpp"
    return kind, Probed([mark_file(file) for file in files], served)


def _names(path: Path) -> frozenset[str]:
    try:
        return architectures_in(path)
    except (OSError, ValueError) as error:
        raise EngineUnusableError(f"{path} cannot be read: {cut(error)}.") from None


def _speech(files: Sequence[Path]) -> Speaks | None:
    """How a program speaks: HTTP with answers of ``tokens`` or of ``canvases``, or ``logits`` through files."""
    left = {word for _, words in _SPEECHES for word in words}
    for file in files:
        with mapped(file) as memory:
            left -= {word for word in left if memory.find(word) >= 0}
    return next((speaks for speaks, words in _SPEECHES if not left.intersection(words)), None)


def _try(program: Path) -> None:
    """Start it once without a model. To tell a version, programs run that then meet an instruction they lack."""
    with tempfile.TemporaryFile() as output:
        try:
            status = subprocess.run(
                [program, "--help"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=engine_environment(),
                timeout=_TRIAL_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            raise EngineUnusableError(f"{program} did not tell its help within {_TRIAL_SECONDS:g} s.") from None
        except OSError as error:
            raise EngineUnusableError(
                f"{program} cannot be started: {error.strerror or error}.", hint="Is it made for this system?"
            ) from None
        output.seek(0)
        words = output.read(_MOST_OUTPUT).decode(errors="replace").split("\n")
    last = next((printable(cut(line.strip())) for line in reversed(words) if line.strip()), "")
    if explained := explain_signal(status):
        raise EngineUnusableError(f"{program} {explained[0]} when it was asked for its help.", hint=explained[1])
    if status in _NOT_STARTED:
        raise EngineUnusableError(f"{program} cannot be started (exit code {status}). It last said: {last}")


def _probe_package(python: Path, package: str) -> Probed:
    """Where ``python`` finds ``package``, without importing it: that takes long, and may want a GPU."""
    code = f"import importlib.util as u; s = u.find_spec({package!r}); print(s.origin if s and s.origin else '')"
    try:
        done = subprocess.run(
            [python, "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=engine_environment(),
            timeout=_IMPORT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineUnusableError(f"{python} does not run as a Python: {cut(error)}.") from None
    origin = Path(os.fsdecode(done.stdout[:4096]).strip())
    if done.returncode or not origin.is_file():
        raise EngineUnusableError(
            f"{python} is no Python that has the package {package}.",
            hint=f"Give the path of one that has it, or let 'unmask engine add NAME --package {package} --install' "
            "make one.",
        )
    try:
        served = {paradigm: sorted(known) for paradigm, known in served_by(package, origin.parent).items()}
        versions = [file for name in VERSIONS if (file := origin.with_name(name)).is_file()]
        files = [mark_file(file) for file in (python.resolve(), origin, *versions)]
    except OSError as error:
        raise EngineUnusableError(f"The package {package} of {python} cannot be read: {cut(error)}.") from None
    if not any(served.values()):
        raise EngineUnusableError(
            f"The package {package} of {python} has none of the model classes that are known here.",
            hint="Install a newer version of it, or one of Unmask.",
        )
    return Probed(files, served)
