"""One server process for each family: requests of different lengths, together and alone, streamed and whole."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.engine.test_families import FAMILIES
from tests.golden.checkpoints import served_copy
from tests.serving.processes import serve

PROMPTS = [[(7 * n + 11 * i) % 240 + 2 for i in range(n)] for n in (1, 3, 8, 9, 16, 17, 30, 41)]
LENGTHS = [24, 5, 17, 32, 8, 1, 40, 12]
BLOCKS = {"block_length": 8}

# One of each kind: semi-autoregressive, block-causal, shifted, renoising. The engine's own tests have them all.
KINDS = ("llada", "llada2", "dream", "diffusion_gemma")
PARAMS = [pytest.param(name, marks=() if name in KINDS else pytest.mark.slow) for name in FAMILIES]


@pytest.fixture(scope="module", params=PARAMS)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def url(family, golden, tmp_path_factory):
    path = served_copy(golden / FAMILIES[family], tmp_path_factory.mktemp("family"), tokenizer=True)
    with serve(str(path), "--max-context", "256", "--served-model-name", "m") as server:
        yield server.url


@pytest.fixture
async def client(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def whole(client, prompt, max_tokens, model="m", settings=BLOCKS):
    answer = await client.completions.create(
        model=model, prompt=prompt, max_tokens=max_tokens, temperature=0, extra_body={"unmask": settings}
    )
    return answer.choices[0].text, answer.choices[0].finish_reason, answer.usage.completion_tokens


async def streamed(client, prompt, max_tokens, model="m", settings=BLOCKS):
    stream = await client.completions.create(
        model=model, prompt=prompt, max_tokens=max_tokens, temperature=0, extra_body={"unmask": settings},
        stream=True, stream_options={"include_usage": True},
    )  # fmt: skip
    text, finish, tokens = "", None, None
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.text
            finish = choice.finish_reason or finish
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
    return text, finish, tokens


async def test_eight_at_once_equal_their_solo_runs(family, client):
    settings = BLOCKS | ({"steps": 6} if family == "diffusion_gemma" else {})
    jobs = [(client, prompt, length, "m", settings) for prompt, length in zip(PROMPTS, LENGTHS, strict=True)]
    alone = [await whole(*job) for job in jobs]
    assert len(set(alone)) == len(alone)
    for how in (whole, streamed):
        assert await asyncio.gather(*(how(*job) for job in jobs)) == alone


async def test_the_model_says_what_it_is(client):
    (model,) = (await client.models.list()).data
    assert model.unmask["family"]
    assert model.unmask["rules"]
    with pytest.raises(openai.BadRequestError, match="rule"):
        await client.completions.create(model="m", prompt=[5], extra_body={"unmask": {"rule": "no such rule"}})


async def test_adapters_are_models_of_their_own(golden, tmp_path):
    """``base:adapter`` beside the base model, in one batch; a wrong name is told what there is."""
    path = served_copy(golden / "llada" / "ckpt", tmp_path, tokenizer=True)
    lora = f"d2f={golden / 'd2f' / 'llada_adapter'}"
    with serve(str(path), "--lora", lora, "--served-model-name", "m") as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            assert [model.id for model in (await client.models.list()).data] == ["m", "m:d2f"]
            alone = {name: await whole(client, PROMPTS[3], 24, name) for name in ("m", "m:d2f")}
            assert alone["m"] != alone["m:d2f"]
            names = ["m", "m:d2f"] * 4
            together = await asyncio.gather(*(streamed(client, PROMPTS[3], 24, name) for name in names))
            assert together == [alone[name] for name in names]
            with pytest.raises(openai.NotFoundError, match="m:d2f"):
                await whole(client, PROMPTS[0], 4, "m:other")
