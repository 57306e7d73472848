"""What requests of every dialect say to an engine of another kind, and to our own."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest

from tests.gateway.house.asking import DIALECTS, body
from tests.gateway.upstream.fake import Script, chunk, fake, stream, usage
from tests.serving.fakes import serving
from tests.serving.test_lanes import entry_at
from unmask.checkpoints.chat_template import ChatTemplate
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.tokenizer_source import TokenizerSource

PATHS = {
    "chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses",
    "messages": "/v1/messages", "api/chat": "/api/chat", "api/generate": "/api/generate",
}  # fmt: skip
CHAT = PATHS["chat"]
SAMPLING = {"min_p": 0.1, "presence_penalty": 0.5, "frequency_penalty": -0.5, "repetition_penalty": 1.2}
CHAT_CHUNKS = (chunk(content="Once"), chunk("stop"), usage(7, 3))
TEXT_CHUNKS = ({"object": "text_completion", "choices": [{"index": 0, "text": "Once", "finish_reason": "stop"}]},)


@asynccontextmanager
async def house(chunks=CHAT_CHUNKS, **more):
    async with (
        fake(Script([stream(*chunks)])) as far,
        serving(entry_at(far.url, **more)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):
        yield far, server, http


async def ask(http, dialect, name="m", **more):
    said = body(dialect, name, "What is 7 + 8?", 8, stream=False) | more
    async with http.post(PATHS[dialect], json=said) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("dialect", ["chat", "completions", "responses"])
async def test_penalties_of_openai_and_vllm(dialect):
    async with house(TEXT_CHUNKS if dialect == "completions" else CHAT_CHUNKS) as (far, _, http):
        status, told = await ask(http, dialect, **SAMPLING)
        assert status == 200, told
        assert SAMPLING.items() <= far.bodies[0].items()
        assert SAMPLING.items() <= told["unmask"]["applied"].items()
        for name, value in SAMPLING.items():
            status, told = await ask(http, dialect, EMBEDDED_MODEL, **{name: value})
            assert (status, told["error"]["code"], told["error"]["param"]) == (400, "unsupported_value", name)
            assert "Leave it out" in told["error"]["message"]


@pytest.mark.parametrize("dialect", ["api/chat", "api/generate"])
async def test_penalties_of_ollama(dialect):
    options = {**SAMPLING, "repeat_penalty": 1.2, "repeat_last_n": -1}
    del options["repetition_penalty"]
    async with house() as (far, _, http):
        status, told = await ask(http, dialect, options=options)
        assert status == 200, told
        assert SAMPLING.items() <= far.bodies[0].items()
        status, told = await ask(http, dialect, options={"repeat_penalty": 1.2, "repeat_last_n": 64})
        assert (status, told["param"]) == (400, "options.repeat_last_n")
        status, told = await ask(http, dialect, EMBEDDED_MODEL, options={"repeat_penalty": 1.2})
        assert (status, told["code"], told["param"]) == (400, "unsupported_value", "options.repeat_penalty")
        assert (await ask(http, dialect, options={"repeat_last_n": 64}))[0] == 200


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_how_long_a_model_stays_can_be_said_in_every_dialect(dialect):
    async with house(TEXT_CHUNKS if dialect == "completions" else CHAT_CHUNKS) as (_, _, http):
        for said, kept in (("5m", 300), (7, 7), (-1, None)):
            assert (await ask(http, dialect, keep_alive=said))[0] == 200
            async with http.get("/unmask/models") as response:
                (model,) = [one for one in (await response.json())["models"] if one["name"] == "m"]
            assert (model["state"], model["keep"]) == ("ready", kept)
        status, told = await ask(http, dialect, keep_alive="for ever")
        assert (status, "keep_alive" in str(told)) == (400, True)
        assert "keep_alive" in str((await ask(http, dialect, ttl=60))[1])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_of_several_models_each_request_names_its_own(dialect, stream):
    async with house() as (far, server, http):
        said = body(dialect, None, "What is 7 + 8?", 8, stream=stream)
        async with http.post(PATHS[dialect], json=said) as response:
            told = await response.text()
        assert response.status == 400
        assert "'model' is missing, and 2 models are served here. Use 'unmask-tiny', 'm'." in told
        assert (far.bodies, server.engine.submitted) == ([], [])


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("POST", "/tokenize", {"prompt": "hi"}),
        ("GET", "/tokenizer_info", None),
        ("POST", "/api/show", {}),
        ("POST", "/api/chat", {"messages": [], "keep_alive": 0}),
        ("POST", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "hi"}]}),
    ],
)
async def test_so_do_those_that_ask_of_a_model(method, path, said):
    async with house() as (_, _, http), http.request(method, path, json=said) as response:
        assert response.status == 400
        assert "'model' is missing" in await response.text()


async def test_variables_of_the_chat_template_reach_a_lane():
    async with house() as (far, _, http):
        said = {"enable_thinking": False, "style": "short", "depth": 3}
        status, told = await ask(http, "chat", chat_template_kwargs=said)
        assert status == 200, told
        assert far.bodies[0]["chat_template_kwargs"] == said | {"thinking": False}
        assert told["unmask"]["applied"]["chat_template_kwargs"] == {"style": "short", "depth": 3}
        assert told["unmask"]["applied"]["thinking"] is False


REFUSED = [
    ({"nested": {}}, {}, "chat_template_kwargs"),
    ({"long": "x" * 1025}, {}, "chat_template_kwargs"),
    ({f"v{number}": 1 for number in range(17)}, {}, "chat_template_kwargs"),
    ({"large": 2**64}, {}, "chat_template_kwargs"),
    ({"messages": "none"}, {}, "chat_template_kwargs.messages"),
    ({"_tick": 1}, {}, "chat_template_kwargs._tick"),
    ({"raise_exception": 1}, {}, "chat_template_kwargs.raise_exception"),
    ({"enable_thinking": "no"}, {}, "chat_template_kwargs.enable_thinking"),
    ({"enable_thinking": True}, {"reasoning_effort": "none"}, "chat_template_kwargs.enable_thinking"),
    ({"reasoning_effort": "low"}, {"reasoning_effort": "high"}, "chat_template_kwargs.reasoning_effort"),
    ({"reasoning_effort": 3}, {}, "chat_template_kwargs.reasoning_effort"),
]


@pytest.mark.parametrize(("variables", "more", "param"), REFUSED)
@pytest.mark.parametrize("name", ["m", EMBEDDED_MODEL])
async def test_variables_that_are_refused(variables, more, param, name):
    async with house() as (_, _, http):
        status, told = await ask(http, "chat", name, chat_template_kwargs=variables, **more)
        assert (status, told["error"]["param"]) == (400, param)


async def test_our_own_templates_get_what_they_read():
    source = TokenizerSource.from_directory(open_checkpoint(EMBEDDED_MODEL).path)
    text = "{{ style }}|{{ messages[0].content }}|{{ depth + 1 }}"
    async with house() as (_, server, http):
        model = server.model
        model.template = ChatTemplate(replace(source, template_file=text), model.tokenizer)
        messages = [{"role": "user", "content": "hi"}]

        async def rendered(variables):
            said = {"model": EMBEDDED_MODEL, "messages": messages, "chat_template_kwargs": variables}
            async with http.post("/tokenize", json=said) as response:
                told = await response.json()
            if response.status != 200:
                return told["error"]["param"]
            async with http.post("/detokenize", json={"model": EMBEDDED_MODEL, "tokens": told["tokens"]}) as response:
                return (await response.json())["prompt"]

        assert await rendered({"style": "short", "depth": 3}) == "short|hi|4"
        assert await rendered({"style": "short", "depth": 3, "tone": "x"}) == "chat_template_kwargs.tone"
        mask = "<|mdm_mask|>"  # written by a request it is text, also here
        with_mask = model.tokenizer.encode_text(mask)
        assert len(with_mask) > 1
        assert await rendered({"style": mask, "depth": 3}) == f"{mask}|hi|4"
        said = {"model": EMBEDDED_MODEL, "messages": messages, "chat_template_kwargs": {"style": mask, "depth": 3}}
        async with http.post("/tokenize", json=said) as response:
            assert 6 not in (await response.json())["tokens"]
