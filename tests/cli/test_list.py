"""`unmask list`: the models that a server would have."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.test_inspect import python_path
from tests.cli.test_run import unmask
from tests.foreign_models import FOREIGN, gguf_file, tiny_copy
from tests.serving.processes import environment, serve


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A configuration of a model that is served, some that are not, one elsewhere, and a folder."""
    root = tmp_path_factory.mktemp("config")
    tiny_copy(root / "models" / "found")
    FOREIGN["gguf-adapter"][2](root / "models" / "adapter")
    gguf_file("llama", llama__context_length=4096)(root / "llama")
    (root / "unmask.yaml").write_text(
        "models_dir: models\n"
        "models:\n"
        "  tiny: {path: unmask-tiny, aliases: [little], context: 64, lora: {haiku: x}}\n"
        "  llama: {path: llama/model.gguf}\n"
        "  later: {path: org/name}\n"
        "  far: {url: https://api.example.com/v1, model: mercury, api_key_env: FAR_KEY, diffusing: true}\n"
    )
    return root / "unmask.yaml"


def rows(done):
    """The table by name, without its head; what stands below it."""
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["NAME", "ALIASES", "PARADIGM", "ARCHITECTURE", "SIZE", "CONTEXT", "LANE", "STATE"]
    return lines[1:]


def test_nothing_named_lists_the_embedded_model(command):
    done = command("list")
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = rows(done)
    assert line.split("  ")[0] == "unmask-tiny"
    assert "diffusion" in line
    assert line.endswith("unmask  absent")


def test_a_running_server_tells_states(command):
    with serve() as running:
        done = command("list", "--url", running.url)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = rows(done)
    assert line.endswith("unmask  ready")
    gone = command("list", "--url", running.url)
    assert gone.returncode == 1
    assert "server_unreachable" in gone.stderr


def test_a_server_is_listed_as_it_is(command, tmp_path):
    """Its models, not those that one started here would have; for its file, where it does not answer, no states."""
    (tmp_path / "x.yaml").write_text("models: {mine: {path: unmask-tiny}, gone: {path: nowhere}}")
    with serve("--config", str(tmp_path / "x.yaml")) as running:
        done = command("list", UNMASK_URL=running.url)
        one = json.loads(command("list", "--lane", "unmask", "--json", UNMASK_URL=running.url).stdout)["models"]
    assert (done.returncode, done.stderr) == (0, "")
    mine, gone, why, hint = rows(done)
    assert (mine.split()[0], mine.split()[-2:], gone.split()[-1]) == ("mine", ["unmask", "absent"], "refused")
    assert why.startswith("gone: ")
    assert why.endswith("[checkpoint_not_found]")
    assert hint.startswith("  hint: ")
    assert [(row["name"], row["paradigm"]) for row in one] == [("mine", "diffusion")]
    done = command("list", "--config", str(tmp_path / "x.yaml"), UNMASK_URL=running.url)
    assert done.returncode == 0
    assert f"warning: No server answers at {running.url}" in done.stderr
    assert [line.split()[-1] for line in rows(done)[:2]] == ["unknown", "refused"]


def test_all_of_a_configuration_is_listed_and_what_is_refused_is_no_failure(file):
    there = python_path(file.parent, xllamacpp="raise SystemExit('imported')")
    done = unmask("list", "unmask-tiny", UNMASK_CONFIG=str(file), PYTHONPATH=there)
    assert (done.returncode, done.stderr) == (0, "")
    lines = rows(done)
    assert [line.split()[0] for line in lines[:7]] == [
        "unmask-tiny", "tiny", "llama", "later", "far", "adapter/model", "found",
    ]  # fmt: skip
    assert [line.split("  ")[-1].strip() for line in lines[:7]] == [
        "absent", "absent", "absent", "not downloaded", "refused", "refused", "absent",
    ]  # fmt: skip
    assert [line.split()[1] for line in lines[:2]] == ["-", "little"]
    assert any(line.startswith("far: ") and "FAR_KEY" in line and "[lane_missing]" in line for line in lines)
    assert len({line.index("  unmask  ") for line in lines if "  unmask  " in line}) == 1  # aligned


def test_json(command, file):
    done = command("list", "--config", str(file), "--json", FAR_KEY="sk-secret")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    found = {row["name"]: row for row in json.loads(done.stdout)["models"]}
    tiny = found["tiny"]
    assert (tiny["aliases"], tiny["adapters"], tiny["context_length"]) == (["little"], ["haiku"], 64)
    assert (tiny["paradigm"], tiny["family"], tiny["lane"]) == ("diffusion", "llada", "unmask")
    assert tiny["weight_bytes"] > 10**6
    assert found["adapter/model"]["refusal"]["code"] == "adapter_not_model"
    assert (found["far"]["lane"], found["far"]["state"], found["far"]["refusal"]) == ("remote", "absent", None)
    assert "secret" not in done.stdout


def test_one_engine(command, file):
    done = command("list", "--config", str(file), "--lane", "unmask")
    assert [line.split()[0] for line in rows(done)] == ["tiny", "found"]
    done = command("list", "--lane", "lama.cpp")
    assert done.returncode == 2
    assert "llama.cpp" in done.stderr


def test_a_wrong_file_is_told(command, tmp_path):
    (tmp_path / "x.yaml").write_text("models:\n  a: {pth: b}\n")
    done = command("list", "--config", str(tmp_path / "x.yaml"))
    assert done.returncode == 1
    assert f"{tmp_path / 'x.yaml'}:2: 'models.a.pth' is no key of a model. [invalid_config]" in done.stderr
    assert "hint: Did you mean 'path'?" in done.stderr


def test_names_that_no_terminal_shows(command, tmp_path):
    tiny_copy(tmp_path / os.fsdecode(b"\xff\x1b[31m"))
    (tmp_path / "x.toml").write_text(f'models_dir = "{tmp_path}"')
    done = unmask("list", "--config", str(tmp_path / "x.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    json.loads(command("list", "--json", "--config", str(tmp_path / "x.toml")).stdout)


def test_torch_is_not_imported():
    code = (
        "import sys; sys.argv = ['unmask', 'list']\n"
        "from unmask.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'numpy', 'huggingface_hub', 'fastapi'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), stdout=subprocess.DEVNULL)
