"""What a program of llama.cpp, or a Python with SGLang or vLLM, turns out to be; and what becomes of it later."""

from __future__ import annotations

import os
import shutil
import subprocess

import msgspec
import pytest

from tests.gateway.builds import CANVASES, MODELS, RELEASED, WORKER, build, python_package, python_with
from unmask.errors import EngineUnusableError
from unmask.gateway.engine import Engine
from unmask.gateway.engine_lanes import engine_lane
from unmask.gateway.engine_probe import probe
from unmask.gateway.mainline import MAINLINE


def test_a_server(tmp_path):
    kind, found = probe("llama.cpp", build(tmp_path / "llama-server", *RELEASED, "mine", "llada2"))
    assert kind == "llama.cpp"
    assert found.architectures == {"autoregressive": sorted(MAINLINE | {"mine"})}
    assert [file.path for file in found.files] == [str(tmp_path / "llama-server")]


def test_programs_for_diffusion(tmp_path):
    program = build(tmp_path / "a", *RELEASED, "diffusion-gemma", words=CANVASES)
    assert probe("llama.cpp", program)[0] == "llama.cpp"
    assert probe("llama.cpp", program)[1].architectures == {"diffusion": ["diffusion-gemma"]}
    kind, found = probe("llama.cpp", build(tmp_path / "b", *RELEASED, "diffusion-gemma", words=WORKER, help="exit 1"))
    assert (kind, found.architectures) == ("logits_worker", {"diffusion": ["diffusion-gemma"]})
    lane = engine_lane(Engine("w", kind, str(tmp_path / "b"), "a path", found))
    assert "logits only" in lane.missing


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"words": b"usage: llama-quantize"}, "none that serves models"),
        ({"help": "kill -ILL $$"}, "CPU instruction"),
        ({"help": "exit 132"}, "CPU instruction"),
        ({"help": "exit 127"}, "exit code 127"),
    ],
)
def test_programs_that_are_of_no_use(tmp_path, options, words):
    with pytest.raises(EngineUnusableError, match=words):
        probe("llama.cpp", build(tmp_path / "llama-server", *RELEASED, **options))


def test_what_is_no_program_of_llama_cpp(tmp_path):
    script = tmp_path / "llama-server"
    script.write_text("#!/bin/sh\nexec /opt/real/llama-server\n")
    with pytest.raises(EngineUnusableError, match="may be run"):
        probe("llama.cpp", script)
    script.chmod(0o755)
    with pytest.raises(EngineUnusableError, match="no program of llama") as error:
        probe("llama.cpp", script)
    assert "the path of that one" in error.value.hint
    script.write_bytes(b"")
    with pytest.raises(EngineUnusableError, match="cannot be read"):
        probe("llama.cpp", script)
    with pytest.raises(EngineUnusableError, match="no program"):
        probe("llama.cpp", tmp_path)
    with pytest.raises(EngineUnusableError, match=r"There is no .*nowhere"):
        probe("llama.cpp", tmp_path / "nowhere")


def test_a_program_that_never_ends_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("unmask.gateway.engine_probe._TRIAL_SECONDS", 0.2)
    with pytest.raises(EngineUnusableError, match=r"within 0\.2 s"):
        probe("llama.cpp", build(tmp_path / "llama-server", *RELEASED, help="exec sleep 60"))


@pytest.fixture
def shared_build(tmp_path):
    """A real program with its table in a library next to it."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    names = ", ".join(f'"{name}"' for name in (*RELEASED, "(unknown)"))
    (tmp_path / "l.c").write_text(
        f"static const char *const t[] = {{{names}}}; const char *n(int i) {{ return t[i]; }}"
    )
    (tmp_path / "p.c").write_text(
        'const char *n(int); int printf(const char *, ...); int main(void) { printf("%s /v1/completions\\n", n(0)); '
        "return 0; }"
    )
    library, program = tmp_path / "libllama.so.0", tmp_path / "llama-server"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libllama.so.0", "-o", library, tmp_path / "l.c"], check=True
    )
    subprocess.run([compiler, "-o", program, tmp_path / "p.c", library, "-Wl,-rpath,$ORIGIN"], check=True)
    return program, library


def test_the_table_in_a_library_and_its_changes(shared_build):
    program, library = shared_build
    kind, found = probe("llama.cpp", program)
    assert found.architectures == {"autoregressive": sorted(MAINLINE)}
    assert [file.path for file in found.files] == [str(program), str(library)]
    engine = Engine("mine", kind, str(program), "a path", found)
    assert engine_lane(engine).missing == ""
    os.utime(library)  # touched, not changed
    assert engine_lane(engine).missing == ""
    library.write_bytes(library.read_bytes().replace(b"xverse", b"yverse"))
    assert f"{library} has changed" in engine_lane(engine).missing
    assert engine_lane(engine).remedy == "unmask engine probe mine"
    _, again = probe("llama.cpp", program)
    assert "yverse" in again.architectures["autoregressive"]
    assert again.mark != found.mark
    assert engine_lane(msgspec.structs.replace(engine, probed=again)).missing == ""
    library.unlink()
    with pytest.raises(EngineUnusableError, match=r"'libllama\.so\.0' is not found"):
        probe("llama.cpp", program)
    program.unlink()
    assert "is gone" in engine_lane(engine).missing


DECODED = {
    "sglang": ["DiffusionGemmaForBlockDiffusion", "SDARForCausalLM"],
    "vllm": ["DiffusionGemmaForBlockDiffusion"],
}


@pytest.mark.parametrize("package", ["sglang", "vllm"])
def test_engines_that_are_packages_of_python(tmp_path, package):
    python = python_with(tmp_path / "python", tmp_path / "packages")
    with pytest.raises(EngineUnusableError, match=f"has the package {package}"):
        probe(package, python)
    classes = ("LlamaForCausalLM", "LlamaForNothing", *DECODED["sglang"])
    origin = python_package(tmp_path / "packages", package, *classes)
    kind, found = probe(package, python)
    assert kind == package
    served = {"autoregressive": ["LlamaForCausalLM", "MistralForCausalLM"], "diffusion": DECODED[package]}
    assert found.architectures == served
    engine = Engine("mine", kind, str(python), "a path", found)
    assert engine_lane(engine).missing == ""
    assert engine_lane(engine).formats == {"safetensors"}
    (origin.parent / "version.py").write_text('__version__ = "2"')
    assert "version.py has changed" in engine_lane(engine).missing
    shutil.rmtree(origin.parent / MODELS[package])
    with pytest.raises(EngineUnusableError, match="none of the model classes"):
        probe(package, python)
    origin.unlink()
    assert str(origin) in engine_lane(engine).missing


def test_an_sglang_that_decodes_no_diffusion(tmp_path):
    """One from before its algorithms has some of the classes all the same, and writes one token after another."""
    python = python_with(tmp_path / "python", tmp_path / "packages")
    origin = python_package(tmp_path / "packages", "sglang", "LLaDA2MoeModelLM")
    (origin.parent / "srt" / "dllm" / "config.py").unlink()
    _, found = probe("sglang", python)
    assert found.architectures == {"autoregressive": ["MistralForCausalLM"], "diffusion": []}
