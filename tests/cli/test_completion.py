"""What a shell proposes, as a shell asks for it."""

from __future__ import annotations

import pytest

from tests.cli.test_run import unmask
from unmask.cli.completion import complete_lanes, complete_models


def proposed(words: str) -> list[str]:
    """What bash would be told for the last of ``words``."""
    done = unmask(_UNMASK_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    return done.stdout.split()


def test_a_shell_completes_verbs_models_and_engines():
    assert "list" in proposed("unmask li")
    assert proposed("unmask inspect unm") == ["unmask-tiny"]
    assert "llama.cpp" in proposed("unmask list --lane ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_shown(shell):
    done = unmask("--show-completion", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1", SHELL=f"/bin/{shell}")
    assert done.returncode in (0, 2)  # with detection off, the shell must be named
    named = unmask("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert named.returncode == 0
    assert "_UNMASK_COMPLETE" in named.stdout


def test_models_are_configured_ones_directories_and_gguf_files(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "model.gguf").touch()
    (tmp_path / "model.txt").touch()
    (tmp_path / "models" / "a.gguf").touch()
    (tmp_path / "x.yaml").write_text("models: {mine: {path: y, aliases: [modest]}}")
    monkeypatch.chdir(tmp_path)
    assert complete_models("mo") == ["model.gguf", "models/"]
    assert complete_models("models/") == ["models/a.gguf"]
    assert complete_models(f"{tmp_path}/mo") == [f"{tmp_path}/model.gguf", f"{tmp_path}/models/"]
    assert complete_models("nowhere/") == []
    monkeypatch.setenv("UNMASK_CONFIG", str(tmp_path / "x.yaml"))
    assert complete_models("m") == ["mine", "modest", "model.gguf", "models/"]
    (tmp_path / "x.yaml").write_text("models: [")
    assert complete_models("m") == ["model.gguf", "models/"]
    assert complete_lanes("un") == ["unmask"]
