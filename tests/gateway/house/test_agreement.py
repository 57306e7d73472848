"""Whatever models and engines there are: all that tell of a model, and what is started for it, agree with ``route``."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests import gguf_files
from tests.foreign_models import FOREIGN, gguf_file
from tests.gateway.house.files import chatty
from tests.gateway.known import OWN
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.cli.app import app as command
from unmask.engine.options import EngineOptions
from unmask.errors import ModelLoadFailedError, UnmaskError
from unmask.gateway import lanes as lanes_module
from unmask.gateway.config.appraisal import appraise
from unmask.gateway.config.config import Config
from unmask.gateway.config.wanted import LocalSource, WantedModel
from unmask.gateway.lane import Lane
from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.routing import Route, route
from unmask.models.card import inspect_model
from unmask.serving import child_start, native_entry, opening
from unmask.serving.app import create_app
from unmask.serving.opening import HousePlan
from unmask.serving.settings import ServerSettings

ODD = ("llama", "adapter", "awq", "gguf-adapter", "image-file", "weights-file", "pipeline", "nothing")
NAMES = ("llama.cpp", "fork", "other")
ARCHITECTURES = ("llama", "llada", "dream", "llada-moe", "qwen2", "diffusion-gemma")


@pytest.fixture(scope="module")
def pool(golden, tmp_path_factory) -> dict[str, str]:
    """Models by name: of ours, of llama.cpp, of nobody, and what is no model at all."""
    home: Path = tmp_path_factory.mktemp("pool")
    found = {"tiny": EMBEDDED_MODEL}
    for name in ("llada", "dream", "llada_moe"):
        found[name] = str(chatty(golden / name / "ckpt", home / f"{name}.gguf"))
    llada = golden / "gguf" / "llada-f32.gguf"
    found["called-llama"] = str(gguf_files.relabelled(llada, home / "llama.gguf", "llama"))
    found["decoder"] = str(gguf_file("qwen2", qwen2__context_length=4096)(home / "decoder"))
    found["suspect"] = str(gguf_file("llama", tokenizer__ggml__mask_token_id=3)(home / "suspect"))
    found["novel"] = str(gguf_file("diffusion-novel")(home / "novel"))
    found["flux"] = str(gguf_file("flux")(home / "flux"))
    return found | {name: str(FOREIGN[name][2](home / name)) for name in ODD}


OTHERS = st.builds(
    Lane,
    name=st.sampled_from(NAMES),
    kind=st.just("llama.cpp"),
    formats=st.just(frozenset({"gguf"})),
    architectures=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("diffusion", "autoregressive"), st.frozensets(st.sampled_from(ARCHITECTURES), min_size=1)
        ),
    ),
    missing=st.sampled_from(("", "", "it is not installed")),
    remedy=st.just("Install it."),
)
LANES = st.lists(OTHERS, max_size=3, unique_by=lambda lane: lane.name).map(lambda others: (OWN, *others))


def draws(pool: list[str]):
    """Some models, each with the lane that it shall go to, if any."""
    wanted = st.sampled_from((None, None, "unmask", *NAMES, "nobody"))
    return st.dictionaries(st.sampled_from(pool), wanted, min_size=1, max_size=4)


class Spawning:
    """Takes note of what is started, in place of starting it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, str]] = []
        patch.setattr(native_entry.ProcessEngine, "launch", self._ours)
        patch.setattr(child_start, "plan_for", self._plan)
        patch.setattr(child_start.Child, "start", self._child)

    async def _ours(self, options, *more, **said):
        self.seen.append(("unmask", options.model))
        raise ModelLoadFailedError("Started.")

    def _plan(self, lane, engines, card, *more, **said):
        """The engines here are drawn, and registered nowhere."""
        return ChildPlan(name=lane.name, command=lambda port: [card.path], probe=Probe(body={}))

    async def _child(self, plan, directory):
        self.seen.append((plan.name, *plan.command(0)))
        raise ModelLoadFailedError("Started.")


async def catalogues(house) -> tuple[dict, dict, dict]:
    """What the lists of each API say, by name, and what they say of one: a lane, or the code of an error."""
    transport = httpx.ASGITransport(create_app(house, ServerSettings()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        models = {card["id"]: card["unmask"]["lane"] for card in (await client.get("/v1/models")).json()["data"]}
        tags = [card["name"].removesuffix(":latest") for card in (await client.get("/api/tags")).json()["models"]]
        assert sorted(models) == sorted(tags)
        one, shown = {}, {}
        for name in [*models, *house.refused]:
            answer = (await client.get(f"/v1/models/{name}")).json()
            one[name] = (
                answer["unmask"]["lane"]
                if "unmask" in answer
                else reason(answer["error"]["code"], answer["error"]["message"])
            )
            answer = (await client.post("/api/show", json={"model": name})).json()
            shown[name] = (
                answer["model_info"]["unmask.lane"]
                if "model_info" in answer
                else reason(answer["code"], answer["error"])
            )
    return models, one, shown


def reason(code: str, message: str) -> str:
    """The code of what is at fault, which the answer for a model that is refused has in brackets."""
    found = re.search(r" \[(\w+)\]", message)
    return found[1] if code == "model_refused" and found else code


def inspected(path: str, wanted: str | None) -> str:
    """The lane that ``unmask inspect`` tells, or the code of its refusal."""
    options = [] if wanted is None else ["--lane", wanted]
    told = CliRunner().invoke(command, ["inspect", path, "--json", *options])
    card = json.loads(told.stdout)
    return card["lane"] or card["refusal"]["code"]


async def agree(pool, drawn, lanes, spawning) -> None:
    entries = [WantedModel(name=name, source=LocalSource(pool[name]), lane=wanted) for name, wanted in drawn.items()]
    routes = {name: route(inspect_model(pool[name]), lanes, wanted) for name, wanted in drawn.items()}
    means = {name: found.lane.name if isinstance(found, Route) else found.code for name, found in routes.items()}
    assert {one.entry.name: one.found for one in appraise(entries, lanes)} == routes
    assert {name: inspected(pool[name], wanted) for name, wanted in drawn.items()} == means
    served = {name: lane for name, lane in means.items() if isinstance(routes[name], Route)}
    config = Config(models=tuple(entries))
    plan = HousePlan(models=(), engine=EngineOptions(model=""), settings=ServerSettings(), config=config)
    if not served:
        with pytest.raises(UnmaskError, match="None of the models can be served"):
            plan.open()
        return
    house = plan.open()
    models, one, shown = await catalogues(house)
    assert (models, one, shown) == (served, means, means)
    for name, lane in means.items():
        spawning.seen.clear()
        with pytest.raises(UnmaskError) as caught:
            async with house.hold(name):
                pass
        if name in served:
            assert spawning.seen == [(lane, pool[name])]
        else:
            assert (spawning.seen, reason(caught.value.code, caught.value.message)) == ([], lane)
    await house.close()


def test_all_agree(pool, monkeypatch, tmp_path):
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path))
    spawning = Spawning(monkeypatch)

    @settings(max_examples=60)
    @given(draws(sorted(pool)), LANES)
    def check(drawn, lanes):
        monkeypatch.setattr(opening, "known_lanes", lambda: lanes)
        monkeypatch.setattr(child_start, "known_lanes", lambda: lanes)
        monkeypatch.setattr(lanes_module, "known_lanes", lambda: lanes)
        asyncio.run(agree(pool, drawn, lanes, spawning))

    check()
