"""`unmask` in this process: what a test asks of it takes no second in which a new one imports everything again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import structlog

from tests.serving.processes import environment
from unmask.cli.main import main


@pytest.fixture
def command(monkeypatch, capsys):
    """A function that calls the entry point as a shell does, with nothing to read, and tells how it ended."""

    def call(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with monkeypatch.context() as patch, open(os.devnull) as nothing:
            for name in environment().keys() ^ os.environ.keys():
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["unmask", *arguments])
            patch.setattr(sys, "stdin", nothing)
            with pytest.raises(SystemExit) as ended:
                main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code or 0, said.out, said.err)

    logging = structlog.get_config()
    yield call
    structlog.configure(**logging)
