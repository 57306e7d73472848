"""``batch_invariant``: what the head gives a request is the same, bit for bit, whatever shares its steps.

So are the scores that rules go by.
"""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_families import FAMILIES
from tests.engines import drain, make_loop, submit
from tests.golden.checkpoints import served_copy
from tests.logit_records import recorded_logits
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.decoding.windows import Window
from unmask.engine import wire
from unmask.engine.batch import lay_out, step_context
from unmask.engine.held_pages import HeldPages
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence
from unmask.models.tiles import TILE, filled, tiled_product
from unmask.params import GenerationParams
from unmask.resolve import resolve


def requests(model, seed, count):
    """Requests of different lengths, rules and caches, sampled ones and guided ones among them."""
    rng = random.Random(seed)
    options = [{"rule": rule} for rule in model.rules] + [{"cache": cache} for cache in model.caches]
    options += [{"temperature": 0.8, "seed": 7, "top_p": 0.9}, {"block_length": 5}]
    if model.mask_id is not None:
        options.append({"cfg_scale": 0.7})
    rng.shuffle(options)
    jobs = {}
    for number in range(count):
        params = {"max_tokens": rng.choice([1, 8, 13]), "temperature": 0.0, "block_length": 8}
        params |= {"steps": 4} if model.denoiser == "renoise" else {}
        prompt = [rng.randrange(2, 240) for _ in range(rng.choice([1, 8, 9, 30, 41, 90]))]
        jobs[str(number)] = prompt, params | options[number % len(options)]
    return jobs


def start(loop, name, prompt, adapter="", **params):
    loop.send(wire.Submit(name, prompt, resolve(GenerationParams(**params), loop.models[adapter], len(prompt))))


def in_order(rows):
    return sorted(rows, key=lambda row: (row.forward, row.position))


def alone(loop, jobs):
    with recorded_logits(loop) as rows:
        for name, (prompt, params) in jobs.items():
            start(loop, name, prompt, **params)
            drain(loop)
    return {name: in_order(of_one) for name, of_one in rows.items()}


