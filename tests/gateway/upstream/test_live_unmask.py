"""Another Unmask server as the lane: it streams snapshots as Mercury does, and tells a whole answer to compare with."""

from __future__ import annotations

from collections.abc import Iterator

import aiohttp
import pytest

from tests.gateway.upstream.fake import HI, answers, chat, opened
from tests.serving.processes import serve
from unmask.answers.chat import Continuation
from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import InvalidValueError, LaneKeyError, ModelNotFoundError
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.params import GenerationParams


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve("unmask-tiny", "--api-key", "sk-1") as running:
        yield f"{running.url}/v1"


def at(url: str, **more) -> Endpoint:
    options = {"lane": "my-lane", "kind": "remote", "model": "unmask-tiny", "key": "sk-1"} | more
    return Endpoint(base_url=url, **options)


async def ask(where: Endpoint, question):
    async with opened(where) as upstream:
        return (await answers(upstream.chat(question)))[0]


async def whole(url: str, **body) -> dict:
    body = {"model": "unmask-tiny", "messages": HI, "max_tokens": 32, **body}
    key = {"Authorization": "Bearer sk-1"}
    async with (
        aiohttp.ClientSession(headers=key) as session,
        session.post(url + "/chat/completions", json=body) as told,
    ):
        return await told.json()


@pytest.mark.parametrize("snapshots", [False, True])
async def test_the_same_answer_by_every_way(server, snapshots):
    own = await whole(server)
    found = await ask(at(server, snapshots=snapshots), chat(max_tokens=32, temperature=0, frames=snapshots))
    assert found.content == own["choices"][0]["message"]["content"]
    assert found.finish == own["choices"][0]["finish_reason"]
    assert found.completion.prompt_tokens == own["usage"]["prompt_tokens"]
    assert found.completion.completion_tokens == own["usage"]["completion_tokens"]
    assert not found.completion.estimated


async def test_snapshots_become_frames_that_are_never_the_answer(server):
    async with opened(at(server, snapshots=True)) as upstream:
        story = [{"role": "user", "content": "Tell me a story."}]  # whose answer has two blocks
        with upstream.chat(chat(story, max_tokens=64, temperature=0, frames=True)) as request:
            guesses, answer, parts = [], None, []
            while answer is None:
                _, delta = await request.next()
                answer = delta.answer
                parts += delta.parts
                if delta.frame is not None:
                    assert request.cells.decode(delta.frame.tokens) == [None]
                    guesses += request.cells.decode(delta.frame.guesses)
    assert len({*guesses}) > 1
    assert guesses[-1] == answer.content
    assert "".join(part.text for part in parts) == answer.content


async def test_a_demanded_call(server):
    tools = [Tool("f", "", {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})]
    for snapshots in (False, True):
        question = chat(max_tokens=64, tools=tools, choice=ToolChoice("required"), frames=snapshots)
        found = await ask(at(server, snapshots=snapshots), question)
        assert ([call.name for call in found.tool_calls], found.finish) == (["f"], "tool_calls")


async def test_texts_and_log_probabilities(server):
    async with opened(at(server)) as upstream:
        asked = Continuation(texts=["hi", "there"], params=GenerationParams(max_tokens=4, logprobs=2, temperature=0))
        request = upstream.complete(asked)
        for found in await answers(request):
            told = "".join(request.cells.spell(one.token_id)[0] for one in found.logprobs)
            assert told.startswith(found.content)


async def test_errors_keep_their_sense(server):
    with pytest.raises(LaneKeyError):
        await ask(at(server, key="sk-2"), chat())
    with pytest.raises(ModelNotFoundError):
        await ask(at(server, model="another"), chat())
    with pytest.raises(InvalidValueError) as caught:
        await ask(at(server), chat([{"role": "robot", "content": "hi"}]))
    assert caught.value.param == "messages[0].role"
