"""Both twins of the engine client: a process of its own, and a thread of this one."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest
import pytest_asyncio

from tests.engines import generate, make_loop
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine.client import Mailbox
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.thread import ThreadEngine
from unmask.errors import CheckpointNotFoundError, EngineUnavailableError, InvalidValueError, ShuttingDownError
from unmask.events import CanvasEvent, Frame, RequestStats
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.terms import PLAIN

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = [1, *range(30, 50), 3]
TWINS = ("process", "thread")
OPTIONS = EngineOptions(model=EMBEDDED_MODEL, device="cpu", threads=1, kv_tokens=20_000)


async def opened(kind):
    if kind == "process":
        return await ProcessEngine.launch(OPTIONS)
    return ThreadEngine(make_loop(EMBEDDED_MODEL, kv_tokens=20_000))


async def closed(engine):
    await engine.close()
    assert not engine.alive


@pytest_asyncio.fixture(params=TWINS, scope="module", loop_scope="module")
async def shared(request):
    engine = await opened(request.param)
    yield engine
    await closed(engine)


@pytest.fixture
def engine(shared):
    """One for all tests, each of which finds and leaves it idle."""
    yield shared
    shared.on_step = lambda report: None
    assert shared.stats.running == 0


@pytest_asyncio.fixture(params=TWINS, loop_scope="module")
async def mortal(request):
    """One that a test may end."""
    engine = await opened(request.param)
    yield engine
    await closed(engine)
    asyncio.get_running_loop().set_exception_handler(None)


async def collect(engine, prompt=PROMPT, **params):
    """Ids of one request."""
    with engine.submit([request(engine, prompt, **params)]) as mailbox:
        return [token for event in await read(mailbox) for token in event.token_ids]


def request(engine, prompt=PROMPT, **params):
    return prompt, resolve(GenerationParams(**params), engine.model, len(prompt)), PLAIN


async def read(mailbox, count=1):
    """All events of ``count`` requests."""
    events = []
    while sum(event.last for event in events) < count:
        events.append((await mailbox.get())[1])
    return events


async def until(condition, seconds=5.0):
    for _ in range(int(seconds * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen in time")


async def test_the_same_tokens_as_the_bare_loop(engine):
    wanted = {n: generate(make_loop(EMBEDDED_MODEL), PROMPT, max_tokens=n, ignore_eos=True).ids for n in (1, 20, 70)}
    answers = await asyncio.gather(*(collect(engine, max_tokens=n, ignore_eos=True) for n in wanted))
    assert answers == list(wanted.values())
    await until(lambda: engine.stats.running == 0)
    assert engine.stats.pages_in_use == 0


async def test_leaving_early_cancels_within_a_step(engine):
    steps = []
    engine.on_step = lambda report: steps.append(report.stats.running)
    with engine.submit([request(engine, max_tokens=900, ignore_eos=True, rule="low_confidence")]) as mailbox:
        await mailbox.get()
    heard = len(steps)
    await until(lambda: engine.stats.running == 0 and engine.stats.pages_in_use == 0)
    # One step was running when the reader left, one may have ended unheard; the last one only drops the request.
    assert len(steps) - heard <= 3
    await asyncio.sleep(0.2)
    assert engine.stats.running == 0
    assert len(steps) - heard <= 3


async def test_several_requests_share_a_mailbox(engine):
    alone = [await collect(engine, max_tokens=n, ignore_eos=True) for n in (40, 5, 70)]
    with engine.submit([request(engine, max_tokens=n, ignore_eos=True) for n in (40, 5, 70)]) as mailbox:
        together = {0: [], 1: [], 2: []}
        ended = 0
        while ended < 3:
            number, event = await mailbox.get()
            together[number] += event.token_ids
            ended += event.last
    assert list(together.values()) == alone
    await until(lambda: engine.stats.pages_in_use == 0)


async def test_a_dropped_request_leaves_its_neighbours(engine):
    wanted = await collect(engine, max_tokens=60, ignore_eos=True)
    long = request(engine, max_tokens=900, ignore_eos=True, rule="low_confidence")
    with engine.submit([long, request(engine, max_tokens=60, ignore_eos=True)]) as mailbox:
        await until(lambda: engine.stats.running > 0)
        mailbox.drop(0)
        events = await read(mailbox)
    assert [token for event in events for token in event.token_ids] == wanted
    await until(lambda: engine.stats.pages_in_use == 0)


async def test_a_waiting_reader_may_give_up_and_come_back(engine):
    with engine.submit([request(engine, max_tokens=30, ignore_eos=True)]) as mailbox:
        ids = []
        last = False
        while not last:
            try:
                async with asyncio.timeout(0.0005):
                    _, event = await mailbox.get()
            except TimeoutError:
                continue
            ids += event.token_ids
            last = event.last
    assert ids == await collect(engine, max_tokens=30, ignore_eos=True)


async def test_unread_frames_are_dropped_but_no_token_is():
    mailbox = Mailbox(["a", "b"], lambda request_id: None)
    for name, token in [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]:
        mailbox.put(CanvasEvent(name, [token], RequestStats(), frame=Frame([token])))
    read = [await mailbox.get() for _ in range(5)]
    assert [(number, event.token_ids, event.frame) for number, event in read] == [
        (0, [1], None),
        (1, [2], None),
        (0, [3], None),
        (0, [4], Frame([4])),
        (1, [5], Frame([5])),
    ]


async def test_a_listener_with_a_bug_leaves_nobody_waiting(mortal, capfd):
    engine = mortal

    def bug(report):
        raise ZeroDivisionError("a bug")

    engine.on_step = bug
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    if isinstance(engine, ProcessEngine):
        with pytest.raises(EngineUnavailableError):
            await collect(engine, max_tokens=900, ignore_eos=True, rule="low_confidence")
        assert not engine.alive
        assert "ZeroDivisionError" in capfd.readouterr().err
    else:
        assert len(await collect(engine, max_tokens=9, ignore_eos=True)) == 9


async def test_a_cancelled_task_frees_its_request(engine):
    tasks = [asyncio.create_task(collect(engine, max_tokens=900, ignore_eos=True, threshold=1.0)) for _ in range(5)]
    await until(lambda: engine.stats.running == 5)
    for task in tasks[:4]:
        task.cancel()
    await until(lambda: engine.stats.running == 1)
    tasks[4].cancel()
    await until(lambda: engine.stats.pages_in_use == 0)


async def test_frames_show_the_whole_canvas(engine):
    with engine.submit([request(engine, max_tokens=32, ignore_eos=True, frames=True)]) as mailbox:
        events = await read(mailbox)
    frames = [event.frame.tokens for event in events if event.frame is not None]
    assert frames
    assert all(len(frame) == 32 for frame in frames)
    masks = [frame.count(engine.model.mask_id) for frame in frames]
    assert masks == sorted(masks, reverse=True)
    assert events[-1].finish == "length"
    assert frames[-1] == [token for event in events for token in event.token_ids]


async def test_a_model_that_cannot_be_loaded():
    with pytest.raises(CheckpointNotFoundError, match="no model at"):
        await ProcessEngine.launch(EngineOptions(model="/nowhere"))


async def test_options_that_cannot_be_honoured():
    with pytest.raises(InvalidValueError, match="64 key/value tokens"):
        await ProcessEngine.launch(EngineOptions(model=EMBEDDED_MODEL, device="cpu", kv_tokens=64))


async def test_loading_reports_progress():
    shares = []
    engine = await ProcessEngine.launch(OPTIONS, shares.append)
    await engine.close()
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


async def test_the_death_of_the_process_ends_requests_with_an_error():
    engine = await ProcessEngine.launch(OPTIONS)
    task = asyncio.create_task(collect(engine, max_tokens=900, ignore_eos=True, threshold=1.0))
    await until(lambda: engine.stats.running == 1)
    os.kill(engine._process.pid, signal.SIGKILL)
    with pytest.raises(EngineUnavailableError, match="died"):
        await task
    await until(lambda: not engine.alive)
    with pytest.raises(EngineUnavailableError):
        await collect(engine)
    await engine.close()


async def test_the_process_ends_with_its_parent():
    """The engine reads end of file when the parent's socket closes, whatever closed it."""
    engine = await ProcessEngine.launch(OPTIONS)
    engine._writer.transport.abort()
    await until(lambda: engine._process.poll() is not None)
    await engine.close()


