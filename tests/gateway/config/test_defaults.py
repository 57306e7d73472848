"""What a request gets that says nothing."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.infos import model_info
from unmask.errors import UnmaskError
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
        (GenerationParams(rule="dynamic"), THRESHOLD, "dynamic", None),
        (GenerationParams(factor=2.0), THRESHOLD, None, None),
        (GenerationParams(factor=2.0), GenerationParams(threshold=0.8), None, None),
        (GenerationParams(), GenerationParams(threshold=0.8), None, 0.8),
        (GenerationParams(rule="threshold"), THRESHOLD, "threshold", 0.8),
        (GenerationParams(lookahead=2), THRESHOLD, "threshold", 0.8),
        (GenerationParams(rule="nonsense"), THRESHOLD, "nonsense", None),
    ],
)
def test_a_rule_and_its_options_belong_together(params, defaults, rule, threshold):
    found = filled(params, defaults)
    assert (found.rule, found.threshold, found.temperature) == (rule, threshold, defaults.temperature)


@pytest.mark.parametrize("constraint", [{"regex": "a"}, {"choices": ("a",)}, {"json_schema": {}}, {"template": "a"}])
def test_what_says_where_an_answer_ends_goes_without_other_ends(constraint):
    defaults = GenerationParams(stop=("x",), end_tokens="never", min_tokens=9, temperature=0.5)
    assert filled(GenerationParams(**constraint), defaults) == GenerationParams(**constraint, temperature=0.5)


@pytest.mark.parametrize(
    ("request_", "rule"),
    [
        (GenerationParams(cache="delayed"), "saber"),
        (GenerationParams(cfg_scale=1.0), "wino"),
        (GenerationParams(lookahead=2), "klass"),
        (GenerationParams(end_tokens="last"), "sequential"),
        (GenerationParams(service_class="relaxed"), "factor"),
    ],
)
def test_a_rule_that_the_request_does_not_go_with_is_left_out(request_, rule):
    assert filled(request_, GenerationParams(rule=rule, top_k=3)) == replace(request_, top_k=3)


VALUES = {
    "threshold": 0.5, "factor": 1.5, "steps": 4, "alg_temp": 0.1, "score": "margin", "add_threshold": 0.2,
    "activate_threshold": 0.9, "max_live_blocks": 2, "edit_threshold": 0.5, "max_edit_steps": 3, "min_commits": 1,
    "anchor_threshold": 0.9, "radius": 2, "low_threshold": 0.5, "credit_weight": 0.5, "credit_power": 0.5,
    "credit_decay": 0.5, "kl_threshold": 0.1, "gap_threshold": 0.5, "verify_threshold": 0.5, "entropy_bound": 0.1,
    "t_min": 0.1, "t_max": 0.5, "stability_threshold": 1, "confidence_threshold": 0.1,
}  # fmt: skip


def test_there_is_a_value_for_each_option_of_rules():
    assert set(VALUES) == set(ALL_RULE_OPTIONS)


OTHERS = {
    "max_tokens": [1, 8, 32], "min_tokens": [0, 4, 32], "temperature": [0.0, 1.0], "top_k": [5], "stop": [("x",)],
    "block_length": [4, 8, 16], "sub_block_length": [2, 4], "steps": [1, 4, 16], "min_commits": [1, 8],
    "radius": [8, 16], "t_min": [0.1, 0.7], "t_max": [0.2, 0.9], "alg_temp": [0.0, 0.5], "lookahead": [0, 2],
    "cache": ["exact", "none", "delayed"], "refresh_interval": [4], "end_tokens": ["free", "last", "never"],
    "cfg_scale": [0.0, 1.0], "early_exit": [True],
}  # fmt: skip
INFO = {
    "rules": tuple(RULE_TRAITS),
    "caches": ("exact", "none", "delayed"),
    "defaults": {},
    "block_length": 8,
    "context_length": 64,
}


@st.composite
def params(draw):
    """What a request may say: a rule, or none, and of its options some, with others beside."""
    rule = draw(st.sampled_from(sorted(RULE_TRAITS)))
    names = draw(st.sets(st.sampled_from(RULE_TRAITS[rule].options), max_size=2))
    names |= draw(st.sets(st.sampled_from(sorted({*OTHERS} - {*VALUES})), max_size=4))
    given = {name: draw(st.sampled_from(OTHERS[name])) if name in OTHERS else VALUES[name] for name in names}
    return GenerationParams(rule=draw(st.sampled_from([rule, None])), **given)


def served(asked, info):
    """What is in force; None for a request that is refused."""
    try:
        return resolve(asked, info, 1)
    except UnmaskError:
        return None


@pytest.mark.parametrize("denoiser", ["full", "sub_block"])
@given(request=params(), defaults=params())
@settings(max_examples=60)
def test_a_request_that_is_served_without_defaults_is_served_with_them(denoiser, request, defaults):
    info = model_info(denoiser, **INFO)
    assume(served(defaults, info) is not None)
    alone = served(request, info)
    assume(alone is not None)
    together = resolve(filled(request, defaults), info, 1)
    if request.rule is not None:
        assert together.rule == alone.rule
    for field in fields(GenerationParams):
        if getattr(request, field.name) not in (None, (), False) and hasattr(together, field.name):
            assert getattr(together, field.name) == getattr(alone, field.name), field.name


def test_every_parameter_is_one_that_may_have_a_default_or_is_for_requests_alone():
    names = {field.name for field in fields(GenerationParams)}
    assert {*PLAIN, *DECODING} <= names
    assert names - {*PLAIN, *DECODING} == {
        "frames", "ignore_eos", "logprobs", "logit_bias", "regex", "choices", "json_schema", "template", "holes",
    }  # fmt: skip
