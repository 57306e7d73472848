"""`unmask run` tells what is wrong with its options without an engine, in the words of the engine."""

from __future__ import annotations

import pytest

from tests.engines import make_loop
from tests.foreign_models import gguf_file
from tests.golden.checkpoints import served_copy
from unmask.checkpoints.directory import open_checkpoint
from unmask.cli.precheck import check_request
from unmask.cli.run import run
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.errors import CheckpointNotFoundError, InvalidValueError, UnmaskError
from unmask.models.info import model_info
from unmask.models.registry import describe
from unmask.params import GenerationParams
from unmask.resolve import resolve

WRONG = [
    {"rule": "magic"},
    {"rule": "joint_threshold"},
    {"threshold": 3.0},
    {"threshold": 0.5, "steps": 4, "rule": "factor"},
    {"steps": 999},
    {"block_length": 0},
    {"temperature": -1.0},
    {"max_tokens": 10**6},
]


@pytest.fixture(scope="module")
def loop():
    return make_loop("unmask-tiny")


@pytest.mark.parametrize("params", WRONG, ids=str)
def test_the_error_is_the_engines_own(loop, params):
    with pytest.raises(UnmaskError) as theirs:
        resolve(GenerationParams(**params), loop.model, 1)
    with pytest.raises(UnmaskError) as ours:
        check_request(EngineOptions(model="unmask-tiny"), GenerationParams(**params))
    assert (ours.value.code, ours.value.param, str(ours.value)) == (
        theirs.value.code, theirs.value.param, str(theirs.value),
    )  # fmt: skip


def test_what_fits_passes(golden, tmp_path):
    check_request(EngineOptions(model="unmask-tiny"), GenerationParams(rule="d2f", threshold=0.8))
    check_request(EngineOptions(model="no/such-hub-model"), GenerationParams(rule="magic"))  # not known yet
    llada = str(served_copy(golden / "llada" / "ckpt", tmp_path))
    check_request(EngineOptions(model=llada, attention="block_causal"), GenerationParams(rule="d2f"))
    with pytest.raises(UnmaskError, match="d2f"):
        check_request(EngineOptions(model=llada), GenerationParams(rule="d2f"))


def test_who_serves_what_our_own_engine_does_not_is_told(tmp_path, command):
    pytest.importorskip("xllamacpp")
    model = gguf_file("llama")(tmp_path / "llama")
    done = command("run", str(model), "hi")
    assert done.returncode == 1
    assert "hint: 'unmask serve' serves it, by llama.cpp; 'unmask run' asks Unmask's own engine only." in done.stderr
    unheard = gguf_file("unheard-of")(tmp_path / "unheard")
    assert "'unmask serve' serves it" not in command("run", str(unheard), "hi").stderr


@pytest.mark.parametrize("params", WRONG, ids=str)
def test_no_engine_is_started(monkeypatch, params):
    monkeypatch.setattr(ProcessEngine, "launch", lambda *_: pytest.fail("an engine was started"))
    with pytest.raises(UnmaskError):
        run("unmask-tiny", "hi", **params)


def test_models_and_contexts_are_checked_as_well(tmp_path):
    for model in ("/no/such/model", str(tmp_path)):
        with pytest.raises(CheckpointNotFoundError):
            check_request(EngineOptions(model=model), GenerationParams())
    for options in ({"max_context": 10**6}, {"attention": "sideways"}):
        with pytest.raises(InvalidValueError) as caught:
            check_request(EngineOptions(model="unmask-tiny", **options), GenerationParams())
        assert caught.value.param in options


def test_a_model_is_described_as_the_engine_that_has_loaded_it_does(loop):
    spec = describe(open_checkpoint("unmask-tiny"))
    ours = model_info(spec, "unmask-tiny", parameters=loop.model.parameters, precision=loop.model.precision)
    assert ours == loop.model
