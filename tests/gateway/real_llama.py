"""llama.cpp itself, as tests have it: from its package, and as a real ``llama-server`` where there is one.

That is the program that ``UNMASK_LLAMA_SERVER`` names, else one that was made known with ``unmask engine``, else one on
the path.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from unmask.gateway.engine_lanes import engine_lane
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.llama_cpp import DEFAULTS, LlamaCppOptions, llama_server_plan, xllamacpp_plan
from unmask.gateway.plan import ChildPlan

PACKAGE, PROGRAM = "package", "program"
BOTH = (PACKAGE, pytest.param(PROGRAM, marks=pytest.mark.slow))


def llama_server() -> Path:
    """The program; the test is skipped if there is none."""
    if named := os.environ.get("UNMASK_LLAMA_SERVER"):
        return Path(named).absolute()
    for engine in RegistryFile().read().engines:
        if engine_lane(engine).advertises("autoregressive", "llama") and engine.kind == "llama.cpp":
            return Path(engine.program)
    if found := shutil.which("llama-server"):
        return Path(found)
    pytest.skip("there is no llama-server: name it by UNMASK_LLAMA_SERVER, or make one known with unmask engine build")


def plan_on(which: str, model: Path, name: str, options: LlamaCppOptions = DEFAULTS) -> ChildPlan:
    """How ``model`` is served by the one of ``BOTH`` that is meant."""
    if which == PROGRAM:
        return llama_server_plan(llama_server(), model, name, options)
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed; install unmask[llamacpp]")
    return xllamacpp_plan(model, name, options)
