"""What a shell proposes, as a shell asks for it."""

from __future__ import annotations

import socket
import time
import urllib.request

import pytest

from tests.cli.test_run import unmask
from tests.serving.processes import serve
from unmask.cli.completion import complete_added, complete_lanes, complete_models, complete_paths
from unmask.cli.main import main
from unmask.gateway.engine import Engine
from unmask.gateway.engine_registry import RegistryFile


def proposed(words: str, **settings: str) -> list[str]:
    """What bash would be told for the last of ``words``."""
    done = unmask(_UNMASK_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")), **settings)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    return done.stdout.split()


def test_a_shell_completes_verbs_models_and_engines():
    assert "list" in proposed("unmask li")
    assert proposed("unmask inspect unm") == ["unmask-tiny"]
    assert "llama.cpp" in proposed("unmask list --lane ")
    assert "llama.cpp" in proposed("unmask inspect --lane l")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_shown(shell):
    done = unmask("--show-completion", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1", SHELL=f"/bin/{shell}")
    assert done.returncode in (0, 2)  # with detection off, the shell must be named
    named = unmask("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert named.returncode == 0
    assert "_UNMASK_COMPLETE" in named.stdout


def test_engines_that_were_added_are_proposed_where_they_are_meant(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path))
    assert complete_added("") == []
    with RegistryFile().changing() as changes:
        engine = Engine("rosetta", "llama.cpp", "/bin/true", "a path")
        changes.registry = changes.registry.with_engine(engine)
    for verb in ("probe", "remove"):
        assert proposed(f"unmask engine {verb} r", UNMASK_HOME=str(tmp_path)) == ["rosetta"]
    assert proposed("unmask engine remove l", UNMASK_HOME=str(tmp_path)) == [], "what comes with Unmask stays"


def test_a_script_for_another_shell_or_program_is_not_given_silently(command, monkeypatch):
    done = command("--show-completion", "zsh")
    assert done.returncode == 1
    assert "takes no 'zsh'" in done.stderr
    assert "_UNMASK_COMPLETE=source_bash unmask" in done.stderr
    script = unmask(_UNMASK_COMPLETE="source_zsh")
    assert script.stdout.lstrip().startswith("#compdef unmask")
    monkeypatch.setattr("sys.argv", ["/somewhere/unmask/__main__.py", "--show-completion"])
    with pytest.raises(SystemExit, match="1"):
        main()


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
    assert complete_paths("m") == ["model.gguf", "models/"], "run and inspect read no configuration"
    (tmp_path / "x.yaml").write_text("models: [")
    assert complete_models("m") == ["model.gguf", "models/"]
    assert complete_lanes("un") == ["unmask"]


def test_names_that_a_running_server_knows(tmp_path):
    """Of the server that the line or the environment means, with the key that it wants."""
    (tmp_path / "x.yaml").write_text(
        "models: {mine: {path: unmask-tiny, aliases: [modest]}, far: {url: http://127.0.0.1:1/v1, model: m}, "
        "broken: {path: nowhere}}"
    )
    with serve("--config", str(tmp_path / "x.yaml"), "--api-key", "sesame") as server:
        there = {"UNMASK_URL": server.url, "UNMASK_API_KEY": "sesame"}
        assert proposed("unmask stop ", **there) == ["mine", "modest", "far"]
        assert proposed(f"unmask stop --url {server.url} --api-key sesame m") == ["mine", "modest"]
        assert proposed("unmask logs ", **there) == [], "none of them has a log of its own"
        body = b'{"model": "mine", "prompt": "a", "max_tokens": 1}'
        asked = urllib.request.Request(f"{server.url}/v1/completions", body)
        for name, value in (("authorization", "Bearer sesame"), ("content-type", "application/json")):
            asked.add_header(name, value)
        asked.add_header("x-request-id", "mine-1")
        urllib.request.urlopen(asked, timeout=60).close()
        assert proposed("unmask why mi", **there) == ["mine-1"]
        assert proposed("unmask stop ", UNMASK_URL=server.url) == [], "without the key"


def test_without_a_server_the_configuration_tells_soon_and_nothing_is_an_error(tmp_path):
    (tmp_path / "x.yaml").write_text("models: {mine: {path: y, aliases: [modest]}}")
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections, and never answers
        for url in (f"http://127.0.0.1:{deaf.getsockname()[1]}", "http://127.0.0.1:1", "nonsense"):
            nobody = {"UNMASK_URL": url, "UNMASK_CONFIG": str(tmp_path / "x.yaml")}
            began = time.monotonic()
            assert proposed("unmask stop mo", **nobody) == ["modest"]
            assert time.monotonic() - began < 15
        assert proposed("unmask why ", **nobody) == []
