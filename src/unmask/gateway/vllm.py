"""How vLLM is started for a model directory. Its flags were compared with release 0.33.0, not run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.ports import LOOPBACK

START_SECONDS = 600.0  # it compiles kernels first
_SERVER = ("-m", "vllm.entrypoints.cli.main", "serve")  # the command `vllm serve`, by the Python that has it


def vllm_plan(
    python: Path, model: Path, name: str, *, context: int | None = None, more: Sequence[str] = ()
) -> ChildPlan:
    """Serve the directory ``model`` with the vLLM of ``python``. Code that comes with the model is not run.

    ``context``: tokens of a request, None for the model's own; ``more``: further words of the command line.
    """
    arguments = [str(python), *_SERVER, os.path.abspath(model), "--served-model-name", name]
    arguments += [*([] if context is None else ["--max-model-len", str(context)]), *more, "--host", LOOPBACK]
    return ChildPlan(
        name=name,
        command=lambda port: [*arguments, "--port", str(port)],
        probe=Probe(body={"model": name, "prompt": "Hello", "max_tokens": 1}),
        environment={"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},  # nothing leaves this machine
        secret_variable="VLLM_API_KEY",
        start_seconds=START_SECONDS,
    )
