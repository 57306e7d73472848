"""GGUF files served natively: golden files give the golden logits, converted ones what their safetensors give."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_tensors

from tests.conftest import GOLDEN
from tests.engine.test_families import FAMILIES
from tests.engines import drain, generate, make_loop, submit
from tests.gguf_files import convert, places
from tests.golden.checkpoints import served_copy
from tests.golden.forward import logits_of
from unmask.checkpoints.gguf_header import read_gguf_header
from unmask.models.load import load_model

FILES = sorted(path.name for path in (GOLDEN / "gguf").glob("*.gguf"))
# The other families have no GGUF architecture.
CONVERTIBLE = [name for name in FAMILIES if name not in ("sdar", "fast_dllm_v2")]
PROMPTS = [[(7 * n + 11 * i) % 240 + 3 for i in range(n)] for n in (1, 5, 8, 13, 30)]


@pytest.mark.parametrize("name", FILES)
def test_golden_logits(golden, name):
    """What the reference computes with the file's dequantised weights."""
    stem = name.removesuffix(".gguf")
    tensors = load_tensors(golden / "gguf" / "logits.safetensors")
    model = load_model(str(golden / "gguf" / name), device="cpu")
    logits = logits_of(model, tensors[f"{stem}.ids"].tolist())
    torch.testing.assert_close(logits, tensors[f"{stem}.logits"], atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module", params=CONVERTIBLE)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def checkpoint(golden, family, tmp_path_factory):
    end_id = 1 if family == "diffusion_gemma" else 250
    return served_copy(golden / FAMILIES[family], tmp_path_factory.mktemp(family), end_id=end_id)


def _answers(loop):
    for number, prompt in enumerate(PROMPTS):
        submit(loop, str(number), prompt, max_tokens=24, temperature=0.0, block_length=8)
    return {name: (result.ids, result.finish) for name, result in drain(loop).items()}


@pytest.mark.parametrize("file_type", ["F32", "F16", "Q8_0"])
def test_a_converted_file_gives_the_same_tokens(checkpoint, file_type, tmp_path):
    """Where the file stores fewer bits, against safetensors that were rounded to them: same weights, same tokens."""
    target = convert(checkpoint, tmp_path / "model.gguf", file_type=file_type)
    reference, loop = make_loop(_rounded(checkpoint, target, tmp_path)), make_loop(target)
    assert _answers(loop) == _answers(reference)
    ours, theirs = loop.model, reference.model
    assert (ours.mask_id, ours.end_ids, ours.context_length) == (theirs.mask_id, theirs.end_ids, theirs.context_length)
    assert (ours.family, ours.rules, ours.parameters) == (theirs.family, theirs.rules, theirs.parameters)


def _rounded(checkpoint, target, folder):
    """A copy of ``checkpoint`` whose tensors are rounded as ``target`` stores them."""
    config = json.loads((checkpoint / "config.json").read_text())
    tensors = load_file(checkpoint / "model.safetensors")
    stored = read_gguf_header(target).tensors
    for name, place in places(config, tensors).items():
        kind = gguf.GGMLQuantizationType[stored[place.tensor].type_name]
        tensors[name] = gguf.quants.dequantize(gguf.quants.quantize(tensors[name], kind), kind)
    copied = folder / "rounded"
    copied.mkdir()
    for file in checkpoint.iterdir():
        if file.suffix != ".safetensors":
            (copied / file.name).write_bytes(file.read_bytes())
    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, copied / "model.safetensors")
    return copied


def test_q8_logits(checkpoint, family, tmp_path):
    """The exact answer of the file's own weights, and on the whole near that of the weights before rounding.

    These models have random weights, which a rounding of 0.4 % moves more than it moves trained ones: the reference's
    own logits for the golden Q8_0 files are 2.6 % to 3.8 % off those for the F32 ones, in norm.
    """
    if family == "diffusion_gemma":
        pytest.skip("its logits depend on more than a row of tokens; its answers are compared above")
    target = convert(checkpoint, tmp_path / "model.gguf", file_type="Q8_0")
    ids = [(7 * i) % 240 for i in range(24)] + [255] * 8
    packed, rounded, exact = (
        logits_of(load_model(str(path), device="cpu"), ids)
        for path in (target, _rounded(checkpoint, target, tmp_path), checkpoint)
    )
    torch.testing.assert_close(packed, rounded, atol=1e-4, rtol=1e-4)
    error = (packed - exact).abs()
    print(f"{family}: {error.norm() / exact.norm():.4f} in norm, {error.mean() / exact.abs().max():.4f} of the largest")
    assert 0 < error.mean() / exact.abs().max() < 2e-2


@pytest.mark.parametrize("file_type", ["Q8_0", "BF16", "Q4_0"])
def test_quantised_files_answer(checkpoint, file_type, tmp_path):
    loop = make_loop(convert(checkpoint, tmp_path / "model.gguf", file_type=file_type))
    result = generate(loop, PROMPTS[2], max_tokens=24, temperature=0.0, ignore_eos=True)
    assert result.error is None
    assert len(result.ids) == 24


@pytest.mark.slow
def test_a_split_file_is_one_model(checkpoint, tmp_path):
    first = convert(checkpoint, tmp_path / "model.gguf", tensors_per_shard=7)
    assert first.name.startswith("model-00001-of-")
    assert _answers(make_loop(first)) == _answers(make_loop(checkpoint))


def test_an_adapter_merges_into_a_gguf_model(golden):
    """Adapters name Hugging Face tensors; the file's are found under those names, permuted rows and all."""
    adapter = str(golden / "d2f" / "llada_adapter")
    from_gguf = make_loop(golden / "gguf" / "llada-f32.gguf", adapter=adapter)
    from_safetensors = make_loop(golden / "llada" / "ckpt", adapter=adapter)
    apart = make_loop(golden / "gguf" / "llada-f32.gguf", adapters={"d2f": adapter})
    assert _answers(from_gguf) == _answers(from_safetensors)
    assert apart.models["d2f"].attention == "block_causal"
