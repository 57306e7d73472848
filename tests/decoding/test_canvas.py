"""The canvas and the block pipeline under arbitrary commits."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.decoding.block_causal import BlockCausalDenoiser, BlockState
from unmask.decoding.canvas import Canvas
from unmask.decoding.full_attention import FullAttentionDenoiser
from unmask.decoding.windows import static_quota
from unmask.params import GenerationParams, ModelInfo, resolve

MASK, END = 9, 0


def model(attention: str) -> ModelInfo:
    return ModelInfo(
        name="toy", family="toy", attention=attention, block_length=4, max_tokens=40, context_length=64,
        vocab_size=10, mask_id=MASK, end_ids=(END,), parameters=0,
    )  # fmt: skip


@st.composite
def runs(draw, attention):
    """A denoiser, and a source of choices to commit by."""
    params = {
        "max_tokens": draw(st.integers(1, 40)),
        "block_length": draw(st.integers(1, 9)),
        "ignore_eos": draw(st.booleans()),
        "early_exit": draw(st.booleans()),
    }
    if attention == "block_causal":
        params |= {
            "rule": "d2f",
            "add_threshold": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
            "activate_threshold": draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
            "max_live_blocks": draw(st.integers(1, 5)),
            "cache": draw(st.sampled_from(["exact", "none"])),
        }
    else:
        params["cache"] = draw(st.sampled_from(["none", "prefix", "dual"]))
    prompt = draw(st.lists(st.integers(1, 8), min_size=1, max_size=12))
    info = model(attention)
    resolved = resolve(GenerationParams(**params), info, len(prompt))
    canvas = Canvas(prompt, resolved, info.context_length, MASK, () if resolved.ignore_eos else info.end_ids)
    denoiser = (
        BlockCausalDenoiser(canvas, resolved)
        if attention == "block_causal"
        else FullAttentionDenoiser(canvas, resolved)
    )
    return denoiser, draw(st.randoms(use_true_random=False))


def commit_some(denoiser, rng):
    """Play one forward: each full segment commits at least one masked position, others maybe none."""
    window = denoiser.next_window()
    positions = []
    for segment in window.segments:
        masked = [p for p in range(segment.start, segment.end) if denoiser.canvas.masked[p]]
        assert masked
        positions += sorted(rng.sample(masked, rng.randint(1 if segment.activated else 0, len(masked))))
    tokens = [rng.choice([END, *range(1, 9)]) for _ in positions]
    denoiser.apply(positions, tokens)
    return window


def play(denoiser, rng):
    """Run to the end; checks what must hold after every forward."""
    canvas = denoiser.canvas
    told = canvas.prompt_length
    shown: list[int] = []
    forwards = 0
    most_rows = canvas.length
    while canvas.finish is None:
        most_rows = min(most_rows, denoiser.most_rows)
        window = commit_some(denoiser, rng)
        forwards += 1
        assert window.end <= window.key_end <= canvas.length
        assert window.end - window.start <= most_rows, "the promise covers all coming windows"
        assert canvas.decided == np.flatnonzero(np.append(canvas.masked, True))[0]
        assert canvas.text_end >= told, "text that was told must not shrink"
        shown += canvas.tokens[told : canvas.text_end].tolist()
        told = canvas.text_end
        assert forwards <= canvas.length - canvas.prompt_length
    return shown


@settings(max_examples=200)
@given(run=st.one_of(runs("block_causal"), runs("full")))
def test_any_commits_lead_to_a_proper_end(run):
    denoiser, rng = run
    canvas = denoiser.canvas
    shown = play(denoiser, rng)
    ends = () if denoiser.params.ignore_eos else (END,)
    text = canvas.tokens[canvas.prompt_length : canvas.text_end].tolist()
    assert shown == text
    assert MASK not in text
    assert not set(text) & set(ends)
    assert len(text) <= denoiser.params.max_tokens
    if canvas.finish == "length":
        assert len(text) == denoiser.params.max_tokens
    else:
        assert canvas.tokens[canvas.text_end] == END


@settings(max_examples=200)
@given(run=runs("block_causal"))
def test_the_pipeline_keeps_its_order(run):
    denoiser, rng = run
    ranks = {BlockState.IN_CACHE: 0, BlockState.TO_CACHE: 1, BlockState.ACTIVE: 2}
    cached = 0
    frozen: list[int] = []
    while denoiser.canvas.finish is None:
        commit_some(denoiser, rng)
        states = [ranks[block.state] for block in denoiser.blocks]
        assert states == sorted(states), "cached blocks, then finished ones, then live ones"
        assert sum(state == 2 for state in states) <= denoiser.params.max_live_blocks
        assert denoiser.cached >= cached
        assert denoiser.canvas.tokens[:cached].tolist() == frozen, "what is cached never changes"
        cached = denoiser.cached
        frozen = denoiser.canvas.tokens[:cached].tolist()
        assert not denoiser.canvas.masked[:cached].any()


@given(masked=st.integers(1, 64), steps=st.integers(1, 64))
def test_the_static_quota_is_an_even_split(masked, steps):
    quotas = [static_quota(masked, steps, step) for step in range(steps)]
    assert sum(quotas) == masked
    assert quotas == sorted(quotas, reverse=True)
    assert max(quotas) - min(quotas) <= 1
