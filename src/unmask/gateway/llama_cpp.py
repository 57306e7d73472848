"""How llama.cpp is started for a GGUF file: from the package ``xllamacpp``, or as the program ``llama-server``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from unmask.errors import InvalidValueError, NotInstalledError
from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.ports import LOOPBACK

_SERVER = "unmask.gateway.xllamacpp_server"
_QUIET = {"OMP_WAIT_POLICY": "passive", "GGML_NO_BACKTRACE": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppOptions:
    """How a model is run. Raises ``InvalidValueError`` for numbers out of range.

    ``context``: tokens of one request, prompt and answer together. ``slots``: requests that run at once; each has a
    context of its own. ``threads``: 0 takes as many as there are cores. ``gpu_layers``: None leaves them to llama.cpp.
    ``prompt_cache_mib``: what may be kept of prompts that are over, outside of the slots. ``start_seconds``: how long
    the model may take to load. ``sessions``: the folder in which llama.cpp may write down what its slots hold, and find
    it; None for nowhere. ``more``: further words of the command line, for a ``llama-server``.
    """

    context: int = 4096
    slots: int = 2
    threads: int = 0
    gpu_layers: int | None = None
    prompt_cache_mib: int = 256
    start_seconds: float = 180.0
    sessions: Path | None = None
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        least = {"context": 1, "slots": 1, "threads": 0, "gpu_layers": 0, "prompt_cache_mib": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise InvalidValueError(f"{name} is {value}; it must be at least {smallest}.", param=name)
        if not self.start_seconds > 0:
            raise InvalidValueError("start_seconds must be above 0.", param="start_seconds")

    @property
    def thread_count(self) -> int:
        """``threads``, or that of the cores."""
        if self.threads:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


DEFAULTS = LlamaCppOptions()


def xllamacpp_plan(model: Path, name: str, options: LlamaCppOptions = DEFAULTS) -> ChildPlan:
    """Serve the file ``model`` with the package. Raises ``NotInstalledError`` if it is not there."""
    if find_spec("xllamacpp") is None:
        raise NotInstalledError(
            "llama.cpp is not installed here.", hint="Install it with: pip install 'unmask[llamacpp]'."
        )
    return _plan([sys.executable, "-m", _SERVER], model, name, options)


def llama_server_plan(program: Path, model: Path, name: str, options: LlamaCppOptions = DEFAULTS) -> ChildPlan:
    """Serve the file ``model`` with the ``llama-server`` at ``program``, of whatever version."""
    return _plan([str(program)], model, name, options)


def diffusion_server_plan(
    program: Path, model: Path, name: str, start_seconds: float = 180.0, more: Sequence[str] = ()
) -> ChildPlan:
    """Serve the file ``model`` with a server of llama.cpp for diffusion (its pull request 24427), which serves one
    request at a time and takes few options; ``more`` are further words of its command line. It could not be run here.
    """
    arguments = [str(program), "-m", os.path.abspath(model), *more, "--host", LOOPBACK]
    return ChildPlan(
        name=name,
        command=lambda port: [*arguments, "--port", str(port)],
        probe=Probe(body={"model": name, "prompt": "Hello", "max_tokens": 1}),
        environment=_QUIET,
        start_seconds=start_seconds,
    )


def _plan(program: list[str], model: Path, name: str, options: LlamaCppOptions) -> ChildPlan:
    line = [*program, "--model", os.path.abspath(model), "--alias", name, *arguments(options), "--host", LOOPBACK]
    if options.sessions is not None:
        line += ["--slot-save-path", f"{options.sessions}{os.sep}"]
    return ChildPlan(
        name=name,
        command=lambda port: [*line, "--port", str(port)],
        probe=Probe(body={"model": name, "prompt": "Hello", "max_tokens": 1}),
        environment=_environment(options),
        start_seconds=options.start_seconds,
    )


def arguments(options: LlamaCppOptions) -> list[str]:
    """Options of ``llama-server``, which our own server takes too: those that say how it computes."""
    numbers = {
        "--ctx-size": options.context * options.slots,  # which llama.cpp shares out among its slots
        "--parallel": options.slots,
        "--threads": options.thread_count,
        "--threads-batch": options.thread_count,
    }
    if options.gpu_layers is not None:
        numbers["--gpu-layers"] = options.gpu_layers
    return [*(word for option, number in numbers.items() for word in (option, str(number))), *options.more]


def _environment(options: LlamaCppOptions) -> Mapping[str, str]:
    """Threads that wait sleep, rather than take the cores from those that work: on a busy machine that is ten times
    faster. A failed assertion starts no debugger. Older versions do not know the limit of the cache, which as an option
    they would refuse.
    """
    return {**_QUIET, "LLAMA_ARG_CACHE_RAM": str(options.prompt_cache_mib)}
