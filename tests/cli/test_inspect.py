"""`unmask inspect` as a process: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.test_run import unmask
from tests.foreign_models import FOREIGN, gguf_file, hugging_face, tiny_copy
from tests.serving.processes import environment
from unmask.checkpoints.directory import EMBEDDED_MODEL


def test_a_model_that_is_served():
    done = unmask("inspect", EMBEDDED_MODEL)
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["family"] == "llada"
    assert lines["parameters"] == "1,541,760"
    assert lines["served"].startswith("native: ")
    assert lines["lane"] == "unmask"
    assert lines["evidence"].startswith("architecture 'LLaDAModelLM'")
    columns = {len(line) - len(line.split("  ", 1)[1].lstrip()) for line in done.stdout.splitlines()}
    assert len(columns) == 1  # aligned


def test_json(command):
    done = command("inspect", "--json", EMBEDDED_MODEL)
    card = json.loads(done.stdout)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    assert (card["served"], card["refusal"], card["mask_id"]) == (True, None, 6)
    assert set(card["memory_bytes"]) == {"float32", "bfloat16"}
    assert (card["lane"], card["warning"], card["quantization"]) == ("unmask", None, None)
    assert "model_type 'llada'" in card["evidence"]


def test_a_model_that_is_refused(command, tmp_path):
    path = str(hugging_face(architectures=["LlamaForCausalLM"])(tmp_path / "model"))
    done = command("inspect", path)
    assert done.returncode == 1
    assert "autoregressive" in done.stdout
    assert "[no_lane]" in done.stderr
    assert "hint: SGLang and vLLM" in done.stderr
    done = command("inspect", path, "--json")
    assert done.returncode == 1
    card = json.loads(done.stdout)
    assert (card["refusal"]["code"], card["served"], card["lane"]) == ("no_lane", False, None)
    assert (card["context_length"], card["weight_bytes"]) == (None, 32)
    assert "[no_lane]" in done.stderr


def python_path(directory, **files):
    """The path for a process that finds these modules first."""
    for name, content in files.items():
        (directory / f"{name}.py").write_text(content)
    return os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_a_decoder_goes_to_llama_cpp_if_that_is_there(tmp_path):
    file = str(gguf_file("llama", llama__context_length=4096, tokenizer__ggml__mask_token_id=3)(tmp_path / "model"))
    there = python_path(tmp_path, xllamacpp="raise SystemExit('imported')")
    done = unmask("inspect", file, PYTHONPATH=there)
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert (lines["lane"], lines["served"], lines["context"]) == ("llama.cpp", "by llama.cpp", "4,096 tokens")
    assert "mask token" in lines["warning"]
    done = unmask("inspect", file, "--json", PYTHONPATH=there)
    card = json.loads(done.stdout)
    assert (card["served"], card["refusal"], card["lane"]) == (True, None, "llama.cpp")
    assert card["warning"] == card["suspect"]

    (tmp_path / "xllamacpp.py").unlink()
    absent = python_path(tmp_path, sitecustomize="import sys; sys.modules['xllamacpp'] = None")
    done = unmask("inspect", file, PYTHONPATH=absent)
    assert done.returncode == 1
    assert "[lane_missing]" in done.stderr
    assert 'pip install "unmask[llamacpp]"' in done.stderr


@pytest.mark.parametrize("kind", ["nothing", "pickle-zip", "gguf-adapter"])
@pytest.mark.parametrize("verb", [("serve", "--port", "0"), ("run",)])
def test_serve_and_run_end_with_the_same_error(command, tmp_path, verb, kind):
    _, _, build = FOREIGN[kind]
    model = str(build(tmp_path / "model"))
    inspected = command("inspect", model)
    ended = command(verb[0], model, *verb[1:], *(["hi"] if verb == ("run",) else []))
    assert (inspected.returncode, ended.returncode) == (1, 1)
    assert ended.stderr.strip().endswith(inspected.stderr.strip())


def test_names_that_no_terminal_shows(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (tmp_path / "link").symlink_to(path.rename(tmp_path / os.fsdecode(b"\xff")))
    done = unmask("inspect", str(tmp_path / "link"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\udcff" in done.stdout


def test_torch_is_not_imported():
    code = (
        "import sys; sys.argv = ['unmask', 'inspect', 'unmask-tiny']\n"
        "from unmask.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'numpy', 'huggingface_hub'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), stdout=subprocess.DEVNULL)
