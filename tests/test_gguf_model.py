"""The embedded model as a GGUF file: weights, tokenizer and chat template all come out of the one file."""

from __future__ import annotations

import json
from pathlib import Path

import openai
import pytest

from tests.gguf_files import convert, vocabulary_of
from tests.serving.processes import serve
from unmask import LLM, GenerationParams
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint

HELDOUT = Path(__file__).parents[1] / "recipes" / "tiny" / "heldout.jsonl"
# What its config says and a GGUF file has no key for.
OPTIONS = {"attention": "block_causal"}
PARAMS = GenerationParams(temperature=0.0, block_length=16)


@pytest.fixture(scope="module")
def conversations():
    return [json.loads(line)["messages"] for line in HELDOUT.read_text().splitlines()]


@pytest.fixture(scope="module", params=["F32", "Q8_0"])
def file(request, tmp_path_factory):
    path = open_checkpoint(EMBEDDED_MODEL).path
    target = tmp_path_factory.mktemp("gguf") / f"tiny-{request.param}.gguf"
    return convert(path, target, file_type=request.param, vocabulary=vocabulary_of(path, pre="gpt-2"))


def test_prompts_are_encoded_alike(file, conversations):
    ours, theirs = LLM(str(file), **OPTIONS), LLM()
    assert (ours.model.mask_id, ours.model.end_ids) == (theirs.model.mask_id, theirs.model.end_ids)
    for messages in conversations:
        assert ours.prompts.encode(messages) == theirs.prompts.encode(messages)


@pytest.fixture(scope="module")
def wanted(conversations):
    return LLM().generate(conversations[:90], PARAMS)


def test_answers(file, conversations, wanted):
    """The same texts in F32; eight bits a weight change few of them."""
    ours = LLM(str(file), **OPTIONS).generate(conversations[:90], PARAMS)
    same = sum(a.text == b.text for a, b in zip(ours, wanted, strict=True))
    assert same == 90 if "F32" in file.name else same >= 81


@pytest.mark.parametrize("file", ["F32", pytest.param("Q8_0", marks=pytest.mark.slow)], indirect=True)
def test_it_is_served(file):
    with (
        serve(str(file), "--attention", "block_causal") as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        question = [{"role": "user", "content": "What is 7 + 8?"}]
        answer = client.chat.completions.create(
            model=file.stem, messages=question, temperature=0, extra_body={"unmask": {"block_length": 16}}
        )
        assert "15" in answer.choices[0].message.content
