"""The canary of models as requests see them."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
import structlog

from tests.serving.fakes import serving
from tests.serving.parts import TOKENIZER
from tests.serving.processes import serve
from unmask.errors import UnsupportedValueError
from unmask.gateway.canary.verdict import CanaryVerdict
from unmask.serving.native_model import NativeModel
from unmask.serving.observers.canary import canary_of


async def test_our_own_model_is_ok_and_says_so():
    with serve("--canary") as server:
        async with aiohttp.ClientSession(server.url) as http, asyncio.timeout(30):
            while (told := await canary_told(http)) is None:
                await asyncio.sleep(0.02)
    assert told == {"status": "ok", "reasons": [], "sample": ""}


async def canary_told(http):
    async with http.get("/v1/models") as response:
        (model,) = (await response.json())["data"]
        return model["unmask"].get("canary")


async def verdict(fake, *, logprobs: bool = True) -> CanaryVerdict | None:
    class Lane(NativeModel):
        async def admit_chat(self, chat, tenant):
            if chat.params.logprobs is not None and not logprobs:
                raise UnsupportedValueError("There are no log-probabilities.", param="logprobs")
            return await super().admit_chat(chat, tenant)

    return await canary_of(Lane(fake.model, fake.model.name, fake.engine.models[""]))


@pytest.mark.parametrize("logprobs", [True, False])
async def test_a_model_that_loops_is_suspect(logprobs):
    async with serving() as fake:
        fake.engine.answer(TOKENIZER.encode_text("no " * 12))
        with structlog.testing.capture_logs() as log:
            found = await verdict(fake, logprobs=logprobs)
    assert found == CanaryVerdict("suspect", ("repetition in 4 of 4 answers", "same in 4 of 4 answers"), "no " * 12)
    assert log[0]["status"] == "suspect"
    asked = [command.params.logprobs for command in fake.engine.submitted]
    assert asked == [0 if logprobs else None] * 4


async def test_a_model_that_says_nothing_has_failed():
    async with serving() as fake:
        fake.engine.answer([])
        found = await verdict(fake)
    assert (found.status, found.reasons) == ("failed", ("empty in 4 of 4 answers",))
