"""A playback does what the engine's own denoiser does, also when its prefill is cut, or all that it had is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.worlds import EXACT
from tests.infos import model_info
from unmask.bench.simulated import Playback, PricedTrajectory
from unmask.bench.trajectory import Pacer, Shape, find_trajectory
from unmask.decoding.windows import Decision
from unmask.engine.sequence import Sequence
from unmask.engine.step_features import span_features
from unmask.params import GenerationParams
from unmask.resolve import resolve

ASKED = {
    "full": [{}, {"cache": "none"}, {"cache": "prefix"}, {"cache": "dual"}, {"cache": "delayed"}, {"rule": "wino"}],
    "block_causal": [{}, {"cache": "none"}, {"rule": "d2f"}, {"rule": "d2f", "max_live_blocks": 2}],
    "from_start": [{}, {"rule": "wino"}, {"rule": "joint_threshold"}, {"cache": "none"}],
    "sub_block": [{}, {"cache": "dual"}],
    "renoise": [{}],
}
KINDS = [(kind, number) for kind, options in ASKED.items() for number in range(len(options))]
SAID = ("unit", "divisible", "final", "coming_end", "interruptible", "prefill_rows", "most_rows", "uncut_room")


@pytest.mark.parametrize(("kind", "number"), KINDS)
@settings(max_examples=25)
@given(
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(0, 6),
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3).map(lambda n: n == 0)), max_size=80),
)
def test_the_same_as_the_engines_denoiser(kind, number, prompt, output, more, forwards, course):
    """``course``: the room there is beside ``most_rows`` in each step, and whether the request is evicted before it."""
    model = model_info(kind, context_length=96)
    shape, asked = Shape(prompt, output + more, output, forwards), GenerationParams(**ASKED[kind][number])
    trajectory = find_trajectory(shape, asked, model)
    playback = Playback(PricedTrajectory(trajectory, EXACT))
    params = resolve(GenerationParams(**ASKED[kind][number], max_tokens=output + more), model, prompt)
    sequence = Sequence("0", playback.priced.prompt_ids, params, model, 0.0)
    real, pacer = sequence.denoiser, Pacer(shape, sequence.canvas, params, model)
    real.restart(0)
    playback.restart(0)
    steps = [*course, *[(0, False)] * 200][::-1]
    sure = 0
    while sequence.canvas.finish is None:
        room, evicted = steps.pop()
        if evicted and real.interruptible:
            real.restart(0)
            playback.restart(0)
            sure = 0
        assert [getattr(playback, name) for name in SAID] == [getattr(real, name) for name in SAID]
        assert playback.cached == real.cached or not real.unit
        window, played = (one.next_window(real.most_rows + room) for one in (real, playback))
        assert (played.start, played.end, played.key_end, played.left) == (
            window.start, window.end, window.key_end, window.left
        )  # fmt: skip
        np.testing.assert_array_equal(played.positions, window.positions)
        np.testing.assert_array_equal(played.shadows, window.shadows)
        at, piece, surplus = playback.at, not window.segments, playback.surplus
        assert playback.piecemeal == piece
        recorded = playback.priced.seconds[at + 1] - playback.priced.seconds[at]
        assert recorded + surplus == EXACT.of(np.array(span_features(window, sequence.canvas)))
        assert not sure or (not piece and surplus == 0), "as recorded, it was sure"
        sure = max(sure, playback.sure_steps) - 1
        sequence.apply(window, Decision([], []) if piece else pacer.decide(window), 0.0)
        playback.go_on(1)
        assert playback.at == at + (not piece)
    assert playback.at == trajectory.forwards