def in_company(loop, jobs, rng):
    """The same in random order and with random arrivals; some others come and are cancelled."""
    names = rng.sample(list(jobs), len(jobs))
    with recorded_logits(loop) as rows:
        for name in names:
            prompt, params = jobs[name]
            start(loop, name, prompt, **params)
            if rng.random() < 0.3:
                start(loop, f"gone {name}", prompt[: len(prompt) // 2 + 1], **params)
            for _ in range(rng.choice([0, 0, 1, 3])):
                loop.step()
            loop.send(wire.Cancel(f"gone {name}"))
        drain(loop)
    return {name: in_order(rows[name]) for name in jobs}


def differing(loop, jobs, rng, reference=None):
    """The requests whose logits are not the same alone and in company."""
    expected, found = reference or alone(loop, jobs), in_company(loop, jobs, rng)
    different = []
    for name, rows in expected.items():
        assert [(row.forward, row.position) for row in rows] == [(row.forward, row.position) for row in found[name]]
        pairs = list(zip(rows, found[name], strict=True))
        if not all(torch.equal(one.logits, other.logits) and one.score == other.score for one, other in pairs):
            different.append(name)
    return different


@pytest.fixture(scope="module")
def family(golden, tmp_path_factory):
    """family(name, **options): a loop over a toy checkpoint."""
    folder = tmp_path_factory.mktemp("families")
    paths = {name: served_copy(golden / path, folder) for name, path in FAMILIES.items()}
    return lambda name, **options: make_loop(paths[name], max_running=12, max_context=128, **options)


@pytest.fixture(scope="module")
def tiny():
    return make_loop(EMBEDDED_MODEL, max_running=12, max_context=256, batch_invariant=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_do_not_depend_on_company(family, name):
    loop = family(name, batch_invariant=True)
    assert differing(loop, requests(loop.model, 1, 7), random.Random(2)) == []


@pytest.mark.parametrize("options", [{"quantize": "int8"}, {"dtype": "bfloat16"}], ids=["int8", "bfloat16"])
def test_nor_do_they_in_less_precision(family, options):
    """In the family whose answers do depend on it otherwise."""
    loop = family("diffusion_gemma", batch_invariant=True, **options)
    assert differing(loop, requests(loop.model, 3, 6), random.Random(4)) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"quantize": "int8"}, {"dtype": "bfloat16"}], ids=["float32", "int8", "bf16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_of_all_families_do_not_depend_on_company(family, name, options):
    loop = family(name, batch_invariant=True, **options)
    jobs = requests(loop.model, 5, 20)
    reference = alone(loop, jobs)
    for seed in range(3):
        assert differing(loop, jobs, random.Random(seed), reference) == []


def test_any_company(tiny):
    jobs = requests(tiny.model, 6, 10)
    reference = alone(tiny, jobs)

    @settings(max_examples=6)
    @given(st.integers(0, 2**32), st.sets(st.sampled_from(sorted(jobs)), min_size=2))
    def check(seed, chosen):
        some = {name: jobs[name] for name in jobs if name in chosen}
        assert differing(tiny, some, random.Random(seed), {name: reference[name] for name in some}) == []

    check()


def test_without_the_option_company_shows():
    """What the tests above would find. Processors may exist on which the plain kernels happen to be invariant."""
    loop = make_loop(EMBEDDED_MODEL, max_running=12, max_context=256)
    if not differing(loop, requests(loop.model, 6, 10), random.Random(1)):
        pytest.skip("this processor's kernels give the same bits in any batch")


def test_adapters_are_part_of_it(golden):
    adapter = golden / "d2f" / "llada_adapter"
    loop = make_loop(golden / "llada" / "ckpt", adapters={"d2f": str(adapter)}, batch_invariant=True)
    jobs = requests(loop.models["d2f"], 7, 8)
    for number, (_, params) in enumerate(jobs.values()):
        params["adapter"] = "d2f" if number % 2 else ""
        if not number % 2:
            params.pop("rule", None)
            params.pop("cache", None)
    assert differing(loop, jobs, random.Random(3)) == []


def test_a_fragmented_cache_is_the_same(tiny):
    """Pages that do not lie next to each other: a request's keys are read from wherever they are."""
    long = [5] * 60
    params = {"max_tokens": 16, "block_length": 8, "ignore_eos": True}
    with recorded_logits(tiny) as rows:
        submit(tiny, "alone", long, **params)
        drain(tiny)
        ledger = tiny._pages
        taken = ledger.take(ledger.free, claim=ledger.free)
        ledger.give_back(taken[1::2])  # every other page is free
        submit(tiny, "apart", long, **params)
        while not tiny.idle:
            tiny.step()
        ledger.give_back(taken[0::2])
    for one, other in zip(in_order(rows["alone"]), in_order(rows["apart"]), strict=True):
        assert torch.equal(one.logits, other.logits)


@pytest.mark.parametrize("name", ["tiny", "llada2", "sdar"])
def test_keys_computed_once_or_anew_are_the_same(family, tiny, name):
    """Block-causal: with a cache or without, hence in other windows."""
    loop = tiny if name == "tiny" else family(name, batch_invariant=True)
    found = {}
    for cache in ("exact", "none"):
        with recorded_logits(loop) as rows:
            submit(loop, "only", list(range(2, 33)), max_tokens=24, block_length=8, cache=cache, ignore_eos=True)
            drain(loop)
        found[cache] = in_order(rows["only"])
    assert len(found["exact"]) > 24
    for exact, none in zip(found["exact"], found["none"], strict=True):
        assert (exact.forward, exact.position) == (none.forward, none.position)
        assert torch.equal(exact.logits, none.logits)


@torch.inference_mode()
@pytest.mark.parametrize("name", ["tiny", "llada2", "sdar", "fast_dllm_v2", "diffusion_gemma"])
def test_a_prompt_in_parts_gives_what_it_gives_whole(family, tiny, name):
    """Windows cut at block borders: the same hidden rows, and the same keys and values."""
    loop = tiny if name == "tiny" else family(name, batch_invariant=True)
    length, block, model = 96, 8, loop._runner.model
    params = resolve(GenerationParams(max_tokens=1, block_length=block), loop.model, length)
    bounds = (np.arange(length) // block + 1) * block
    if loop.model.attention == "causal_prompt":
        bounds = np.arange(length) + 1

    def hidden(borders):
        cache = model.new_cache(pages_for(length + block) * PAGE_TOKENS)
        sequence = Sequence("x", list(range(20, 20 + length)), params, loop.model, 0.0)
        sequence.admit(HeldPages([list(range(pages_for(sequence.canvas.length)))]), 0, 0.0)
        rows = []
        for start, end in pairwise(borders):
            window = Window(start, end, end, bounds[start:end], [], -1)
            if loop.model.attention == "causal_prompt":
                window.canvas_start = length
            step = step_context(
                lay_out([Span(sequence, window)]), model.device, model.spec.shape.sliding_window, tiled=True
            )
            rows.append(model.forward(step, cache))
        return torch.cat(rows), cache.layers

    whole, keys = hidden([0, length])
    for borders in ([0, 8, length], [0, 40, 48, length], list(range(0, length + 1, block))):
        rows, kept = hidden(borders)
        assert torch.equal(rows, whole)
        assert all(torch.equal(one, other) for one, other in zip(kept, keys, strict=True))


@given(st.integers(1, 70), st.integers(0, 69), st.sampled_from([torch.float32, torch.bfloat16]))
def test_tiled_products_are_products_of_rows_by_themselves(count, place, dtype):
    draw = torch.Generator().manual_seed(count)
    weight = torch.randn(50, 37, generator=draw).to(dtype)
    rows = torch.randn(count, 37, generator=draw).to(dtype)
    place %= count
    product = tiled_product(rows, weight)
    assert torch.equal(product[place], tiled_product(rows[place : place + 1], weight)[0])
    torch.testing.assert_close(product, rows @ weight.T)


def test_rows_are_filled_up_with_zeros():
    rows = torch.ones(TILE + 1, 2, 3)
    copied = filled(rows)
    assert copied.shape == (2 * TILE, 2, 3)
    assert torch.equal(copied[: TILE + 1], rows)
    assert not copied[TILE + 1 :].any()
    assert filled(rows[:TILE]).data_ptr() != rows.data_ptr()


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_those_of_the_plain_engine(family, name):
    """In float32 the two differ in their last bits only."""
    loops = [family(name, batch_invariant=tiled) for tiled in (False, True)]
    prompt, params = [7, 9, 30, 41, 5, 6], {"max_tokens": 16, "block_length": 8, "temperature": 0.0}
    records = []
    for loop in loops:
        with recorded_logits(loop) as rows:
            submit(loop, "only", prompt, **params | ({"steps": 3} if loop.model.denoiser == "renoise" else {}))
            drain(loop)
        records.append(in_order(rows["only"]))
    for plain, tiled in zip(*records, strict=True):
        torch.testing.assert_close(plain.logits, tiled.logits, atol=1e-4, rtol=1e-4)