async def test_requests_can_be_ended_for_a_reason(mortal):
    """Those that run, and those that come before the engine is closed."""
    engine = mortal
    with engine.submit([request(engine, max_tokens=900, ignore_eos=True)]) as mailbox:
        await mailbox.get()
        engine.end(ShuttingDownError())
        with pytest.raises(ShuttingDownError, match="being stopped"):
            await read(mailbox)
    with pytest.raises(ShuttingDownError):
        await collect(engine)


async def test_an_orderly_end_is_silent(capfd):
    for _ in range(2):
        engine = await ProcessEngine.launch(OPTIONS)
        with engine.submit([request(engine, max_tokens=900, ignore_eos=True)]) as mailbox:
            await mailbox.get()
        await engine.close()  # with reports still on their way: the worker's socket is reset
        assert engine._process.returncode == 0
    assert capfd.readouterr().err == ""


async def test_a_submit_to_a_thread_about_to_end_is_refused():
    """The loop has ended and has told so, but the thread still lives."""
    loop, end, linger = make_loop(EMBEDDED_MODEL), threading.Event(), threading.Event()
    loop.run = lambda publish: end.wait(10)
    engine = ThreadEngine(loop)

    class Slow:
        def call_soon_threadsafe(self, *arguments):
            linger.wait(10)

    engine._asyncio = Slow()
    end.set()
    await until(lambda: not engine.alive)
    assert engine._thread.is_alive()
    with pytest.raises(EngineUnavailableError):
        await collect(engine)
    linger.set()
    await engine.close()
