"""SGLang and vLLM as children: servers in their place that take their options and secrets as they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.builds import CANVASES, RELEASED, build, python_with
from tests.gateway.conftest import MARK, running
from tests.gateway.known import lane
from unmask.errors import NotInstalledError, NotServedError, UnknownLaneError
from unmask.gateway.child import Child
from unmask.gateway.engine import Engine
from unmask.gateway.engine_plan import plan_for
from unmask.gateway.engine_registry import Registry
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.models.card import ModelCard

_SERVE = """
    os.environ["LLAMA_API_KEY"] = secret
    if len(sys.argv) < 2 or "--trust-remote-code" in sys.argv:
        sys.exit(2)
    print("options:", " ".join(option for option in sys.argv[1:] if secret not in option), flush=True)
    print("The server is fired up and ready to roll!", flush=True)
    from tests.gateway import fake_engine
    fake_engine.serve(argparse.Namespace(port=options.port, loading=0.3, unable=False, mute=False))
"""
SGLANG = f"""
import argparse, os, sys
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option in ("--model-path", "--served-model-name", "--host", "--api-key", "--dllm-algorithm"):
        parser.add_argument(option)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    secret = options.api_key
    assert "SGLANG_API_KEY" not in os.environ
{_SERVE}"""
VLLM = f"""
import argparse, os, sys
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    assert sys.argv.pop(1) == "serve"
    parser.add_argument("model_tag")
    for option in ("--served-model-name", "--host", "--api-key"):
        parser.add_argument(option)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    secret = os.environ["VLLM_API_KEY"]
{_SERVE}"""
MORE = LlamaCppOptions(more=("--seed", "1"))
MODULES = {"sglang": ("launch_server.py", SGLANG), "vllm": ("entrypoints/cli/main.py", VLLM)}


@pytest.fixture
def python(tmp_path):
    """A Python that has both packages."""
    for package, (name, text) in MODULES.items():
        path = tmp_path / "packages" / package / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return python_with(tmp_path / "python", tmp_path / "packages")


def registered(kind: str, program: Path) -> Registry:
    return Registry().with_engine(Engine("mine", kind, str(program), "a path"))


def card(path: Path, paradigm: str = "autoregressive", architecture: str | None = None) -> ModelCard:
    return ModelCard(model=str(path), served=False, path=str(path), paradigm=paradigm, architecture=architecture)


def mine(kind: str):
    return lane("mine", kind, "safetensors")


@pytest.mark.parametrize(("kind", "flag"), [("sglang", "--context-length"), ("vllm", "--max-model-len")])
def test_what_is_said_of_a_model_comes_before_its_address(tmp_path, kind, flag):
    there = registered(kind, tmp_path / "python")
    plan = plan_for(mine(kind), there, card(tmp_path), "m", MORE, context=512)
    assert list(plan.command(8))[-8:] == [flag, "512", "--seed", "1", "--host", "127.0.0.1", "--port", "8"]
    assert flag not in plan_for(mine(kind), there, card(tmp_path), "m").command(8)


@pytest.mark.parametrize("paradigm", ["autoregressive", "diffusion"])
@pytest.mark.parametrize("kind", ["sglang", "vllm"])
async def test_it_serves_behind_its_secret(python, tmp_path, directory, mark, kind, paradigm):
    plan = plan_for(mine(kind), registered(kind, python), card(tmp_path / "model", paradigm), "m")
    assert plan.start_seconds == 600
    async with running(replace(plan, environment={**plan.environment, MARK: mark}), directory) as child:
        options = next(line for line in child.tail() if line.startswith("options:"))
        assert f"{tmp_path / 'model'} --served-model-name m " in options
        assert " --host 127.0.0.1 --port " in options
        assert ("--dllm-algorithm LowConfidence" in options) == ((kind, paradigm) == ("sglang", "diffusion"))
        command = Path(f"/proc/{child.pid}/cmdline").read_bytes().decode()
        assert child.secret not in command
        body = {"model": "m", "prompt": "Hello", "max_tokens": 1}
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {child.secret}"}, 200)):
            async with aiohttp.ClientSession(child.url, headers=headers) as http:
                async with http.post("/v1/completions", json=body) as response:
                    assert response.status == status
                async with http.get("/health") as response:
                    assert response.status == 200


@pytest.mark.parametrize(
    ("architecture", "algorithm"),
    [
        (None, "LowConfidence"),
        ("SDARForCausalLM", "LowConfidence"),
        ("DiffusionGemmaForBlockDiffusion", "Gemma4Renoise"),
    ],
)
def test_each_class_is_decoded_as_sglang_can(tmp_path, architecture, algorithm):
    engines = registered("sglang", tmp_path)
    plan = plan_for(mine("sglang"), engines, card(tmp_path, "diffusion", architecture), "m")
    assert plan.command(1)[-6:-4] == ["--dllm-algorithm", algorithm]
    told = plan_for(mine("sglang"), engines, card(tmp_path, "autoregressive", architecture), "m").command(1)
    assert "--dllm-algorithm" not in told


@pytest.mark.parametrize("kind", ["sglang", "vllm"])
async def test_a_package_that_went_away_is_named(tmp_path, directory, mark, kind):
    python = python_with(tmp_path / "python", tmp_path / "packages")
    plan = plan_for(mine(kind), registered(kind, python), card(tmp_path), "m")
    with pytest.raises(NotInstalledError, match=f"lacks the package {kind}"):
        await Child.start(replace(plan, environment={**plan.environment, MARK: mark}), directory)


async def test_a_server_of_llama_cpp_for_diffusion(tmp_path, directory, mark):
    program = build(tmp_path / "server", *RELEASED, "diffusion-gemma", words=CANVASES)
    registry = registered("llama.cpp", program)
    plan = plan_for(mine("llama.cpp"), registry, card(tmp_path / "m.gguf", "diffusion"), "m")
    assert plan.command(9) == [str(program), "-m", str(tmp_path / "m.gguf"), "--host", "127.0.0.1", "--port", "9"]
    async with running(replace(plan, environment={**plan.environment, MARK: mark}), directory) as child:
        assert child.load_seconds


def test_lanes_that_are_no_children(tmp_path):
    with pytest.raises(NotServedError, match="gives logits"):
        plan_for(mine("logits_worker"), registered("logits_worker", tmp_path), card(tmp_path, "diffusion"), "m")
    with pytest.raises(UnknownLaneError, match="'mine' any more"):
        plan_for(mine("llama.cpp"), Registry(), card(tmp_path, "diffusion"), "m")
