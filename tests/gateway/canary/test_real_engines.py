"""Real llama.cpp, with models that are its own and such that only say so."""

from __future__ import annotations

import shutil
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests import gguf_files
from tests.gateway.conftest import running
from tests.gateway.real_llama import BOTH, plan_on
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.gateway.canary.asking import Reply, ask_canary
from unmask.gateway.canary.prompts import MAX_TOKENS
from unmask.gateway.canary.verdict import CanaryVerdict
from unmask.gateway.child import Child
from unmask.gateway.llama_cpp import LlamaCppOptions

SMALL = LlamaCppOptions(threads=1, context=512)


def asker(child: Child, http: aiohttp.ClientSession, *, conversations: bool):
    async def ask(prompt: str) -> Reply:
        body = {"temperature": 0, "max_tokens": MAX_TOKENS, "logprobs": True}
        if conversations:
            path, body = "/v1/chat/completions", body | {"messages": [{"role": "user", "content": prompt}]}
        else:
            path, body = "/v1/completions", body | {"prompt": prompt, "logprobs": 1}
        async with http.post(path, json=body) as response:
            assert response.status == 200, await response.text()
            (choice,) = (await response.json())["choices"]
        text = choice["message"]["content"] if conversations else choice["text"]
        return Reply(text, [entry["logprob"] for entry in choice["logprobs"]["content"]])

    return ask


@pytest.fixture(params=BOTH)
def which(request: pytest.FixtureRequest) -> str:
    """Whose llama.cpp it is."""
    return request.param


async def verdict(which: str, model: Path, directory, *, conversations: bool) -> CanaryVerdict:
    async with running(plan_on(which, model, "m", SMALL), directory) as child:
        headers = {"Authorization": f"Bearer {child.secret}"}
        async with aiohttp.ClientSession(child.url, headers=headers) as http:
            found = await ask_canary(asker(child, http, conversations=conversations), conversations=conversations)
    assert found is not None
    return found


@pytest.mark.parametrize("conversations", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_a_model_that_works_is_ok(which, conversations, smollm2, directory):
    assert await verdict(which, smollm2, directory, conversations=conversations) == CanaryVerdict("ok")


@pytest.fixture(scope="module")
def relabelled(golden, tmp_path_factory) -> dict[str, Path]:
    """Diffusion models that say they are something else: two of random weights, and one that works as what it is."""
    home = tmp_path_factory.mktemp("gguf")
    tiny = open_checkpoint(EMBEDDED_MODEL).path
    words = gguf_files.vocabulary_of(tiny, "gpt-2")
    shutil.copytree(tiny, chance := home / "chance")
    weights, numbers = load_file(tiny / "model.safetensors"), np.random.default_rng(1)
    drawn = {
        name: numbers.normal(0, 0.02, one.shape).astype(np.float32) for name, one in weights.items() if one.ndim > 1
    }
    save_file({name: drawn.get(name, np.ones_like(one)) for name, one in weights.items()}, chance / "model.safetensors")
    files = {
        "llama": gguf_files.convert(golden / "llada" / "ckpt", home / "a.gguf"),
        "qwen2": gguf_files.convert(golden / "dream" / "ckpt", home / "b.gguf"),
        "trained": gguf_files.convert(tiny, home / "c.gguf", vocabulary=words),
        "untrained": gguf_files.convert(chance, home / "d.gguf", vocabulary=words),
    }
    labels = {"qwen2": "qwen2"}
    return {
        name: gguf_files.relabelled(file, home / f"{name}.gguf", labels.get(name, "llama"))
        for name, file in files.items()
    }


@pytest.mark.parametrize("conversations", [True, False])
@pytest.mark.parametrize(("name", "reason"), [
    ("llama", "salad"), ("qwen2", "salad"), ("trained", "empty"), ("untrained", "unsure"),
])  # fmt: skip
async def test_a_diffusion_model_under_another_name_is_suspect(
    which, name, reason, conversations, relabelled, directory
):
    found = await verdict(which, relabelled[name], directory, conversations=conversations)
    assert found.status == "suspect"
    assert any(told.startswith(f"{reason} in ") for told in found.reasons), found
