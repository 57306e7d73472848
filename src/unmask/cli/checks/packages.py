"""What is installed, and whether it runs; what may crash is imported in a process of its own."""

from __future__ import annotations

import platform
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from unmask.cli.checks.finding import Finding
from unmask.shown import cut

_SECONDS = 90.0  # a first import of torch reads hundreds of MB
_OLDEST = (3, 11)
_FOR_DEVELOPERS = ("dev", "recipes")

_TORCH = """
import json, torch
from unmask.engine.free_memory import host_bytes
gpus = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
found = {"version": torch.__version__, "build": torch.version.cuda or torch.version.hip, "gpus": gpus,
         "threads": torch.get_num_threads(), "memory": host_bytes()}
print("found " + json.dumps(found))
"""


def python() -> list[Finding]:
    """The interpreter."""
    version = platform.python_version()
    said = f"{version} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] < _OLDEST:
        return [Finding("python", "fail", said, f"Install Python {'.'.join(map(str, _OLDEST))} or newer.")]
    return [Finding("python", "ok", said)]


def torch() -> list[Finding]:
    """Whether torch can be imported, what it computes on, and the memory that our engine would find."""
    done, said = _run("-c", _TORCH)
    found = re.search(r"^found (\{.*\})$", said, re.MULTILINE)
    if not done or found is None:
        remedy = "Install it anew: pip install --force-reinstall torch. See https://pytorch.org for builds."
        return [Finding("torch", "fail", f"It cannot be imported: {said}", remedy)]
    facts = msgspec.json.decode(found[1])
    return [_torch_finding(facts), _memory_finding(facts["memory"])]


def _torch_finding(facts: dict[str, Any]) -> Finding:
    gpus = ", ".join(facts["gpus"])
    said = f"{facts['version']}, computes on {gpus or 'CPU'}, {facts['threads']} threads by default"
    if gpus or not _has_nvidia_gpu():
        return Finding("torch", "ok", said)
    remedy = "Install a build of torch for its CUDA version, see https://pytorch.org, or mend the driver."
    return Finding("torch", "warn", f"{said}; there is a GPU of NVIDIA's that it cannot use", remedy)


def _has_nvidia_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _memory_finding(free: int | None) -> Finding:
    if free is None:
        return Finding("memory", "warn", "What is left cannot be told here, so that models are not checked to fit.")
    said = f"{free / 2**30:.1f} GiB may be taken"
    if free >= 2**30:
        return Finding("memory", "ok", said)
    return Finding("memory", "warn", said, "End other programs, or raise the limit of the container.")


def llama_cpp() -> list[Finding]:
    """Whether the program that runs llama.cpp starts, if it is installed."""
    if find_spec("xllamacpp") is None:
        return []
    done, said = _run("-m", "unmask.gateway.xllamacpp_server", "--help")
    if done:
        return [Finding("llama.cpp", "ok", f"xllamacpp {_version('xllamacpp')} starts")]
    remedy = "Install it anew: pip install --force-reinstall xllamacpp. Only GGUF files of other kinds need it."
    return [Finding("llama.cpp", "warn", f"xllamacpp does not start: {said}", remedy)]


def extras() -> list[Finding]:
    """The optional parts of Unmask."""
    try:
        required = metadata.requires("unmask") or []
    except metadata.PackageNotFoundError:
        return [Finding("extras", "warn", "Unmask is not installed as a package.", "Install it: pip install unmask.")]
    packages: dict[str, list[str]] = defaultdict(list)
    for line in required:
        found = re.match(r"([\w.-]+).*;.*extra == ['\"]([\w-]+)['\"]", line)
        if found and found[2] not in _FOR_DEVELOPERS:
            packages[found[2]].append(found[1])
    return list(_extras(packages))


def _extras(packages: dict[str, list[str]]) -> Iterator[Finding]:
    for extra, names in packages.items():
        missing = [name for name in names if not _version(name)]
        if missing:
            remedy = f'If it is wanted: pip install "unmask[{extra}]".'
            yield Finding(f"extra {extra}", "ok", f"not installed ({', '.join(missing)})", remedy)
        else:
            yield Finding(f"extra {extra}", "ok", ", ".join(f"{name} {_version(name)}" for name in names))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _run(*arguments: str) -> tuple[bool, str]:
    """Whether Python with ``arguments`` ends well, and all that it said; if it did not, the line that tells why.

    It finds nothing in the folder that we are in.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", *arguments], capture_output=True, text=True, errors="replace", timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"nothing happens within {_SECONDS:g} s"
    except OSError as error:
        return False, str(error)
    if done.returncode == 0:
        return True, done.stdout
    if done.returncode < 0:
        return False, f"it is ended by signal {-done.returncode} ({signal.strsignal(-done.returncode)})"
    lines = done.stderr.strip().splitlines()
    return False, cut(lines[-1] if lines else f"it ends with {done.returncode}")
