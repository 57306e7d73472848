"""Which engine each entry goes to, or why it goes to none."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tests.foreign_models import FOREIGN, gguf_file, tiny_copy
from tests.gateway.config.files import config
from tests.gateway.known import LLAMA_CPP, OWN, USUAL, missing
from unmask.gateway.config import appraisal
from unmask.gateway.config.appraisal import appraise
from unmask.gateway.config.config import Config
from unmask.gateway.config.effect import _TAKEN, without_effect
from unmask.gateway.config.entries import entries
from unmask.gateway.config.side_by_side import side_by_side
from unmask.gateway.config.wanted import LocalSource, WantedModel


@pytest.fixture
def folder(tmp_path):
    """A model for each of two engines, and some that are none."""
    tiny_copy(tmp_path / "tiny")
    gguf_file("llama", llama__context_length=4096)(tmp_path / "llama")
    for kind in ("pickle-zip", "gguf-adapter", "awq"):
        FOREIGN[kind][2](tmp_path / kind)
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\3")
    return tmp_path


def test_every_model_of_a_folder_is_judged_and_none_is_fatal(folder):
    found = {one.entry.name: one for one in appraise(entries(Config(models_dir=folder)), USUAL)}
    lanes = {name: one.lane.name for name, one in found.items() if one.lane is not None}
    refused = {name: one.refusal.code for name, one in found.items() if one.refusal is not None}
    assert lanes == {"tiny": "unmask", "llama/model": "llama.cpp"}
    assert refused["awq"] == "no_lane"
    assert refused["cut"] == "invalid_checkpoint"
    assert refused["gguf-adapter/model"] == "adapter_not_model"
    assert found["tiny"].card.family == "llada"


def test_a_lane_that_is_asked_for_or_missing(folder):
    entry = WantedModel(name="a", source=LocalSource(str(folder / "llama")))
    forced = WantedModel(name="b", source=LocalSource(str(folder / "llama")), lane="unmask")
    codes = [one.refusal.code for one in appraise([entry, forced], (OWN, missing(LLAMA_CPP)))]
    assert codes == ["lane_missing", "paradigm_mismatch"]


@pytest.mark.parametrize(
    ("model", "said", "named"),
    [
        ("tiny", "slots: 2", "slots"),
        ("tiny", "gpu_layers: 2", "gpu_layers"),
        ("llama", "max_running: 2", "max_running"),
        ("llama", "lora: {a: b}", "lora"),
        ("llama", "defaults: {unmask: {steps: 2}}", "defaults.unmask.steps"),
        ("tiny", "defaults: {repetition_penalty: 1.1}", "defaults.repetition_penalty"),
    ],
)
def test_what_says_nothing_to_the_engine_is_refused(folder, model, said, named):
    text = f"models: {{m: {{path: {folder / model}, {said}}}}}"
    (found,) = appraise(entries(config(folder, text)), USUAL)
    assert found.refusal is not None
    assert found.refusal.code == "invalid_config"
    assert found.refusal.message.startswith(f"'{named}' of the model 'm' has no effect")
    assert f"{folder / 'unmask.yaml'}:1" in found.refusal.message


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("tiny", "context: 64, threads: 1, max_rows: 64, defaults: {max_tokens: 4, unmask: {steps: 2}}"),
        ("llama", "context: 64, threads: 1, slots: 1, gpu_layers: 0, defaults: {temperature: 0}"),
        ("llama", "defaults: {min_p: 0.1, presence_penalty: 1, repetition_penalty: 1.1, repeat_last_n: 9}"),
    ],
)
def test_what_says_something_is_not(folder, model, said):
    (found,) = appraise(entries(config(folder, f"models: {{m: {{path: {folder / model}, {said}}}}}")), USUAL)
    assert found.refusal is None


@pytest.mark.parametrize("kind", sorted(_TAKEN))
def test_an_entry_that_says_nothing_suits_every_lane(kind):
    assert without_effect(WantedModel(name="a", source=LocalSource("a")), kind) is None


def test_a_model_elsewhere_needs_the_variable_of_its_key(folder):
    text = "models: {far: {url: http://x/v1, model: m, api_key_env: FAR, diffusing: true, context: 99}}"
    far = entries(config(folder, text))
    (without,) = appraise(far, USUAL, environment={})
    assert without.refusal is not None
    assert "FAR" in without.refusal.message
    (found,) = appraise(far, USUAL, environment={"FAR": "sk"})
    assert found.lane is not None
    assert (found.lane.kind, found.card.paradigm, found.card.context_length) == ("remote", "diffusion", 99)


def test_a_model_whose_disk_does_not_answer(folder, monkeypatch):
    """A pipe that nobody writes into is refused by itself; so a call that blocks stands for a dead network disk."""
    release, inspect = threading.Event(), appraisal.inspect_model
    monkeypatch.setattr(appraisal, "SECONDS", 0.3)
    monkeypatch.setattr(
        appraisal, "inspect_model", lambda model: (release.wait(20) if model == "dead" else None) or inspect(model)
    )
    found = [
        WantedModel(name="dead", source=LocalSource("dead")),
        WantedModel(name="t", source=LocalSource("unmask-tiny")),
    ]
    begun = time.monotonic()
    dead, living = appraise(found, USUAL)
    release.set()
    assert time.monotonic() - begun < 10
    assert dead.refusal is not None
    assert "not read within" in dead.refusal.message
    assert living.lane is not None


def test_a_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    (found,) = appraise(entries(Config(models_dir=tmp_path)), USUAL)
    assert found.refusal is not None


def test_work_side_by_side_keeps_its_order_and_its_limits():
    running, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return number * number

    assert side_by_side(work, range(40), late=lambda _: -1, at_once=3) == [n * n for n in range(40)]
    assert 1 < most <= 3


def test_many_that_are_late_do_not_hold_up_the_rest():
    release = threading.Event()
    work = lambda number: number if number >= 4 else release.wait(30)  # noqa: E731
    begun = time.monotonic()
    found = side_by_side(work, range(8), late=lambda _: None, seconds=0.3, at_once=2)
    release.set()
    assert found == [None] * 4 + [4, 5, 6, 7]
    assert time.monotonic() - begun < 10


def test_an_error_of_work_is_raised():
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda number: 1 // number, [1, 0], late=lambda _: 0)
