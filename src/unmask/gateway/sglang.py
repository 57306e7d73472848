"""How SGLang is started for a model directory. Its flags were compared with release 0.5.23, not run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unmask.checkpoints.paradigm import Paradigm
from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.ports import LOOPBACK

START_SECONDS = 600.0  # it compiles kernels first
_LAUNCHER = Path(__file__).with_name("sglang_launcher.py")
_ALGORITHM = "LowConfidence"  # of diffusion; without one, it decodes one token after another
_ALGORITHMS = {"DiffusionGemmaForBlockDiffusion": "Gemma4Renoise"}  # of classes that take one only


def sglang_plan(
    python: Path,
    model: Path,
    name: str,
    paradigm: Paradigm,
    architecture: str | None,
    *,
    context: int | None = None,
    more: Sequence[str] = (),
) -> ChildPlan:
    """Serve the directory ``model`` with the SGLang of ``python``. Code that comes with the model is not run.

    ``context``: tokens of a request, None for the model's own; ``more``: further words of the command line.
    """
    arguments = [str(python), str(_LAUNCHER), "--model-path", os.path.abspath(model), "--served-model-name", name]
    if paradigm == "diffusion":
        arguments += ["--dllm-algorithm", _ALGORITHMS.get(architecture or "", _ALGORITHM)]
    arguments += [*([] if context is None else ["--context-length", str(context)]), *more, "--host", LOOPBACK]
    return ChildPlan(
        name=name,
        command=lambda port: [*arguments, "--port", str(port)],
        probe=Probe(body={"model": name, "prompt": "Hello", "max_tokens": 1}),
        secret_variable="SGLANG_API_KEY",
        start_seconds=START_SECONDS,
    )
