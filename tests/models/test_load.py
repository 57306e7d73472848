"""Loading a model: in which type and why, with adapters beside the weights, in int8."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from tests.golden.checkpoints import served_copy
from tests.golden.forward import logits_of
from unmask.errors import CheckpointNotFoundError, InvalidValueError
from unmask.models.int8 import int8_unavailable
from unmask.models.load import load_model
from unmask.models.precision import choose_dtype

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("asked", "device", "stored", "dtype", "why"),
    [
        ("auto", CPU, "bfloat16", torch.float32, "cpu"),
        ("auto", CPU, "", torch.float32, "cpu"),
        ("bfloat16", CPU, "float32", torch.bfloat16, "asked"),
        ("float32", CUDA, "bfloat16", torch.float32, "asked"),
        ("float16", CUDA, "bfloat16", torch.float16, "asked"),
        ("auto", CUDA, "bfloat16", torch.bfloat16, "bfloat16"),
        ("auto", CUDA, "float16", torch.bfloat16, "float16"),
        ("auto", CUDA, "float32", torch.float32, "float32"),
        ("auto", CUDA, "", torch.float32, "unknown"),
    ],
)
def test_choice(asked, device, stored, dtype, why):
    chosen, reason = choose_dtype(asked, device, stored)
    assert chosen == dtype
    assert why in reason


@pytest.mark.parametrize("asked", ["float12", "", "torch.float32", "AUTO"])
def test_unknown(asked):
    with pytest.raises(InvalidValueError) as caught:
        choose_dtype(asked, CPU, "")
    assert caught.value.param == "dtype"
    assert "auto" in caught.value.hint


PROMPT = list(range(5, 18))


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_adapters_beside_the_weights(golden, family):
    """Rows of an adapter come out as from the merged model, other rows as from the model without any."""
    path, lora = str(golden / family / "ckpt"), str(golden / "d2f" / f"{family}_adapter")
    model = load_model(path, adapters={"first": lora, "second": lora}, device="cpu")
    assert list(model.adapters) == ["first", "second"]
    assert model.spec.attention == "full"
    assert model.adapters["second"].attention == "block_causal"
    merged, bare = load_model(path, adapter=lora, device="cpu"), load_model(path, device="cpu")
    both = logits_of(model, PROMPT, PROMPT, adapters={1: 1})
    expected = torch.cat([logits_of(bare, PROMPT), logits_of(merged, PROMPT)])
    torch.testing.assert_close(both, expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(*expected.chunk(2), atol=1e-2)
    assert model.parameters == bare.parameters


def test_an_adapter_that_is_not_there(golden):
    with pytest.raises(CheckpointNotFoundError):
        load_model(str(golden / "llada" / "ckpt"), adapters={"a": "/nowhere"}, device="cpu")


@pytest.mark.skipif(int8_unavailable(CPU) is not None, reason="no int8 products on this CPU")
@pytest.mark.parametrize("family", ["llada", "llada_moe", "llada2", "sdar"])
def test_int8(golden, tmp_path, family):
    path = str(served_copy(golden / family / "ckpt", tmp_path))
    exact, rounded = load_model(path, device="cpu"), load_model(path, quantize="int8", device="cpu")
    assert rounded.parameters == exact.parameters
    expected, found = logits_of(exact, PROMPT), logits_of(rounded, PROMPT)
    assert not torch.equal(found, expected)
    assert torch.nn.functional.cosine_similarity(found, expected, dim=-1).median() > 0.98


def test_unknown_quantize(golden):
    with pytest.raises(InvalidValueError) as caught:
        load_model(str(golden / "llada" / "ckpt"), quantize="int3", device="cpu")
    assert caught.value.param == "quantize"


def test_a_tied_head(golden, tmp_path):
    """The head is the embedding; a copy of it in the file is passed over."""
    path = served_copy(golden / "sdar" / "ckpt", tmp_path, tie_word_embeddings=True)
    model = load_model(str(path), device="cpu")
    assert model.output_head.weight is model.embedding
    assert all(linear is not model.output_head for linear in model.linears())
    untied = load_model(str(golden / "sdar" / "ckpt"), device="cpu")
    assert untied.parameters - model.parameters == model.embedding.numel()


@pytest.mark.parametrize("family", ["llada", "llada_moe", "llada2", "dream", "sdar", "fast_dllm_v2"])
def test_parameters_are_all_that_the_file_holds(golden, tmp_path, family):
    tensors = load_file(golden / family / "ckpt" / "model.safetensors")
    model = load_model(str(served_copy(golden / family / "ckpt", tmp_path)), device="cpu")
    assert model.parameters == sum(tensor.numel() for tensor in tensors.values())
