"""max_tokens, end tokens, cancellation, and what the engine refuses."""

from __future__ import annotations

import json

import pytest

from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from tests.infos import model_info
from unmask.engine import wire
from unmask.engine.options import EngineOptions
from unmask.errors import ContextLengthError, InvalidValueError, UnsupportedValueError
from unmask.params import GenerationParams
from unmask.resolve import resolve

PROMPT = [1, *range(30, 60), 3]
RULES = [{"rule": "low_confidence"}, {"rule": "threshold"}, {"rule": "factor"}, {"rule": "d2f"}]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["rule"])
@pytest.mark.parametrize("max_tokens", [1, 15, 16, 17, 3 * 16 + 5])
def test_max_tokens_is_respected_to_the_token(loop, max_tokens, rule):
    result = generate(loop, PROMPT, max_tokens=max_tokens, block_length=16, ignore_eos=True, **rule)
    assert len(result.ids) == max_tokens
    assert result.finish == "length"
    assert not result.ended_by_token


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["rule"])
def test_a_shorter_budget_gives_a_prefix(loop, rule):
    """Blocks are always whole, so under block-causal attention a budget cuts the text and changes nothing in it."""
    whole = generate(loop, PROMPT, max_tokens=64, block_length=16, ignore_eos=True, **rule).ids
    for max_tokens in (1, 15, 16, 17, 40):
        assert (
            generate(loop, PROMPT, max_tokens=max_tokens, block_length=16, ignore_eos=True, **rule).ids
            == (whole[:max_tokens])
        )


def test_no_forward_beyond_the_block_of_the_end_token(trial):
    loop = make_loop(trial)
    question = [1, 2, 309, 279, 292, 288, 289, 37, 3]
    for rule in RULES:
        short, long = (generate(loop, question, max_tokens=n, block_length=16, **rule) for n in (16, 400))
        assert short.ids == long.ids
        assert long.finish == "stop"
        assert long.ended_by_token
        if rule["rule"] != "d2f":
            assert long.stats.forwards == short.stats.forwards
            assert long.stats.blocks == 1


def test_early_exit_only_saves_forwards(trial):
    """A request may end before the tail of its end token's block is decided; what it says is the same."""
    loop = make_loop(trial)
    prompts = [entry["prompt_ids"] for entry in json.loads((trial / "expected.json").read_text())[36:42]]
    saved = 0
    for prompt in prompts:
        whole = generate(loop, prompt, rule="low_confidence", block_length=16)
        early = generate(loop, prompt, rule="low_confidence", block_length=16, early_exit=True)
        assert early.ids == whole.ids
        assert early.finish == whole.finish == "stop"
        saved += whole.stats.forwards - early.stats.forwards
    assert saved > 0


def test_the_mask_is_never_sampled(loop):
    submitted = {"temperature": 5.0, "max_tokens": 256, "ignore_eos": True, "threshold": 0.0}
    for seed in range(8):
        submit(loop, str(seed), PROMPT, seed=seed, **submitted)
    for result in drain(loop).values():
        assert loop.model.mask_id not in result.ids
        assert len(result.ids) == 256


@pytest.mark.parametrize("temperature", [1e-45, 1e-40, 1e-30, 1e-6])
def test_a_tiny_temperature_is_greedy(loop, temperature):
    """D2F scores by the tempered distribution, so there every position is sure at once: other tokens, but no fault."""
    for rule in RULES:
        greedy = generate(loop, PROMPT, max_tokens=16, ignore_eos=True, **rule)
        cold = generate(loop, PROMPT, max_tokens=16, ignore_eos=True, temperature=temperature, **rule)
        assert cold.error is None
        assert cold.ids == greedy.ids or rule["rule"] == "d2f"


@pytest.mark.parametrize("value", [True, False])
def test_an_early_exit_from_a_canvas_that_becomes_final_at_once_is_refused(value):
    with pytest.raises(InvalidValueError, match="no effect") as caught:
        resolve(GenerationParams(early_exit=value), model_info("renoise"), 1)
    assert caught.value.param == "early_exit"


@pytest.mark.parametrize("name", ["max_running", "max_rows", "kv_tokens", "threads"])
def test_engine_options_are_bounded(name):
    for value in (-1, 10**12):
        with pytest.raises(InvalidValueError) as caught:
            EngineOptions(model="unmask-tiny", **{name: value})
        assert caught.value.param == name


