"""What goes wrong only where parts of the engine meet: each test here was a fault of two of them together."""

from __future__ import annotations

from tests.engine.queueing import INFO, sequence
from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from unmask.engine.fair_line import _MOST_DEBTORS, FairLine
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.engine.sequence import Sequence
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.service_class import ServiceClass
from unmask.terms import Terms

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


def test_one_evicted_before_its_first_turn_is_admitted_once():
    """A batch request that paused all the while keeps the threshold that it was admitted with, and says so."""
    classes = {"economy": ServiceClass(floor=0.1, relaxes_at=0.0)}
    scheduler = Scheduler(4, 100, KeyValueMemory(PageLedger(20)), classes)
    params = resolve(GenerationParams(rule="threshold", threshold=0.9), INFO, 4)
    terms = Terms(priority="batch", service_class="economy")
    request = Sequence("paused", [1] * 4, params, INFO, 0.0, terms=terms)
    scheduler.submit(sequence("beside"))
    scheduler.submit(request)
    scheduler.plan(0.0)
    threshold = request.params.threshold
    assert request.stats.relaxed == {"threshold": threshold}
    scheduler._evict(request)
    scheduler.remove("beside")
    scheduler.plan(1.0)
    assert request.params.threshold == threshold
    assert request.stats.relaxed == {"threshold": threshold}
    assert scheduler.prompt_tokens == 4 + 4


def test_lookahead_goes_on_once_the_prefix_cache_has_filled_all_pages():
    """What the cache keeps for nobody gives way to drafts as it does to requests."""
    loop = make_loop("unmask-tiny", max_context=256, kv_tokens=544)
    prompts = [[1, *((7 * n + 3 * i) % 60 + 20 for i in range(62)), 3] for n in range(10)]
    for prompt in prompts:
        generate(loop, prompt, max_tokens=4)
    assert loop.step().stats.pages_idle == 16, "one page is free, which the canvas takes"
    options = {"rule": "low_confidence", "max_tokens": 32, "ignore_eos": True, "lookahead": 4}
    assert generate(loop, prompts[-1], **options).stats.drafts_accepted > 0
