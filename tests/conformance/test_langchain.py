"""LangChain's standard tests of chat models, once for each of its clients that speaks a dialect of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.dialects import CHAT, MESSAGES, OLLAMA_CHAT, RESPONSES
from tests.conformance.environments import NEW

SUITES = Path(__file__).parent / "suites"
OPTIONS = {
    "asyncio_mode": "auto",  # clients keep their connections, which belong to one event loop
    "asyncio_default_fixture_loop_scope": "session",
    "asyncio_default_test_loop_scope": "session",
}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES, OLLAMA_CHAT], ids=str)
def test_chat_model(dialect, server, tmp_path):
    """In a process of its own: it knows nothing of this repository, not even of its settings."""
    NEW.require()
    command = [NEW.program("python"), "-m", "pytest", "-c", os.devnull, "-q", "-ra", "--tb=short", "-W", "ignore"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(SUITES), "--confcutdir", str(SUITES)]
    command += [part for name, value in OPTIONS.items() for part in ("-o", f"{name}={value}")]
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [*command, str(SUITES / f"{dialect.module}_in_langchain.py")],
        cwd=tmp_path,
        env=own | {"UNMASK_URL": server.url},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
