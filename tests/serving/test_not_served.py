"""Endpoints that other servers have and this one has not: each says so, and why."""

from __future__ import annotations

import anthropic
import openai
import pytest

from unmask.serving.not_served import NOT_SERVED


@pytest.mark.parametrize("path", NOT_SERVED)
async def test_all_of_them_answer_alike(http, path):
    for method, below in (("POST", ""), ("GET", ""), ("DELETE", "/some/thing"), ("POST", "/x")):
        async with http.request(method, path + below) as response:
            assert response.status == 501, (method, path + below)
            assert response.headers["x-should-retry"] == "false"
            told = await response.json()
        error = told if path.startswith("/api/") else told["error"]
        assert (error["code"], error["param"]) == ("not_served", None)
        message = error["error"] if path.startswith("/api/") else error["message"]
        assert message == f"{path} is not served. {NOT_SERVED[path]}"


async def test_what_begins_like_one_of_them_is_another_path(http):
    async with http.get("/v1/filesystem") as response:
        assert response.status == 404


ASKED = [
    lambda client: client.embeddings.create(model="unmask-tiny", input="x"),
    lambda client: client.images.generate(prompt="x"),
    lambda client: client.audio.speech.create(model="unmask-tiny", voice="alloy", input="x"),
    lambda client: client.audio.transcriptions.create(model="unmask-tiny", file=b"x"),
    lambda client: client.files.list(),
    lambda client: client.batches.retrieve("x"),
    lambda client: client.moderations.create(input="x"),
]


@pytest.mark.parametrize("ask", ASKED)
def test_the_official_client_is_told_at_once(server, ask):
    """It asks again after other errors of servers."""
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
        pytest.raises(openai.InternalServerError, match="is not served") as caught,
    ):
        ask(client)
    assert (caught.value.status_code, caught.value.code) == (501, "not_served")
    assert caught.value.request.headers["x-stainless-retry-count"] == "0"


def test_so_is_anthropics(server):
    with (
        anthropic.Anthropic(base_url=server.url, api_key="none") as client,
        pytest.raises(anthropic.InternalServerError, match="let others go first") as caught,
    ):
        client.messages.batches.list()
    assert caught.value.status_code == 501
    assert caught.value.request.headers["x-stainless-retry-count"] == "0"
