"""The real llama.cpp: what it does with a model of its kind, and what it would do with one of ours."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests import gguf_files
from tests.conftest import ROOT
from tests.gateway.conftest import MARK, nothing_left, running
from tests.gateway.real_llama import BOTH, PROGRAM, plan_on
from unmask.errors import (
    CheckpointNotFoundError,
    EngineCrashedError,
    InsufficientMemoryError,
    InvalidCheckpointError,
    InvalidValueError,
    ModelUnsupportedEngineError,
    NotInstalledError,
    UnknownArchitectureError,
)
from unmask.gateway import llama_cpp
from unmask.gateway.child import Child
from unmask.gateway.llama_cpp import LlamaCppOptions, llama_server_plan, xllamacpp_plan
from unmask.gateway.plan import ChildPlan
from unmask.gateway.ports import HeldPort

ONE_SLOT = LlamaCppOptions(slots=1, threads=1, context=256)
SMALL = LlamaCppOptions(threads=1, context=256)


@pytest.fixture(params=BOTH)
def which(request: pytest.FixtureRequest) -> str:
    """Whose llama.cpp it is."""
    return request.param


@pytest.fixture
def planned(which: str) -> Callable[..., ChildPlan]:
    """Plans a model for that one."""
    return partial(plan_on, which)


def marked_plan(plan: ChildPlan, mark: str) -> ChildPlan:
    """``plan``, so that its processes can be found."""
    return replace(plan, environment={**plan.environment, MARK: mark})


def session(child: Child) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(child.url, headers={"Authorization": f"Bearer {child.secret}"})


HELLO = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


async def test_an_autoregressive_model_answers(which, planned, smollm2, directory, mark):
    async with (
        running(marked_plan(planned(smollm2, "smollm2"), mark), directory) as child,
        session(child) as http,
    ):
        async with http.post("/v1/chat/completions", json=HELLO | {"max_tokens": 20}) as response:
            answer = await response.json()
        assert answer["choices"][0]["message"]["content"].startswith("Hello")
        assert answer["model"] == "smollm2"
        async with http.get("/slots") as response:
            assert [slot["n_ctx"] for slot in await response.json()] == [4096, 4096]
        assert Path(f"/proc/{child.pid}/environ").read_bytes().count(b"OMP_WAIT_POLICY=passive") == 1
    assert child.status == (0 if which == PROGRAM else -signal.SIGTERM)
    assert nothing_left(mark, 0)


async def test_a_kill_within_a_stream_is_noticed_and_explained(planned, smollm2, directory, mark):
    plan = marked_plan(planned(smollm2, "smollm2", LlamaCppOptions(threads=1, context=2048)), mark)
    async with running(plan, directory) as child, session(child) as http:
        story = HELLO | {"max_tokens": 1000, "stream": True, "ignore_eos": True}
        async with http.post("/v1/chat/completions", json=story) as response:
            for _ in range(6):
                await response.content.readline()
            os.kill(child.pid, signal.SIGKILL)
            begun = time.monotonic()
            with pytest.raises(aiohttp.ClientError):
                await response.read()
            assert await child.wait() == -signal.SIGKILL
            assert time.monotonic() - begun < 1
        error = await child.explain_end()
        assert isinstance(error, EngineCrashedError)
        assert "killed" in error.message
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get("/health")
    assert nothing_left(mark, 0)


async def test_the_program_takes_the_same_options(smollm2, directory, tmp_path, mark):
    """Our own server in the place of `llama-server`, where there is none."""
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m unmask.gateway.xllamacpp_server "$@"\n')
    program.chmod(0o700)
    plan = llama_server_plan(program, smollm2, "smollm2", SMALL)
    async with running(marked_plan(plan, mark), directory) as child, session(child) as http:
        async with http.get("/slots") as response:
            assert [slot["n_ctx"] for slot in await response.json()] == [256, 256]
        assert child.load_seconds < 60


@pytest.fixture(scope="module")
def diffusion(golden, tmp_path_factory) -> dict[str, Path]:
    """Small diffusion models as GGUF files, by what their files say that they are."""
    home = tmp_path_factory.mktemp("gguf")
    files = {}
    for name in ("llada", "dream", "llada2"):
        files[name] = gguf_files.convert(golden / name / "ckpt", home / f"{name}.gguf")
    files["llada as llama"] = gguf_files.relabelled(files["llada"], home / "llama.gguf", "llama")
    files["llada as gptj"] = gguf_files.relabelled(files["llada"], home / "gptj.gguf", "gptj")
    files["dream as qwen2"] = gguf_files.relabelled(files["dream"], home / "qwen2.gguf", "qwen2")
    return files


@pytest.mark.parametrize("options", [SMALL, ONE_SLOT])
@pytest.mark.parametrize("name", ["llada", "dream"])
async def test_a_diffusion_model_does_not_count_as_ready(planned, name, options, diffusion, directory, mark):
    with pytest.raises(ModelUnsupportedEngineError) as caught:
        await Child.start(marked_plan(planned(diffusion[name], name, options), mark), directory)
    assert "keeps no keys and values" in caught.value.message
    assert "diffusion" in caught.value.hint
    assert nothing_left(mark, 0)


@pytest.mark.parametrize(("name", "architecture"), [("llada2", "llada2"), ("llada as gptj", "gptj")])
async def test_an_architecture_that_llama_cpp_does_not_know(planned, name, architecture, diffusion, directory):
    """One that is not in its table, and one that is, for which it has no code."""
    with pytest.raises(UnknownArchitectureError, match=f"'{architecture}'"):
        await Child.start(planned(diffusion[name], "m", SMALL), directory)


async def test_files_that_cannot_be_read(planned, diffusion, directory, tmp_path):
    with pytest.raises(CheckpointNotFoundError):
        await Child.start(planned(tmp_path / "none.gguf", "none", SMALL), directory)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(diffusion["llada"].read_bytes()[:50_000])
    with pytest.raises(InvalidCheckpointError):
        await Child.start(planned(cut, "cut", SMALL), directory)


async def test_too_little_memory(planned, smollm2, directory):
    plan = planned(smollm2, "smollm2", LlamaCppOptions(threads=1, context=1_000_000))
    bounded = replace(
        plan, command=lambda port: ["sh", "-c", 'ulimit -v 3000000; exec "$@"', "sh", *plan.command(port)]
    )
    with pytest.raises(InsufficientMemoryError, match="could not get the memory"):
        await Child.start(bounded, directory)


@contextmanager
def unguarded(plan: ChildPlan, model: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """llama.cpp's server with a file, as a gateway would run it that looks at nothing but /health."""
    port, log = HeldPort(), model.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            plan.command(port.number),
            env=os.environ | dict(plan.environment) | {"LLAMA_API_KEY": "k"},
            cwd=ROOT,
            stderr=output,
        )
    try:
        yield process, f"http://127.0.0.1:{port.number}", log
    finally:
        process.kill()
        process.wait()
        port.release()


