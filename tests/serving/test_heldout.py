"""The main job on real input: held-out questions over the official client, sixteen at a time."""

from __future__ import annotations

import asyncio
import json
from itertools import cycle, islice, zip_longest
from pathlib import Path

import openai
import pytest

HELDOUT = Path(__file__).parents[2] / "recipes" / "tiny" / "heldout.jsonl"
QUESTIONS = 200


def questions() -> list[dict]:
    """The first ``QUESTIONS`` of the held-out file, task kinds in turn."""
    entries = [json.loads(line) for line in HELDOUT.read_text().splitlines()]
    kinds = {entry["kind"]: [] for entry in entries}
    for entry in entries:
        kinds[entry["kind"]].append(entry)
    in_turn = [entry for row in zip_longest(*kinds.values()) for entry in row if entry is not None]
    return in_turn[:QUESTIONS]


@pytest.fixture
async def client(server):
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def whole(client, messages):
    answer = await client.chat.completions.create(model="unmask-tiny", messages=messages, temperature=0)
    return answer.choices[0].message.content, answer.choices[0].finish_reason, billed(answer.usage)


async def streamed(client, messages):
    stream = await client.chat.completions.create(
        model="unmask-tiny", messages=messages, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    text, finish, usage = "", None, None
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    return text, finish, billed(usage)


def billed(usage):
    """All but what was found in the prefix cache, which depends on who came before."""
    return usage.model_dump(exclude={"prompt_tokens_details"})


async def test_heldout_questions_are_answered_streaming_or_not(client):
    entries = questions()
    assert len(entries) == QUESTIONS
    places = asyncio.Semaphore(16)

    async def ask(entry, how):
        async with places:
            return await how(client, entry["messages"])

    # Streamed and whole requests mix, and each question is asked both ways.
    jobs = [
        ask(entry, how)
        for entry, how in zip([*entries, *entries], [whole] * len(entries) + [streamed] * len(entries), strict=True)
    ]
    answers = await asyncio.gather(*jobs)
    at_once, in_pieces = answers[: len(entries)], answers[len(entries) :]
    assert at_once == in_pieces
    right = sum(text == entry["answer"] for entry, (text, _, _) in zip(entries, at_once, strict=True))
    assert right >= 0.85 * len(entries), f"{right} of {len(entries)} right"


async def test_a_long_queue_is_worked_off(client):
    """More requests than places in a step: all are answered."""
    entries = list(islice(cycle(questions()[:20]), 60))
    answers = await asyncio.gather(*(whole(client, entry["messages"]) for entry in entries))
    assert len({text for text, _, _ in answers}) <= 20
    assert answers[:20] == answers[20:40] == answers[40:60]
