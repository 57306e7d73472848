"""Structured output in the step loop: always valid, with every family and rule, beside free requests."""

from __future__ import annotations

import json
import random
import re

import pytest

from tests.constraints.local import LocalCompiler
from tests.constraints.schemas import check, random_object
from tests.engine.test_families import FAMILIES
from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.constraints.automaton import Automaton
from unmask.params import GenerationParams

# Those that are decoded differently.
DECODED = [name for name in FAMILIES if name not in ("llada_gqa", "llada_moe", "llada_moe_shared")]
PATTERN = r"[a-f]{2,7}(?:-[0-9]{1,3})?é?"


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name not in ("sdar", "llada") else pytest.mark.slow) for name in DECODED],
)
def family(request, golden, tmp_path_factory):
    folder = tmp_path_factory.mktemp("family")
    path = served_copy(golden / FAMILIES[request.param], folder, end_id=250, tokenizer=True)
    loop = make_loop(path, max_running=64, max_context=256)
    prompts = PromptEncoder(str(path), loop.model)
    return loop, prompts.tokenizer, LocalCompiler(prompts.tokenizer, loop.model)


def settings_of(model):
    """Every rule, greedy and sampled, every cache, guidance, filters, end tokens, canvases that end inside a block."""
    settings = [{"rule": rule, "temperature": t} for rule in model.rules for t in (0.0, 1.0)]
    settings += [{"cache": cache} for cache in model.caches]
    settings += [
        {"temperature": 1.0, "top_p": 0.5},
        {"temperature": 0.7, "top_k": 3},
        {"min_tokens": 4},
        {"max_tokens": 3},
    ]
    if model.mask_id is not None:
        settings += [{"cfg_scale": 0.7}, {"end_tokens": "last"}, {"early_exit": True}]
    if "entropy" in model.rules:
        settings += [{"rule": "entropy", "top_p": 0.7}, {"rule": "topk_margin", "alg_temp": 0.5}]
    if "joint_threshold" in model.rules:
        settings += [
            {"rule": "joint_threshold", "edit_threshold": 0.0, "threshold": 0.2, "temperature": t} for t in (0.0, 1.5)
        ]
    if "d2f" in model.rules:
        settings += [{"rule": "d2f", "add_threshold": 0.1, "activate_threshold": 0.1, "max_live_blocks": 3}]
    base = {"max_tokens": 13, "block_length": 4, "temperature": 0.0, "seed": 3}
    if model.denoiser == "renoise":
        base["steps"] = 5
    return [base | chosen for chosen in settings]


def test_every_answer_matches_beside_free_requests(family):
    """Each constrained answer matches and is what it is alone; the free ones beside it are what they are alone."""
    loop, tokenizer, compiler = family
    constraint = compiler.compile(GenerationParams(regex=PATTERN))
    jobs = {str(n): chosen for n, chosen in enumerate(settings_of(loop.model))}
    prompt = [(7 * n) % 240 + 2 for n in range(9)]
    free = {name: generate(loop, prompt, **chosen).ids for name, chosen in jobs.items()}
    for name, chosen in jobs.items():
        submit(loop, name, prompt, constraint, regex=PATTERN, **chosen)
        submit(loop, f"free {name}", prompt, **chosen)
    together = drain(loop)
    texts = set()
    for name, chosen in jobs.items():
        result = together[name]
        assert result.error is None
        text = tokenizer.decode(result.ids)
        texts.add(text)
        assert re.fullmatch(PATTERN, text), (text, chosen)
        assert len(result.ids) >= chosen.get("min_tokens", 0)
        assert result.finish == "stop"
        assert together[f"free {name}"].ids == free[name], chosen
        if int(name) % 3 == 0:
            submit(loop, "alone", prompt, constraint, regex=PATTERN, **chosen)
            assert drain(loop)["alone"].ids == result.ids, chosen
    assert len(texts) > 2


@pytest.fixture(scope="module")
def tiny():
    loop = make_loop(EMBEDDED_MODEL, max_running=32)
    prompts = PromptEncoder(EMBEDDED_MODEL, loop.model)
    return loop, prompts, LocalCompiler(prompts.tokenizer, loop.model)


def structured(tiny, count, seed):
    """``count`` requests for random schemas, half of them sampled, in batches beside free ones."""
    loop, prompts, compiler = tiny
    rng = random.Random(seed)
    questions = ["What is 7 + 8?", "Spell: ocean", "Sort in ascending order: 31 4 17 8"]
    prompt_ids = [prompts.encode(question) for question in questions]
    free = [generate(loop, ids, max_tokens=48, temperature=0.0).ids for ids in prompt_ids]
    checked = 0
    while checked < count:
        asked = {}
        for number in range(min(12, count - checked)):
            schema = random_object(rng)
            chosen = {
                "max_tokens": rng.choice([64, 100, 150]),
                "temperature": rng.choice([0.0, 1.0]),
                "seed": number,
                "rule": rng.choice(loop.model.rules),
            }
            constraint = compiler.compile(GenerationParams(json_schema=schema))
            shortest = Automaton.from_bytes(constraint.automaton).shortest(0)
            chosen["max_tokens"] = max(chosen["max_tokens"], shortest)
            asked[str(number)] = schema
            submit(loop, str(number), rng.choice(prompt_ids), constraint, json_schema=schema, **chosen)
        for number, ids in enumerate(prompt_ids):
            submit(loop, f"free {number}", ids, max_tokens=48, temperature=0.0)
        results = drain(loop)
        assert [results[f"free {number}"].ids for number in range(len(free))] == free
        for name, schema in asked.items():
            assert results[name].error is None
            check(schema, prompts.tokenizer.decode(results[name].ids))
        checked += len(asked)


def test_json_of_random_schemas(tiny):
    structured(tiny, 24, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_json_of_a_thousand_random_schemas(tiny):
    structured(tiny, 1000, seed=2)


def test_json_object(tiny):
    loop, prompts, compiler = tiny
    schema = {"type": "object"}
    constraint = compiler.compile(GenerationParams(json_schema=schema))
    for seed in range(3):
        prompt = prompts.encode("Spell: ocean")
        submit(loop, "x", prompt, constraint, json_schema=schema, temperature=1.0, seed=seed, min_tokens=12)
        assert isinstance(json.loads(prompts.tokenizer.decode(drain(loop)["x"].ids)), dict)
