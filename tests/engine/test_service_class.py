"""Thresholds that give way under load: bounded, decided at admission, told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import Result, absorb, drain, generate, make_loop
from tests.infos import model_info
from unmask.engine import wire
from unmask.engine.options import EngineOptions
from unmask.engine.relax import relaxed
from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.service_class import ServiceClass
from unmask.terms import Terms, resolve_terms

PROMPT = [1, *range(30, 60), 3]
ECONOMY = ServiceClass(floor=0.5, relaxes_at=0.5)
REQUEST = {"max_tokens": 48, "ignore_eos": True, "rule": "threshold", "threshold": 0.9}


@given(asked=st.floats(0, 1), floor=st.floats(0, 1), at=st.floats(0, 0.99), load=st.floats(0, 1), more=st.floats(0, 1))
def test_a_threshold_falls_with_the_load_and_stays_within_its_bounds(asked, floor, at, load, more):
    service_class = ServiceClass(floor, at)
    threshold = service_class.threshold(asked, load)
    assert min(asked, floor) - 1e-12 <= threshold <= asked
    assert service_class.threshold(asked, max(load, more)) <= threshold + 1e-12
    assert load > at or threshold == asked
    assert service_class.threshold(asked, 1.0) == pytest.approx(min(asked, floor), abs=1e-9)


def test_nothing_but_the_threshold_changes():
    params = resolve(GenerationParams(**REQUEST), model_info(), 4)
    assert relaxed(params, ECONOMY, 0.5) is params
    changed = relaxed(params, ECONOMY, 0.75)
    assert changed.threshold == pytest.approx(0.7)
    assert relaxed(params, ECONOMY, 1.0).threshold == pytest.approx(0.5)
    assert {name for name in params.__struct_fields__ if getattr(params, name) != getattr(changed, name)} == {
        "threshold"
    }


def submit(loop, name, service_class="", **params):
    decoding = resolve(GenerationParams(**REQUEST | params), loop.model, len(PROMPT))
    loop.send(wire.Submit(name, PROMPT, decoding, Terms(service_class=service_class)))


def test_it_is_decided_once_at_admission_and_told():
    """Alone a request gets what it asked for. Beside others, what the load allowed when it was admitted: the same
    tokens as one that asks for that threshold itself.
    """
    loop = make_loop("unmask-tiny", max_running=4, service_classes={"economy": ECONOMY})
    assert loop.model.service_classes == {"economy": ECONOMY}
    submit(loop, "alone", "economy")
    alone = drain(loop)["alone"]
    assert alone.stats.relaxed == {}
    assert alone.ids == generate(loop, PROMPT, **REQUEST).ids
    for number in range(3):
        submit(loop, f"plain{number}")
    results: dict[str, Result] = {}
    absorb(loop.step(), results)
    submit(loop, "relaxed", "economy")
    drain(loop, results)  # the load falls while it runs
    told = results["relaxed"].stats.relaxed["threshold"]
    assert told == pytest.approx(0.9 - 0.4 * 0.5)  # three of four were running: half way from 0.5 to 1
    assert results["relaxed"].ids == generate(loop, PROMPT, **REQUEST | {"threshold": told}).ids
    assert results["plain0"].ids == alone.ids
    assert results["plain0"].stats.relaxed == {}


def test_a_class_must_exist_and_be_able_to_do_something():
    info = model_info(service_classes={"economy": ECONOMY})

    def check(**said):
        decoding = resolve(GenerationParams(**said), info, 4)
        return resolve_terms(GenerationParams(**said), info, decoding)

    assert check(service_class="economy").service_class == "economy"
    assert check(service_class="economy").applied()["service_class"] == "economy"
    for said in (
        {"service_class": "luxury"},
        {"service_class": "economy", "rule": "low_confidence"},
        {"service_class": "economy", "rule": "threshold", "threshold": 0.5},
    ):
        with pytest.raises(InvalidValueError) as caught:
            check(**said)
        assert caught.value.param == "service_class"


@pytest.mark.parametrize(("name", "floor", "at"), [("a b", 0.5, 0.5), ("a", 1.5, 0.5), ("a", 0.5, 1.0), ("", 0.5, 0.5)])
def test_bad_classes_are_refused_by_name(name, floor, at):
    with pytest.raises(InvalidValueError) as caught:
        EngineOptions(model="unmask-tiny", service_classes={name: ServiceClass(floor, at)})
    assert caught.value.param == "service_classes"
