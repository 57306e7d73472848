"""The canvas and the block pipeline under arbitrary commits."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.infos import model_info
from unmask.decoding.block_causal import BlockState
from unmask.decoding.grid import Grid
from unmask.decoding.pace import even, pace
from unmask.decoding.windows import Decision, Outlook
from unmask.engine.sequence import Sequence
from unmask.params import RULE_TRAITS, GenerationParams
from unmask.resolve import resolve

MASK, END = 9, 0
REVISING = ["saber", "wino"]
RULES = {
    "full": [None, "prophet", *REVISING],
    "block_causal": ["d2f", "d2f", *REVISING],
    "from_start": [None, "joint_threshold", *REVISING],
    "sub_block": [None],
}


@st.composite
def runs(draw, kind):
    """A denoiser, and a source of choices to commit by."""
    info = model_info(kind, shifted=draw(st.booleans()) if kind == "full" else kind == "sub_block")
    params = {
        "max_tokens": draw(st.integers(1, 40)),
        "block_length": draw(st.integers(1, 9)),
        "ignore_eos": draw(st.booleans()),
        "early_exit": draw(st.booleans()),
        "cache": draw(st.sampled_from(info.caches)),
    }
    rule = draw(st.sampled_from([rule for rule in RULES[kind] if params["cache"] != "delayed" or rule not in REVISING]))
    if rule is not None:
        params["rule"] = rule
    if rule == "d2f":
        params |= {
            "add_threshold": draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
            "activate_threshold": draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
            "max_live_blocks": draw(st.integers(1, 5)),
        }
    if rule == "joint_threshold":
        params["max_edit_steps"] = draw(st.integers(0, 4))
    if kind == "sub_block":
        block = params["block_length"]
        params["sub_block_length"] = draw(st.sampled_from([n for n in range(1, block + 1) if block % n == 0]))
    prompt = draw(st.lists(st.integers(1, 8), min_size=1, max_size=12))
    resolved = resolve(GenerationParams(**params), info, len(prompt))
    return Sequence("toy", prompt, resolved, info, 0.0).denoiser, draw(st.randoms(use_true_random=False))


def commit_some(denoiser, rng):
    """Play one forward: each full segment commits at least one masked position, others maybe none; edits at random.

    Rules that take tokens back take fewer than they commit. Keys and values may be lost before a forward, and there is
    not always room for a whole prefill.
    """
    if denoiser.interruptible and rng.random() < 0.2:
        denoiser.restart(0)
    bound = denoiser.most_rows + denoiser.prefill_rows
    room = denoiser.most_rows + rng.randint(0, 8)
    window = denoiser.next_window(room)
    assert window.count <= (min(room, bound) if denoiser.divisible else bound)
    canvas, positions, masked_again = denoiser.canvas, [], []
    traits = RULE_TRAITS[denoiser.params.rule]
    decided = canvas.decided
    for segment in window.segments:
        masked = [p for p in range(segment.start, segment.end) if canvas.masked[p]]
        assert masked or segment.revises
        assert traits.revises or not segment.revises
        if masked:
            positions += rng.sample(masked, rng.randint(1 if segment.activated else 0, len(masked)))
        standing = [p for p in range(max(segment.start, canvas.prompt_length), segment.end) if not canvas.masked[p]]
        if traits.edits:
            positions += rng.sample(standing, rng.randint(0, len(standing)) * rng.randint(0, 1))
        if traits.remasks and segment.revises:
            masked_again = rng.sample(standing, rng.randint(0, min(len(standing), len(positions) - 1)))
        if traits.shadows:
            assert window.shadows.tolist() == standing
        if traits.looks_ahead and rng.random() < 0.1:
            positions = [p for p in range(segment.start, segment.reach) if canvas.masked[p]]
    tokens = [rng.choice([END, *range(1, 9)]) for _ in positions]
    newly = denoiser.apply(Decision(positions, tokens, masked_again=masked_again))
    assert newly <= len(positions) - len(masked_again)
    assert canvas.decided >= decided, "what is final stays"
    assert all(canvas.masked[p] for p in masked_again)
    return window


def play(denoiser, rng):
    """Run to the end; checks what must hold after every forward."""
    canvas = denoiser.canvas
    told = canvas.prompt_length
    shown: list[int] = []
    forwards = 0
    while canvas.finish is None:
        coming_end = denoiser.coming_end
        window = commit_some(denoiser, rng)
        forwards += bool(window.segments)
        assert window.end <= window.key_end <= coming_end <= canvas.length
        contiguous = np.flatnonzero(np.append(canvas.masked, True))[0]
        assert canvas.decided == min(contiguous, canvas.settled)
        assert canvas.text_end >= told, "text that was told must not shrink"
        shown += canvas.tokens[told : canvas.text_end].tolist()
        told = canvas.text_end
        assert forwards <= denoiser.most_forwards
    return shown


@settings(max_examples=200)
@given(run=st.one_of([runs(kind) for kind in RULES]))
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
@given(run=st.one_of(runs("block_causal"), runs("from_start")))
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
        assert denoiser.canvas.tokens[:cached].tolist() == frozen, "what is cached never changes"
        cached = max(cached, denoiser.cached)
        frozen = denoiser.canvas.tokens[:cached].tolist()
        assert not denoiser.canvas.masked[:cached].any()


@given(length=st.integers(1, 64), steps=st.integers(1, 64))
def test_the_even_pace_is_an_even_split(length, steps):
    quotas = [even(steps, length, step) for step in range(steps)]
    assert sum(quotas) == length
    assert quotas == sorted(quotas, reverse=True)
    assert max(quotas) - min(quotas) <= 1


@given(
    data=st.data(), rule=st.sampled_from(["low_confidence", "paced_threshold", "entropy"]), length=st.integers(1, 64)
)
def test_every_pace_gets_there_in_its_steps(data, rule, length):
    """Whatever is committed, a block is through after ``steps`` forwards if quotas are met."""
    params = resolve(
        GenerationParams(rule=rule, block_length=length, steps=data.draw(st.integers(1, length))), model_info("full"), 1
    )
    masked = length
    for step in range(params.steps):
        masked -= min(pace(params, length, masked, step).quota, masked)
    assert masked == 0


@given(anchor=st.integers(0, 20), block_length=st.integers(1, 9), length=st.integers(21, 60), start=st.integers(0, 20))
def test_block_ends_agree_with_block_end(anchor, block_length, length, start):
    grid = Grid(anchor, block_length, length)
    assert grid.block_ends(start, length).tolist() == [grid.block_end(p) for p in range(start, length)]


@settings(max_examples=200)
@given(data=st.data(), prompt=st.integers(1, 12), max_tokens=st.integers(1, 30), steps=st.integers(1, 6))
def test_a_renoised_canvas_ends_in_time(data, prompt, max_tokens, steps):
    """Canvases end when stable and sure, or after ``steps`` forwards; the text is the likeliest tokens."""
    info = model_info("renoise")
    stability = data.draw(st.integers(0, 3))
    params = resolve(
        GenerationParams(max_tokens=max_tokens, steps=steps, stability_threshold=stability, ignore_eos=True),
        info,
        prompt,
    )
    denoiser = Sequence("toy", [1] * prompt, params, info, 0.0).denoiser
    canvas, forwards = denoiser.canvas, 0
    encoded = 0
    while canvas.finish is None:
        bound = denoiser.most_rows + denoiser.prefill_rows
        window = denoiser.next_window(bound)
        forwards += 1
        size = window.end - window.canvas_start
        assert window.start == encoded, "everything final is encoded once"
        assert window.conditioned == (denoiser.step > 0)
        assert window.count <= bound
        encoded = window.canvas_start
        accepted = data.draw(st.lists(st.integers(window.canvas_start, window.end - 1), unique=True))
        likeliest = np.array(data.draw(st.lists(st.integers(1, 2), min_size=size, max_size=size)))
        entropy = np.full(size, data.draw(st.sampled_from([0.0, 1.0])))
        outlook = Outlook(np.arange(window.canvas_start, window.end), likeliest, -entropy)
        denoiser.apply(Decision(accepted, [7] * len(accepted), outlook))
        if canvas.finish is None and denoiser.step:
            assert all(canvas.tokens[position] == 7 for position in accepted)
        assert forwards <= denoiser.most_forwards
    assert set(canvas.tokens[prompt : canvas.text_end].tolist()) <= {1, 2}
    assert canvas.text_end == prompt + max_tokens