async def healthy(http: aiohttp.ClientSession) -> dict[str, str]:
    """What /health says, once it is 200."""
    for _ in range(200):
        try:
            async with http.get("/health") as response:
                if response.status == 200:
                    return await response.json()
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)
    raise AssertionError("never healthy")


BODIES = {
    "/completion": {"prompt": "Hello", "n_predict": 1},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 1},
    "/v1/chat/completions": HELLO | {"max_tokens": 1},
    "/v1/messages": {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]},
}


@pytest.mark.parametrize("name", ["llada", "dream"])
async def test_without_a_guard_a_diffusion_model_is_healthy_and_every_answer_an_error(planned, name, diffusion):
    said = "the current context does not support logits computation. skipping"
    with unguarded(planned(diffusion[name], "m", SMALL), diffusion[name]) as (_, url, log):
        async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer k"}) as http:
            assert await healthy(http) == {"status": "ok"}
            async with http.get("/v1/models") as response:
                assert (await response.json())["models"][0]["capabilities"] == ["completion"]
            for path, body in BODIES.items():
                async with http.post(path, json=body) as response:
                    assert response.status == 500, path
                    assert (await response.json())["error"]["message"] == said
            assert await healthy(http) == {"status": "ok"}
        async with asyncio.timeout(10):  # it writes its log when it finds the time
            while f"error: {said}" not in log.read_text():
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_without_a_guard_a_diffusion_model_aborts_if_there_is_one_slot(planned, name, diffusion):
    with unguarded(planned(diffusion[name], "m", ONE_SLOT), diffusion[name]) as (process, _, log):
        assert process.wait(30) == -signal.SIGABRT
    assert "GGML_ASSERT(n_outputs_max <= cparams.n_outputs_max) failed" in log.read_text()


@pytest.mark.parametrize("name", ["llada as llama", "dream as qwen2"])
async def test_without_a_guard_a_relabelled_diffusion_model_answers_garbage(planned, name, diffusion):
    """With no sign of it: only who made the file knows. A canary of one token cannot tell, either."""
    with unguarded(planned(diffusion[name], "m", SMALL), diffusion[name]) as (_, url, log):
        async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer k"}) as http:
            assert await healthy(http) == {"status": "ok"}
            body = {"prompt": "Hello", "max_tokens": 16, "temperature": 0}
            async with http.post("/v1/completions", json=body) as response:
                assert response.status == 200
                answer = await response.json()
    assert answer["usage"]["completion_tokens"] == 16
    assert "�" in answer["choices"][0]["text"]  # bytes that make no text
    assert " E " not in log.read_text()


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: None)
    with pytest.raises(NotInstalledError, match=r"unmask\[llamacpp\]"):
        xllamacpp_plan(tmp_path / "m.gguf", "m")


@pytest.mark.parametrize("field", ["context", "slots", "threads", "gpu_layers", "prompt_cache_mib", "start_seconds"])
def test_options_out_of_range(field):
    with pytest.raises(InvalidValueError) as caught:
        LlamaCppOptions(**{field: -1})
    assert caught.value.param == field


def test_what_is_not_said_is_left_to_llama_cpp(tmp_path):
    """An old version may not know an option that nobody asked for."""
    plan = llama_server_plan(Path("llama-server"), tmp_path / "m.gguf", "m", LlamaCppOptions(threads=3, context=100))
    path = str(tmp_path / "m.gguf")
    assert plan.command(7) == [
        "llama-server", "--model", path, "--alias", "m", "--ctx-size", "200", "--parallel", "2", "--threads", "3",
        "--threads-batch", "3", "--host", "127.0.0.1", "--port", "7",
    ]  # fmt: skip
    more = llama_server_plan(Path("llama-server"), tmp_path / "m.gguf", "m", LlamaCppOptions(gpu_layers=5))
    assert "--gpu-layers 5" in " ".join(more.command(7))
    assert f"--threads {len(os.sched_getaffinity(0))}" in " ".join(more.command(7))
