"""What a request gets that says nothing."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.infos import model_info
from unmask.gateway.config.defaults import DECODING, PLAIN, filled
from unmask.params import ALL_RULE_OPTIONS, RULE_TRAITS, GenerationParams
from unmask.resolve import resolve

THRESHOLD = GenerationParams(rule="threshold", threshold=0.8, temperature=0.3, stop=("x",))


def test_what_is_said_stays():
    params = GenerationParams(temperature=0.0, max_tokens=5, stop=("y",), threshold=0.5)
    assert filled(params, THRESHOLD) == GenerationParams(
        temperature=0.0, max_tokens=5, stop=("y",), threshold=0.5, rule="threshold"
    )


def test_what_is_not_said_is_filled_in():
    assert filled(GenerationParams(seed=1), THRESHOLD) == GenerationParams(
        seed=1, rule="threshold", threshold=0.8, temperature=0.3, stop=("x",)
    )


@pytest.mark.parametrize(
    ("params", "defaults", "rule", "threshold"),
    [
        (GenerationParams(rule="factor"), THRESHOLD, "factor", None),
        (GenerationParams(rule="dynamic"), THRESHOLD, "dynamic", 0.8),
        (GenerationParams(factor=2.0), THRESHOLD, None, None),
        (GenerationParams(factor=2.0), GenerationParams(threshold=0.8), None, None),
        (GenerationParams(), GenerationParams(threshold=0.8), None, 0.8),
        (GenerationParams(rule="nonsense"), THRESHOLD, "nonsense", None),
    ],
)
def test_a_rule_takes_only_the_options_that_it_reads(params, defaults, rule, threshold):
    found = filled(params, defaults)
    assert (found.rule, found.threshold, found.temperature) == (rule, threshold, defaults.temperature)


VALUES = {
    "threshold": 0.5, "factor": 1.5, "steps": 4, "alg_temp": 0.1, "score": "margin", "add_threshold": 0.2,
    "activate_threshold": 0.9, "max_live_blocks": 2, "edit_threshold": 0.5, "max_edit_steps": 3, "min_commits": 1,
    "anchor_threshold": 0.9, "radius": 2, "low_threshold": 0.5, "credit_weight": 0.5, "credit_power": 0.5,
    "credit_decay": 0.5, "kl_threshold": 0.1, "gap_threshold": 0.5, "verify_threshold": 0.5, "entropy_bound": 0.1,
    "t_min": 0.1, "t_max": 0.5, "stability_threshold": 1, "confidence_threshold": 0.1,
}  # fmt: skip


def test_there_is_a_value_for_each_option_of_rules():
    assert set(VALUES) == set(ALL_RULE_OPTIONS)


@st.composite
def decodings(draw):
    """A rule, or none, and of its options some."""
    rule = draw(st.sampled_from(["threshold", "factor", "low_confidence", "d2f", "eb", "local_leap", "klass"]))
    options = draw(st.sets(st.sampled_from(RULE_TRAITS[rule].options)))
    return GenerationParams(
        rule=draw(st.sampled_from([rule, None])) if options else rule, **{name: VALUES[name] for name in options}
    )


@given(decodings(), decodings())
def test_a_request_that_is_served_without_defaults_is_served_with_them(request, defaults):
    rules = ("threshold", "factor", "low_confidence", "d2f", "eb", "local_leap", "klass")
    info = model_info(rules=rules, block_length=8, context_length=64)
    alone, with_defaults = resolve(request, info, 1), resolve(filled(request, defaults), info, 1)
    if request.rule is not None:
        assert with_defaults.rule == alone.rule
    for name in VALUES:
        if getattr(request, name) is not None:
            assert getattr(with_defaults, name) == getattr(request, name)


def test_every_parameter_is_one_that_may_have_a_default_or_is_for_requests_alone():
    names = {field.name for field in fields(GenerationParams)}
    assert {*PLAIN, *DECODING} <= names
    assert names - {*PLAIN, *DECODING} == {
        "frames", "ignore_eos", "logprobs", "logit_bias", "regex", "choices", "json_schema", "template", "holes",
    }  # fmt: skip
