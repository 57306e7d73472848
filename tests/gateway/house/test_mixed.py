"""One port, five models of three lanes, memory for some of them: everybody is answered, and by the right one."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from itertools import product
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.house.asking import CHATS, DIALECTS, ask
from tests.gateway.house.family import family, running
from tests.gateway.house.files import five, write_config
from tests.serving.processes import Server, serve
from unmask.engine.options import EngineOptions
from unmask.gateway.config.reading import read_config
from unmask.serving.opening import HousePlan
from unmask.serving.settings import ServerSettings

MODELS = ("smol", "tiny", "llada", "dream", "far")
PROMPTS = ("What is 7 + 8?", "Name a city: ")
AT_ONCE = 16


def sizes(config: Path) -> dict[str, int]:
    """What each model takes as the server counts it; nothing is loaded for it."""
    engine = EngineOptions(model="", threads=1, device="cpu")
    plan = HousePlan(models=[], engine=engine, settings=ServerSettings(), config=read_config(config))
    return {entry.name: entry.size_bytes for entry in plan.open().entries}


@pytest.fixture(scope="module")
def roomy(files, far, llama, tmp_path_factory) -> Path:
    """A configuration without a limit."""
    return write_config(tmp_path_factory.mktemp("roomy") / "models.yaml", five(files, far, **llama))


@pytest.fixture
def narrow(files, far, llama, roomy, tmp_path) -> Path:
    """One with memory for llama.cpp's model and one of ours besides, or for two of ours and not all three."""
    takes = sizes(roomy)
    budget = takes["smol"] + max(takes[name] for name in ("tiny", "llada", "dream"))
    return write_config(
        tmp_path / "models.yaml", five(files, far, **llama), memory_budget=min(budget, sum(takes.values()) - 1)
    )


async def apart(session: aiohttp.ClientSession, server: Server, prompts) -> dict[tuple[str, str, str], str]:
    """What each model says to each of ``prompts`` with no neighbour: by model, prompt, and how the prompt is put."""
    said = {}
    for model, prompt in product(MODELS, prompts):
        for put, dialect in (("chat", "chat"), ("text", "completions")):
            told = await ask(session, server.url, dialect, model, prompt)
            assert (told.status, told.complete) == (200, True), told
            said[model, prompt, put] = told.text
    return said


async def crowd(session, server, said, jobs) -> None:
    """All ``jobs``, so many at once; each gets the text that its model says alone."""
    queue = list(jobs)
    wrong = []

    async def work() -> None:
        while queue:
            model, dialect, stream, prompt = job = queue.pop()
            told = await ask(session, server.url, dialect, model, prompt, stream=stream)
            wanted = said[model, prompt, "chat" if dialect in CHATS else "text"]
            if (told.status, told.text, told.complete) != (200, wanted, True):
                wrong.append((job, told, wanted))

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    assert wrong == []


def loads(server: Server) -> Counter[str]:
    """How often each model was loaded."""
    return Counter(found[1] for line in server.log if (found := re.search(r'event="model loaded".* model=(\S+)', line)))


async def mixed(session, config: Path, jobs) -> Counter[str]:
    """Serve ``jobs``; how often each model was loaded for them. Nothing is left of the server afterwards."""
    with serve("--config", str(config)) as server:
        said = await apart(session, server, {prompt for *_, prompt in jobs})
        assert len({said[model, PROMPTS[0], "chat"] for model in MODELS}) == len(MODELS), "they cannot be told apart"
        before = loads(server)
        await crowd(session, server, said, jobs)
        processes = family(server)
        assert server.stop() == 0
        assert running(processes) == []
    return loads(server) - before


async def test_five_models_in_six_dialects_on_one_port(narrow, session):
    """Each model in each dialect; every other answer is a stream, so that each of them has both kinds."""
    asked = product(enumerate(MODELS), enumerate(DIALECTS))
    jobs = [(model, dialect, (m + d) % 2 == 0, PROMPTS[0]) for (m, model), (d, dialect) in asked]
    random.Random(1).shuffle(jobs)
    counted = await mixed(session, narrow, jobs)
    print(counted)
    assert sum(counted.values()) <= 12


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_five_hundred_mixed_requests(narrow, session):
    chance = random.Random(2)
    jobs = [
        (chance.choice(MODELS), chance.choice(DIALECTS), chance.random() < 0.5, chance.choice(PROMPTS))
        for _ in range(500)
    ]
    counted = await mixed(session, narrow, jobs)
    print(counted)
    assert sum(counted.values()) <= 50
