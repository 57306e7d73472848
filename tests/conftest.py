"""Where the fixtures lie, and engines to test with."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import hypothesis
import pytest
import torch

from tests import fetch_models

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("UNMASK_SHARED", ROOT.parent / "shared"))
GOLDEN = Path(os.environ.get("UNMASK_GOLDEN", SHARED / "golden"))
TRIAL = SHARED / "tiny-trial"
SMOLLM2 = Path(os.environ.get("UNMASK_SMOLLM2", fetch_models.SMOLLM2))

torch.set_num_threads(1)

# What is made while tests are collected stays: to look through it again and again takes a quarter of that time.
gc.disable()

# Engines that whoever runs the tests has made known must not matter; nothing is there.
os.environ["XDG_DATA_HOME"] = str(ROOT / ".no-data")

# Machines are shared: an example's time says nothing about the code. CI replays the same examples every time.
hypothesis.settings.register_profile("unmask", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("unmask")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of reference fixtures."""
    if not GOLDEN.is_dir():
        pytest.skip(f"no golden fixtures at {GOLDEN}; set UNMASK_GOLDEN")
    return GOLDEN


@pytest.fixture(scope="session")
def trial() -> Path:
    """A small block-causal model that answers, with its exact expected outputs."""
    if not TRIAL.is_dir():
        pytest.skip(f"no trial checkpoint at {TRIAL}; set UNMASK_SHARED")
    return TRIAL


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """A small autoregressive model, as a GGUF file."""
    if not SMOLLM2.is_file():
        pytest.skip(f"no model at {SMOLLM2}; run python -m tests.fetch_models, or set UNMASK_SMOLLM2")
    return SMOLLM2
