"""A loop over the embedded model, shared by the tests of a module."""

from __future__ import annotations

import pytest

from tests.engines import make_loop
from unmask.checkpoints.directory import EMBEDDED_MODEL


@pytest.fixture(scope="module")
def loop():
    loop = make_loop(EMBEDDED_MODEL, max_running=40)
    yield loop
    assert loop.idle
    assert loop.step().stats.pages_in_use == 0
