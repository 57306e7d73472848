"""Models that can never be loaded are refused as the server starts, and told of with the reason everywhere."""

from __future__ import annotations

import json
import subprocess

import aiohttp
import pytest

from tests.gateway.house.files import write_config
from tests.serving.processes import UNMASK, environment, serve
from unmask.gateway.config.config import Config
from unmask.gateway.config.need import memory_for_models
from unmask.gateway.model_state import ModelRecord
from unmask.gateway.room import Room

LARGE, SMALL = {"path": "unmask-tiny"}, {"path": "unmask-tiny", "kv_tokens": 256, "context": 64}


@pytest.fixture
def file(tmp_path):
    """A model, one that alone is larger than what all may take together, and one that shall do what it cannot."""
    models = {"small": SMALL, "large": LARGE | {"aliases": ["huge"]}, "long": SMALL | {"context": 10**6}}
    return str(write_config(tmp_path / "models.yaml", models, memory_budget="280MiB"))


async def test_one_of_the_configuration_is_listed_as_refused(file, tmp_path):
    with serve("--config", file) as server:
        async with aiohttp.ClientSession(server.url) as http:
            async with http.get("/v1/models") as response:
                listed = await response.json()
            async with http.get("/unmask/models") as response:
                operated = {one["name"]: one for one in (await response.json())["models"]}
            body = {"model": "huge", "messages": [{"role": "user", "content": "Hi"}]}
            async with http.post("/v1/chat/completions", json=body) as response:
                assert response.status == 507
                error = (await response.json())["error"]
            async with http.post("/v1/chat/completions", json=body | {"model": "small", "max_tokens": 4}) as response:
                assert response.status == 200
        assert any("warning: 'large' is not served: Model 'large' needs" in line for line in server.log)
        (tmp_path / "other.yaml").write_text("models: {large: {path: unmask-tiny}}")
        there = [UNMASK, "list", "--config", str(tmp_path / "other.yaml"), "--url", server.url]
        told = subprocess.run(there, capture_output=True, text=True, env=environment()).stdout
        assert "large: Model 'large' needs" in told, "as the server has it"
        listing = subprocess.run([UNMASK, "ps", "--url", server.url], capture_output=True, text=True, env=environment())
    assert [one["id"] for one in listed["data"]] == ["small"]
    assert listed["unmask"]["refused"]["large"]["code"] == error["code"] == "insufficient_memory"
    assert "all models together may take 0.273 GiB" in listed["unmask"]["refused"]["huge"]["message"]
    assert operated["large"]["state"] == operated["long"]["state"] == "refused"
    assert "A context of 1000000 was asked for" in listed["unmask"]["refused"]["long"]["message"]
    assert operated["large"]["why_not"]["message"] == listed["unmask"]["refused"]["large"]["message"]
    assert "large: Model 'large' needs" in listing.stdout


def test_one_of_the_command_line_ends_the_server(file):
    command = [UNMASK, "serve", "--port", "0", "small", "large", "--config", file]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 1
    assert "Model 'large' needs" in done.stderr
    assert "[insufficient_memory]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_tells_it_without_starting_anything(file):
    command = [UNMASK, "list", "--config", file]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stderr) == (0, "")
    assert "large: Model 'large' needs" in done.stdout
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, env=environment())
    rows = {row["name"]: row for row in json.loads(done.stdout)["models"]}
    assert (rows["small"]["state"], rows["large"]["state"]) == ("absent", "refused")
    assert rows["large"]["refusal"]["code"] == "insufficient_memory"
    assert rows["long"]["refusal"]["code"] == "invalid_value"


def test_beside_pinned_ones_there_is_less_room():
    def record(name: str, size: int, pinned: bool = False) -> ModelRecord:
        return ModelRecord(name=name, size_bytes=size, idle_seconds=None, pinned=pinned)

    models = [
        record("a", 5),
        record("b", 4),
        record("c", 6, True),
        record("d", 5, True),
        record("e", 11),
        record("f", 0),
    ]
    found = Room(10, None).never_fitting(models)
    assert set(found) == {"a", "d", "e"}  # c stays for ever, d cannot beside it, e by no means
    assert "kept for 'c'" in found["a"].message
    assert set(Room(None, 1).never_fitting(models)) == {"a", "b", "d", "e", "f"}
    assert Room(None, None).never_fitting(models) == {}


def test_what_models_may_take_together():
    assert memory_for_models(Config(), 1000, alone=True) is None
    assert memory_for_models(Config(), 1000, alone=False) == 900
    assert memory_for_models(Config(), None, alone=False) is None
