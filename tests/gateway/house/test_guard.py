"""No engine gets a model of the other paradigm: not by itself, not when it is told to, and not a process is started."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess

import pytest

from tests import gguf_files
from tests.gateway.house.asking import DIALECTS, ask
from tests.gateway.house.family import family, logged, of_llama_cpp
from tests.gateway.house.files import write_config
from tests.serving.processes import UNMASK, environment, serve

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed; install unmask[llamacpp]")

FORCED = {"llada": "llama.cpp", "dream": "llama.cpp", "smol": "unmask", "tiny": "llama.cpp"}
OWN_LANE = {"llada": "unmask", "dream": "unmask", "smol": "llama.cpp", "tiny": "unmask"}


@pytest.fixture(scope="module")
def relabelled(golden, tmp_path_factory):
    """Weights of LLaDA that call themselves ``llama``, and show no trace of what they are."""
    return gguf_files.relabelled(
        golden / "gguf" / "llada-f32.gguf", tmp_path_factory.mktemp("relabelled") / "llama.gguf", "llama"
    )


@pytest.fixture(scope="module")
def server(files, relabelled, tmp_path_factory):
    models = {name: {"path": path} for name, path in files.items()}
    models["smol"] |= {"context": 512}
    models |= {f"{name}-forced": {"path": path, "lane": FORCED[name]} for name, path in files.items()}
    models["called-llama"] = {"path": str(relabelled)}
    with serve("--config", str(write_config(tmp_path_factory.mktemp("guard") / "models.yaml", models))) as server:
        yield server


def inspected(path: str, *options: str) -> tuple[dict, str]:
    done = subprocess.run(
        [UNMASK, "inspect", path, "--json", *options], capture_output=True, text=True, env=environment()
    )
    return json.loads(done.stdout), done.stderr


async def test_each_goes_to_its_own_engine(server, session, files):
    async with session.get(f"{server.url}/v1/models") as response:
        listed = {card["id"]: card["unmask"]["lane"] for card in (await response.json())["data"]}
    assert listed == {**OWN_LANE, "called-llama": "llama.cpp"}
    for name, path in files.items():
        assert inspected(path)[0]["lane"] == OWN_LANE[name]


async def test_two_diffusion_files_are_served_without_llama_cpp(server, session):
    for name in ("llada", "dream"):
        told = await ask(session, server.url, "chat", name, "What is 7 + 8?", unmask={"rule": "low_confidence"})
        assert (told.status, told.complete, bool(told.text)) == (200, True, True)
    assert of_llama_cpp(server) == []


async def test_a_forced_lane_is_refused_at_once(server, session):
    before = {process.pid for process in family(server)}
    for name in FORCED:
        for dialect in DIALECTS:
            for stream in (False, True):
                told = await ask(session, server.url, dialect, f"{name}-forced", "Hi", stream=stream)
                assert (told.status, told.code) == (400, "paradigm_mismatch"), told
                assert FORCED[name] in told.message, told
                assert {process.pid for process in family(server)} == before
    refused = await logged(server, "status=400", "method=POST", count=len(FORCED) * len(DIALECTS) * 2)
    times = [float(re.search(r" ms=(\S+)", line)[1]) for line in refused]
    print(f"{len(times)} refusals: median {statistics.median(times)} ms, longest {max(times)} ms")
    assert len(times) == len(FORCED) * len(DIALECTS) * 2
    assert statistics.median(times) < 50


async def test_inspect_says_what_the_server_says(server, session, files):
    for name, lane in FORCED.items():
        card, said = inspected(files[name], "--lane", lane)
        assert (card["served"], card["lane"], card["refusal"]["code"]) == (False, None, "paradigm_mismatch")
        told = await ask(session, server.url, "chat", f"{name}-forced", "Hi")
        assert told.message == f"{card['refusal']['message']} {card['refusal']['remedy']}"
        assert "[paradigm_mismatch]" in said


async def test_a_file_that_says_what_it_is_not(server, session):
    """Its header cannot tell: llama.cpp loads it, and answers with garbage. Its canary tells, wherever models are."""
    told = await ask(session, server.url, "completions", "called-llama", "Hi", 4)
    assert (told.status, told.complete) == (200, True)
    async with asyncio.timeout(60):
        while (verdict := (await card(session, server.url))["unmask"].get("canary")) is None:
            await asyncio.sleep(0.05)
    assert verdict["status"] == "suspect"
    assert verdict["reasons"][0] == "same in 4 of 4 answers"
    async with session.post(f"{server.url}/api/show", json={"model": "called-llama"}) as response:
        assert (await response.json())["model_info"]["unmask.canary"] == verdict
    assert any("canary" in line and "called-llama" in line for line in server.log)


async def card(session, url: str) -> dict:
    async with session.get(f"{url}/v1/models/called-llama") as response:
        return await response.json()
