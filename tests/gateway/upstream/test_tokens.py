"""What servers of vLLM's and SGLang's kinds tell of tokens, and what becomes of servers that do not."""

from __future__ import annotations

import json

import pytest

from tests.gateway.upstream.fake import HI, Script, chat, endpoint, fake, opened
from unmask.errors import InvalidValueError, UpstreamError


def told(payload, status=200) -> Script:
    return Script([json.dumps(payload).encode()], status=status, content_type="application/json")


async def ask(script, what, kind="vllm", **more):
    async with fake(script) as server, opened(endpoint(server.url, kind, **more)) as upstream:
        found = await what(upstream.tokenizer())
        return found, list(zip(server.paths, server.bodies, strict=True))


async def test_a_text():
    answer = told({"count": 2, "max_model_len": 9, "tokens": [5, 6], "token_strs": ["a", "b"]})
    found, asked = await ask(answer, lambda one: one.of_text("ab", special=False, pieces=True), context_length=9)
    assert (found.ids, found.pieces, found.context) == ([5, 6], ["a", "b"], 9)
    said = {"model": "their-name", "prompt": "ab", "add_special_tokens": False, "return_token_strs": True}
    assert asked == [("/tokenize", said)]


async def test_a_text_for_sglang_which_spells_no_tokens():
    found, asked = await ask(told({"count": 2, "tokens": [5, 6]}), lambda one: one.of_text("ab", pieces=True), "sglang")
    assert (found.ids, found.pieces) == ([5, 6], None)
    assert asked == [("/tokenize", {"model": "their-name", "prompt": "ab", "add_special_tokens": True})]


async def test_a_conversation_as_it_would_be_answered():
    question = chat(prefill="So", temperature=0)
    found, asked = await ask(told({"tokens": [1, 2, 3]}), lambda one: one.of_chat(question))
    assert found.ids == [1, 2, 3]
    messages = [*HI, {"role": "assistant", "content": "So"}]
    own = {"continue_final_message": True, "add_generation_prompt": False}
    assert asked == [("/tokenize", {"model": "their-name", "messages": messages, **own})]


@pytest.mark.parametrize(
    ("kind", "answer", "more"),
    [("vllm", {"prompt": "ab"}, {}), ("sglang", {"text": "ab"}, {"skip_special_tokens": False})],
)
async def test_back_to_text(kind, answer, more):
    found, asked = await ask(told(answer), lambda one: one.text([5, 6]), kind)
    assert found == "ab"
    assert asked == [("/detokenize", {"model": "their-name", "tokens": [5, 6], **more})]


async def test_what_is_no_token_is_not_sent():
    with pytest.raises(InvalidValueError, match="-1 is outside"):
        await ask(told({}), lambda one: one.text([5, -1]))


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang", "remote"])
@pytest.mark.parametrize(
    "what",
    [
        lambda one: one.of_text("a"),
        lambda one: one.of_chat(chat()),
        lambda one: one.text([1]),
        lambda one: one.info(),
    ],
    ids=["text", "chat", "back", "info"],
)
async def test_a_server_that_cannot_tell(kind, what):
    found, _ = await ask(told({"error": {"message": "File Not Found"}}, 404), what, kind)
    assert found is None


@pytest.mark.parametrize("payload", [{}, {"tokens": 3}, {"tokens": None}])
async def test_an_answer_that_is_none(payload):
    assert (await ask(told(payload), lambda one: one.of_text("a")))[0] is None


async def test_what_is_no_json():
    page = Script([b"<html>"], content_type="text/html")
    with pytest.raises(UpstreamError, match="my-lane"):
        await ask(page, lambda one: one.of_text("a"))
