"""However the engine's output is cut, each client puts the same answer together: thoughts, text, calls and counts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.conformance.cases import ADD, ADDED, CALL_ADD, CALL_LOOK_UP, LOOK_UP, LOOKED_UP, ask
from tests.conformance.client import CLIENTS, Job
from tests.conformance.dialects import COMPLETIONS
from tests.conformance.dialects.base import calls_of
from tests.conformance.http import post
from tests.serving.fakes import FakeServer, serving
from unmask.answers.syntax import THINK
from unmask.engine import wire
from unmask.events import CanvasEvent, RequestStats

THOUGHT = "Zwölf 😀 — <tool_call> is a word."
WRITTEN = f"<think>\n{THOUGHT}\n</think>\n\nNaïve дом\n\n: <think> is one too.\n{CALL_LOOK_UP}\n{CALL_ADD}"
CASE = ask("tricky", "What is 7 + 8?", tools=(ADD, LOOK_UP))

CELLS = [
    (client, dialect, mode)
    for client in CLIENTS
    for dialect, mode in client.pairs
    if dialect.put(CASE) is not None and dialect != COMPLETIONS
]


def script(fake: FakeServer, size: int) -> None:
    """From now on every answer is ``WRITTEN``, ``size`` tokens an event."""
    ids = fake.prompts.tokenizer.encode_text(WRITTEN, add_begin=False)
    groups = [ids[start : start + size] for start in range(0, len(ids), size)]

    def answer(command: wire.Submit) -> None:
        done = 0
        for number, group in enumerate(groups, 1):
            done += len(group)
            last = number == len(groups)
            stats = RequestStats(forwards=number, blocks=1, committed=done + last)
            end = {"finish": "stop", "ended_by_token": True} if last else {}
            fake.engine.say(CanvasEvent(command.request_id, group, stats, **end))

    fake.engine.on_submit = answer


@pytest.mark.parametrize(("client", "dialect", "mode"), CELLS, ids=lambda value: str(value))
async def test_the_answer_does_not_depend_on_its_pieces(client, dialect, mode, driver):
    async with serving() as fake:
        fake.model.syntax = replace(fake.model.syntax, reasoning=THINK)
        for size in (1, 3, 10_000):
            script(fake, size)
            plain = await asyncio.to_thread(post, fake.url, dialect.path, dialect.body(CASE))
            whole = dialect.read(plain.json())
            assert (whole.reasoning, whole.calls) == (THOUGHT, (LOOKED_UP, ADDED))
            assert whole.text == "Naïve дом\n\n: <think> is one too."
            seen = await asyncio.to_thread(driver(client).ask, Job(fake.url, dialect, mode, dialect.body(CASE)))
            assert seen["error"] is None
            if mode != "whole":
                assert "".join(seen["deltas"]) == whole.text
                assert "".join(seen["thoughts"]) == whole.reasoning
            assert seen["text"] in (None, whole.text)
            assert calls_of([(call["name"], call["arguments"]) for call in seen["calls"]]) == whole.calls
            assert seen["finish"] == whole.finish == dialect.word("tool_calls", CASE)
            assert tuple(seen["usage"]) == whole.usage