def test_nan_does_not_spread_to_a_neighbour(golden):
    """A request that meets not-a-number ends with an error; those that share its steps are not touched."""
    loop = make_loop(golden / "llada" / "ckpt", attention="block_causal")
    loop._runner.model.embedding[17] = float("nan")
    healthy = {"a": [5, 6, 7] * 8, "b": [9] * 4}
    alone = {name: generate(loop, prompt, max_tokens=32, block_length=8).ids for name, prompt in healthy.items()}
    submit(loop, "broken", [17] * 25, max_tokens=32, block_length=8)
    for name, prompt in healthy.items():
        submit(loop, name, prompt, max_tokens=32, block_length=8)
    results = drain(loop)
    assert results["broken"].error[0] == "not_finite"
    assert "NaN" in results["broken"].error[1]
    assert {name: results[name].ids for name in healthy} == alone


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("family", ["llada", "dream", "fast_dllm_v2", "diffusion_gemma"])
def test_logits_that_are_no_numbers_are_named(golden, tmp_path, family, value):
    """Under every rule, those that go by chance too, and whether tokens are drawn or not; the engine goes on."""
    loop = make_loop(served_copy(golden / family / "ckpt", tmp_path))
    weights = loop._runner.model.final_norm
    sound = weights.clone()
    settings = [{"rule": rule} for rule in loop.model.rules] + [{"temperature": 1.0, "seed": 3, "top_p": 0.9}]
    settings += [{"rule": "entropy", "alg_temp": 0.5}] if "entropy" in loop.model.rules else []
    weights.fill_(value)
    for params in settings:
        result = generate(loop, PROMPT, max_tokens=16, **params)
        assert (result.error[0], result.ids) == ("not_finite", []), params
    weights.copy_(sound)
    assert generate(loop, PROMPT, max_tokens=16).error is None


def test_min_tokens_forbids_an_early_end(trial):
    loop = make_loop(trial)
    question = [1, 2, 309, 279, 292, 288, 289, 37, 3]
    assert len(generate(loop, question).ids) == 5
    assert len(generate(loop, question, min_tokens=12).ids) >= 12


def test_cancelling_frees_everything_within_one_step(loop):
    for number in range(12):
        submit(loop, str(number), PROMPT, max_tokens=200, ignore_eos=True)
    for _ in range(3):
        stats = loop.step().stats
    assert stats.running == 12
    assert stats.pages_in_use > 0
    for number in range(12):
        loop.send(wire.Cancel(str(number)))
    stats = loop.step().stats
    assert (stats.running, stats.waiting, stats.pages_in_use) == (0, 0, 0)


def test_cancelling_a_waiting_request():
    loop = make_loop("unmask-tiny", max_running=1)
    for number in range(3):
        submit(loop, str(number), PROMPT, max_tokens=32, ignore_eos=True)
    loop.step()
    loop.send(wire.Cancel("1"))
    loop.send(wire.Cancel("unknown"))
    assert set(drain(loop)) == {"0", "2"}


def test_the_cache_holds_any_single_request():
    """Two contexts at least, so that a request is either refused for the context's sake, or served."""
    with pytest.raises(InvalidValueError) as caught:
        make_loop("unmask-tiny", kv_tokens=2000)
    assert caught.value.param == "kv_tokens"
    loop = make_loop("unmask-tiny", kv_tokens=256, max_context=128)
    assert loop.model.context_length == 128
    for number in range(3):
        submit(loop, str(number), PROMPT, max_tokens=128 - len(PROMPT), ignore_eos=True, cfg_scale=float(number))
    assert [len(result.ids) for result in drain(loop).values()] == [128 - len(PROMPT)] * 3


def test_the_canvas_never_leaves_the_context(loop):
    context = loop.model.context_length
    prompt = [1, *([40] * (context - 9))]
    result = generate(loop, prompt, ignore_eos=True)
    assert len(result.ids) == 8
    with pytest.raises(ContextLengthError) as caught:
        resolve(GenerationParams(max_tokens=9), loop.model, len(prompt))
    assert caught.value.param == "max_tokens"
    with pytest.raises(ContextLengthError):
        resolve(GenerationParams(), loop.model, context)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 2**63}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"max_tokens": 5.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"seed": 1.5}, "seed"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"stop": "zz"}, "stop"),
        ({"stop": ("",)}, "stop"),
        ({"seed": 2**63}, "seed"),
        ({"rule": "best"}, "rule"),
        ({"rule": "threshold", "steps": 4}, "steps"),
        ({"threshold": 0.9, "factor": 1.0}, "factor"),
        ({"rule": "low_confidence", "threshold": 0.9}, "threshold"),
        ({"rule": "factor", "add_threshold": 0.1}, "add_threshold"),
        ({"steps": 17, "block_length": 16}, "steps"),
        ({"steps": 0}, "steps"),
        ({"block_length": 0}, "block_length"),
        ({"threshold": 1.5}, "threshold"),
        ({"cache": "fast"}, "cache"),
        ({"cache": "dual"}, "cache"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"end_tokens": "sometimes"}, "end_tokens"),
        ({"cfg_scale": -0.5}, "cfg_scale"),
    ],
)
def test_bad_parameters_name_their_field(loop, params, field):
    with pytest.raises((InvalidValueError, UnsupportedValueError)) as caught:
        resolve(GenerationParams(**params), loop.model, 10)
    assert caught.value.param == field
