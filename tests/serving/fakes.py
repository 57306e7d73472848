"""A server around a scripted engine, in this process but on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn

from tests.infos import model_info
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.engine import wire
from unmask.engine.client import EngineClient
from unmask.errors import EngineUnavailableError
from unmask.events import CanvasEvent, EngineStats, RequestStats, StepReport
from unmask.gateway.supervisor import Progress
from unmask.metrics import Metrics
from unmask.serving.app import create_app
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.entry import Entry, Stay
from unmask.serving.house import House
from unmask.serving.resident import LoadedModel, NativeResident
from unmask.serving.response_store import ResponseStore
from unmask.serving.server import claim, server_config
from unmask.serving.settings import ServerSettings

MODEL = model_info(
    name=EMBEDDED_MODEL,
    family="llada",
    block_length=16,
    max_tokens=64,
    context_length=1024,
    vocab_size=1024,
    mask_id=6,
    parameters=1_540_000,
)


class ScriptedEngine(EngineClient):
    """Answers nothing by itself: a test delivers events with ``say`` and sees what was submitted and cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.models = {"": MODEL}
        self.submitted: list[wire.Submit] = []
        self.cancelled: list[str] = []
        self.running = True
        self.on_submit: Callable[[wire.Submit], None] = lambda command: None

    @property
    def alive(self) -> bool:
        return self.running

    async def close(self) -> None:
        self.running = False

    async def wait_closed(self) -> str:
        while self.running:
            await asyncio.sleep(0.005)
        return "the script is over"

    def _send(self, command: wire.Command) -> None:
        if isinstance(command, wire.Submit):
            self.submitted.append(command)
            self.on_submit(command)
        elif isinstance(command, wire.Cancel):
            self.cancelled.append(command.request_id)

    def say(self, *events: CanvasEvent) -> None:
        self._deliver(StepReport(list(events), EngineStats(), 0.001))

    def answer(self, ids: list[int]) -> None:
        """From now on, answer every request at once with ``ids`` and the end token."""
        self.on_submit = lambda command: self.say(finished(command.request_id, ids))


def finished(request_id: str, ids: list[int]) -> CanvasEvent:
    stats = RequestStats(forwards=2, blocks=1, committed=len(ids) + 1)
    return CanvasEvent(request_id, ids, stats, finish="stop", ended_by_token=True)


@dataclass
class FakeServer:
    url: str
    engine: ScriptedEngine
    model: DiffusionModel
    prompts: PromptEncoder = field(repr=False)
    responses: ResponseStore = field(repr=False)


PINNED = Stay(pinned=True, preload=True)


class LoadedEntry(Entry):
    """A model that is there already, whatever its engine says."""

    def __init__(self, engine: ScriptedEngine, capacity: int = 8, stay: Stay = PINNED) -> None:
        self.prompts = PromptEncoder(EMBEDDED_MODEL, MODEL)
        metrics = Metrics(EMBEDDED_MODEL, MODEL.family, "diffusion", lambda: engine.stats)
        self.model = DiffusionModel(engine, self.prompts, name=EMBEDDED_MODEL, metrics=metrics, capacity=capacity)
        super().__init__([*self.model.listings()], size_bytes=0, stay=stay)
        self.metrics = metrics
        self._engine = engine

    async def _load(self, progress: Progress) -> LoadedModel:
        if not self._engine.running:
            raise EngineUnavailableError("The engine has died.")
        return NativeResident(self._engine, self.model)


@asynccontextmanager
async def serving(*others: Entry, capacity: int = 8, **settings) -> AsyncIterator[FakeServer]:
    """A live server around a ``ScriptedEngine`` with the embedded model's tokenizer, and ``others`` beside it."""
    engine = ScriptedEngine()
    entry = LoadedEntry(engine, capacity)
    responses = ResponseStore()
    async with listening(House([entry, *others]), responses, **settings) as url:
        yield FakeServer(url, engine, entry.model, entry.prompts, responses)


@asynccontextmanager
async def listening(house: House, responses: ResponseStore | None = None, **settings) -> AsyncIterator[str]:
    """The address of a live server of ``house``, which it closes in the end."""
    await house.preload()
    server_settings = ServerSettings(**settings)
    listener = claim("127.0.0.1", 0)
    responses = responses or ResponseStore()
    config = server_config(create_app(house, server_settings, responses), server_settings)
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        await house.close()
        listener.close()
        responses.close()


class _no_signals:
    def __enter__(self) -> None: ...
    def __exit__(self, *_) -> None: ...


class SlowEntry(LoadedEntry):
    """One that is loaded when it is asked for, as far as ``share``, and is there, or fails, when ``outcome`` is set."""

    def __init__(self, engine: ScriptedEngine, **options) -> None:
        super().__init__(engine, stay=Stay(), **options)
        self.share = 0.0
        self.loading = 0
        self.outcome: asyncio.Future[None] = asyncio.Future()

    async def _load(self, progress: Progress) -> LoadedModel:
        self.loading += 1
        try:
            while not self.outcome.done():
                progress(self.share)
                await asyncio.sleep(0.005)
            self.outcome.result()
        finally:
            self.loading -= 1
        return await super()._load(progress)


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for ``condition``; fail if it does not come true in time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
