"""Flags of a model's own reach the program that a user made known, and no other one."""

from __future__ import annotations

import json

import pytest

from tests.foreign_models import gguf_file
from tests.gateway.builds import RELEASED, build, calls, denying
from tests.gateway.config.files import config
from unmask.engine.options import EngineOptions
from unmask.errors import InvalidValueError, ModelLoadFailedError, NoLaneError
from unmask.gateway.engine import Engine
from unmask.gateway.engine_probe import probe
from unmask.gateway.engine_registry import RegistryFile
from unmask.serving.opening import HousePlan
from unmask.serving.settings import ServerSettings

FLAGS = ["--flash-attn", "on"]
MOST = 128


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Two builds of llama.cpp that know an architecture of their own; the first denies it as it starts."""
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path / "home"))
    made = {
        "old": build(tmp_path / "old" / "llama-server", *RELEASED, "newer", faults=denying("newer")),
        "new": build(tmp_path / "new" / "llama-server", *RELEASED, "newer"),
    }
    for name, program in made.items():
        kind, probed = probe("llama.cpp", program)
        with RegistryFile().changing() as changes:
            changes.registry = changes.registry.with_engine(Engine(name, kind, str(program), "a path", probed))
    return made


def house(tmp_path, **said):
    model = gguf_file("newer", newer__context_length=MOST)(tmp_path / "model")
    text = json.dumps({"models": {"m": {"path": str(model), "canary": False, "context": 64, "slots": 1, **said}}})
    read = config(tmp_path, text)
    return HousePlan(models=[], engine=EngineOptions(model=""), settings=ServerSettings(), config=read).open()


async def test_they_stand_between_unmasks_own(tmp_path, programs):
    opened = house(tmp_path, lane="new", engine_args=FLAGS)
    try:
        async with opened.hold("m"):
            words = (programs["new"].parent / "llama-server.calls").read_text().split()
    finally:
        await opened.close()
    assert words[words.index("--flash-attn") : words.index("--host") + 2] == [*FLAGS, "--host", "127.0.0.1"]
    assert words[words.index("--ctx-size") + 1] == "64"


async def test_another_build_that_is_asked_for_help_gets_them_too(tmp_path, programs):
    opened = house(tmp_path, engine_args=FLAGS)
    try:
        async with opened.hold("m"):
            assert (calls(programs["old"]), calls(programs["new"])) == (1, 1)
            assert "--flash-attn on" in (programs["new"].parent / "llama-server.calls").read_text()
    finally:
        await opened.close()


async def test_the_engine_of_the_package_is_not_asked_for_help(tmp_path, programs):
    """It could not be given them."""
    with RegistryFile().changing() as changes:
        changes.registry = changes.registry.without("new")
    opened = house(tmp_path, engine_args=FLAGS)
    try:
        with pytest.raises(NoLaneError):
            async with opened.hold("m"):
                pass
    finally:
        await opened.close()


async def test_one_that_the_engine_does_not_know_is_to_be_mended_in_the_configuration(tmp_path, programs):
    program = build(tmp_path / "x", *RELEASED, "newer", faults='--say "error: invalid argument: --flash-atn" --exit 1')
    kind, probed = probe("llama.cpp", program)
    with RegistryFile().changing() as changes:
        changes.registry = changes.registry.with_engine(Engine("strict", kind, str(program), "a path", probed))
    opened = house(tmp_path, lane="strict", engine_args=["--flash-atn", "on"])
    try:
        with pytest.raises(ModelLoadFailedError) as caught:
            async with opened.hold("m"):
                pass
    finally:
        await opened.close()
    assert "--flash-atn" in caught.value.message
    assert "'engine_args'" in caught.value.hint


def test_a_context_beyond_the_models_own_is_refused_before_anything_starts(tmp_path, programs):
    """llama.cpp would cut it, and yet take the memory of all of it."""
    with pytest.raises(InvalidValueError, match=f"of {MOST + 1} was asked for; the model's own limit is {MOST}"):
        house(tmp_path, context=MOST + 1)
    model = tmp_path / "model" / "model.gguf"
    engine = EngineOptions(model="", max_context=MOST + 1)
    with pytest.raises(InvalidValueError, match=f"limit is {MOST}") as caught:
        HousePlan(models=[str(model)], engine=engine, settings=ServerSettings()).open()
    assert caught.value.hint.startswith("Give 'max_context'")


@pytest.mark.parametrize("said", [{"context": MOST}, {"context": MOST + 1, "engine_args": ["--yarn-orig-ctx", "64"]}])
def test_one_that_the_model_has_or_may_be_given_by_flags_is_served(tmp_path, programs, said):
    assert next(house(tmp_path, **said).listings()).context_length == said["context"]
