"""Adapters merged into the weights, kept beside them, and several of them in one batch with the bare model."""

from __future__ import annotations

import shutil

import pytest
from safetensors.torch import load_file, save_file

from tests.engines import drain, make_loop
from unmask.engine import wire
from unmask.errors import InvalidCheckpointError, InvalidValueError
from unmask.params import GenerationParams
from unmask.resolve import resolve

PROMPTS = [[(3 * n + 5 * i) % 240 + 1 for i in range(n)] for n in (2, 7, 11, 20)]
SETTINGS = [
    {"max_tokens": 32, "block_length": 8},
    {"max_tokens": 20, "block_length": 4, "temperature": 0.7, "seed": 5},
    {"max_tokens": 24, "block_length": 8, "rule": "low_confidence", "steps": 4},
    {"max_tokens": 16, "cfg_scale": 0.5},
]


@pytest.fixture(scope="module", params=["llada", "dream"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def adapters(golden, family, tmp_path_factory):
    """The golden adapter, and one whose updates are half as large and reversed."""
    golden_adapter = golden / "d2f" / f"{family}_adapter"
    other = tmp_path_factory.mktemp("adapter") / "other"
    shutil.copytree(golden_adapter, other)
    tensors = load_file(golden_adapter / "adapter_model.safetensors")
    save_file(
        {name: -0.5 * tensor if "lora_B" in name else tensor for name, tensor in tensors.items()},
        other / "adapter_model.safetensors",
    )
    return {"d2f": str(golden_adapter), "other": str(other)}


@pytest.fixture(scope="module")
def mixed(golden, family, adapters):
    return make_loop(golden / family / "ckpt", adapters=adapters)


@pytest.fixture(scope="module")
def merged(golden, family, adapters):
    """One engine for each adapter, merged, and one for the bare model."""
    checkpoint = golden / family / "ckpt"
    return {"": make_loop(checkpoint)} | {name: make_loop(checkpoint, adapter=path) for name, path in adapters.items()}


def _submit(loop, request, adapter, prompt, settings):
    params = resolve(GenerationParams(**settings), loop.models[adapter], len(prompt))
    loop.send(wire.Submit(request, prompt, params))


def test_a_mixed_batch_gives_each_request_its_own_model(mixed, merged):
    """Bit for bit the tokens of an engine that has nothing but this adapter, in its weights."""
    jobs = [(adapter, number, settings) for number, settings in enumerate(SETTINGS) for adapter in mixed.models]
    for adapter, number, settings in jobs:
        _submit(mixed, f"{adapter}/{number}", adapter, PROMPTS[number], settings)
    results = drain(mixed)
    texts = set()
    for adapter, number, settings in jobs:
        _submit(merged[adapter], "only", "", PROMPTS[number], settings)
        expected = drain(merged[adapter])["only"]
        result = results[f"{adapter}/{number}"]
        assert result.error is None
        assert result.ids == expected.ids
        assert result.finish == expected.finish
        texts.add(tuple(result.ids))
    assert len(texts) == len(jobs), "the adapters must make a difference for this test to mean anything"


def test_what_an_adapter_makes_of_the_model(mixed, family):
    """The base attends to all, the adapted models block by block; each says so itself."""
    base, d2f, other = mixed.models.values()
    assert (base.attention, d2f.attention, other.attention) == ("full", "block_causal", "block_causal")
    assert (base.name, d2f.name) == ("ckpt", "ckpt:d2f")
    assert "d2f" in d2f.rules
    assert "d2f" not in base.rules


def test_an_adapter_of_another_model_is_refused(golden, family):
    wrong = {"llada": "dream", "dream": "llada"}[family]
    with pytest.raises(InvalidCheckpointError, match="no place for"):
        make_loop(golden / family / "ckpt", adapters={"wrong": str(golden / "d2f" / f"{wrong}_adapter")})


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a/b", "x" * 65])
def test_names_of_adapters_are_plain(golden, name):
    with pytest.raises(InvalidValueError) as caught:
        make_loop(golden / "llada" / "ckpt", adapters={name: "somewhere"})
    assert caught.value.param == "adapters"
