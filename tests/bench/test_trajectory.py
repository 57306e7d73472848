"""The windows that are played back are those of the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import make_loop, trace
from tests.infos import SAMPLERS, model_info
from unmask.bench.trajectory import Shape, find_trajectory
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.errors import ContextLengthError
from unmask.params import GenerationParams


@pytest.fixture(scope="module")
def loop():
    return make_loop(EMBEDDED_MODEL)


@pytest.mark.parametrize(("prompt", "tokens", "steps"), [(5, 48, 8), (33, 16, 16), (20, 64, 1)])
def test_the_same_windows_as_in_the_live_engine(loop, prompt, tokens, steps):
    asked = {"rule": "low_confidence", "steps": steps, "ignore_eos": True}
    live = trace(loop, [5] * prompt, max_tokens=tokens, **asked)
    shape = Shape(prompt, tokens, tokens, len(live))
    found = find_trajectory(shape, GenerationParams(**asked), loop.model)
    assert [(window.start, window.end) for window in windows(found)] == [(step.start, step.end) for step in live]
    assert found.features[:, 1].tolist() == [step.end - step.start for step in live]
    assert found.features[:, 4].tolist() == [masked(step, loop.model.mask_id) for step in live]


def windows(found):
    return [moment.window for moment in found.moments]


def masked(step, mask_id) -> int:
    """Masks in the block that is denoised: the last of the window."""
    return step.canvas[step.end - 16 : step.end].count(mask_id)


@given(
    st.sampled_from(sorted(set(SAMPLERS) - {"renoise", "sub_block"})),
    st.integers(1, 20),
    st.integers(1, 30),
    st.integers(0, 10),
    st.integers(1, 40),
)
def test_as_many_forwards_as_asked_for(kind, prompt, output, more, forwards):
    model = model_info(kind)
    found = find_trajectory(Shape(prompt, output + more, output, forwards), GenerationParams(), model)
    first = prompt if model.anchor == "prompt_end" else prompt // 4 * 4
    end = prompt + output if not more else min(first + -(-(prompt + output - first) // 4) * 4, prompt + output + more)
    blocks = -(-(end - first) // 4)
    if model.rules[0] == "d2f":
        assert blocks <= found.forwards <= max(forwards, blocks) + blocks
    else:
        assert found.forwards == min(max(forwards, blocks), end - prompt)
    assert 1 <= found.first_block <= found.forwards
    assert found.moments[0].uncut_room >= found.moments[0].prefill_rows


@pytest.mark.parametrize("kind", sorted(SAMPLERS))
@pytest.mark.parametrize(("output", "allowed"), [(4, 4), (9, 24), (24, 24)])
def test_every_kind_of_denoiser_comes_to_its_end(kind, output, allowed):
    model = model_info(kind)
    quick, slow = (
        find_trajectory(Shape(6, allowed, output, forwards), GenerationParams(), model) for forwards in (1, 20)
    )
    assert quick.forwards <= slow.forwards <= 24 + 12
    for found in (quick, slow):
        rows = found.features[:, 1]
        assert (rows <= [moment.prefill_rows + moment.most_rows for moment in found.moments]).all()
        assert (found.features[:, 3] == rows * found.features[:, 2]).all()
        assert len(found.moments) == len(rows)


def test_early_ends_leave_blocks_out():
    """Under block-causal attention nobody computes what stands right of the end token's block."""
    short = find_trajectory(Shape(6, 40, 7, 4), GenerationParams(), model_info())
    assert max(window.end for window in windows(short)) == 6 + 8
    whole = find_trajectory(Shape(6, 40, 7, 4), GenerationParams(), model_info("full"))
    assert {window.end for window in windows(whole)} == {46}, "under full attention everybody does"


def test_no_room():
    with pytest.raises(ContextLengthError):
        find_trajectory(Shape(60, 10, 10, 4), GenerationParams(), model_info())
