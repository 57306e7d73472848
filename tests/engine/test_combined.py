"""What goes wrong only where parts of the engine meet: each test here was a fault of two of them together."""

from __future__ import annotations

from tests.engine.queueing import sequence
from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from unmask.engine.fair_line import _MOST_DEBTORS, FairLine

PROMPT = [(7 * i) % 200 + 2 for i in range(100)]


def test_a_request_that_looks_ahead_comes_in_pieces(golden, tmp_path):
    """A piece of its prefill, computed beside another request, proposes nothing that could be guessed from."""
    path = served_copy(golden / "llada2" / "ckpt", tmp_path)
    loop = make_loop(path, max_rows=24)
    options = {"max_tokens": 16, "block_length": 8, "temperature": 0.0, "ignore_eos": True}
    expected = generate(make_loop(path, prefix_cache=False), PROMPT, **options)
    submit(loop, "beside", [5, 6, 7], **options | {"max_tokens": 64, "lookahead": 2})
    loop.step()
    submit(loop, "pieces", PROMPT, **options, lookahead=2)
    result = drain(loop)["pieces"]
    assert result.error is None
    assert result.ids == expected.ids


def test_a_known_prompt_is_no_page_too_many(golden):
    """Shadows for the whole context, behind a prompt whose last known page is copied, on the pages of two contexts."""
    loop = make_loop(golden / "llada" / "ckpt", attention="block_causal", max_context=160, kv_tokens=320)
    options = {"rule": "wino", "block_length": 160, "max_tokens": 2, "verify_threshold": 0.0}
    first, second = (generate(loop, PROMPT[:33], **options) for _ in range(2))
    assert second.ids == first.ids


def test_tenants_that_never_come_back_are_forgotten():
    """Each of them starts level with the clock, so that it never goes on."""
    line = FairLine()
    for number in range(2 * _MOST_DEBTORS):
        request = sequence(str(number), tenant=str(number))
        line.add(request)
        line.take(request)
        request.stats.canvas_tokens = 8
        line.settle(request)
    assert len(line._accounts) <= _MOST_DEBTORS
