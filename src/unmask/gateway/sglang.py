"""How SGLang is started for a model directory. Its flags were compared with release 0.5.23, not run."""

from __future__ import annotations

import os
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
    start_seconds: float = START_SECONDS,
) -> ChildPlan:
    """Serve the directory ``model`` with the SGLang of ``python``. Code that comes with the model is not run."""
    arguments = [str(python), str(_LAUNCHER), "--model-path", os.path.abspath(model), "--served-model-name", name]
    arguments += ["--host", LOOPBACK]
    if paradigm == "diffusion":
        arguments += ["--dllm-algorithm", _ALGORITHMS.get(architecture or "", _ALGORITHM)]
    return ChildPlan(
        name=name,
        command=lambda port: [*arguments, "--port", str(port)],
        probe=Probe(body={"model": name, "prompt": "Hello", "max_tokens": 1}),
        secret_variable="SGLANG_API_KEY",
        start_seconds=start_seconds,
    )
