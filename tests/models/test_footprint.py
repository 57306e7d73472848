"""What cards tell of models that our own engine does not serve: their size, and what another engine would hold."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.foreign_models import gguf_file, hugging_face, tiny_copy
from tests.gguf_files import convert
from tests.timing import within
from unmask.models.card import inspect_model

# The sizes of SmolLM2-135M: llama.cpp makes a key/value cache of 180 MiB for its 8192 tokens.
SMOL = {
    "llama__context_length": 8192, "llama__embedding_length": 576, "llama__block_count": 30,
    "llama__attention__head_count": 9, "llama__attention__head_count_kv": 3,
}  # fmt: skip


def card_of(tmp_path, build):
    return inspect_model(str(build(tmp_path / "model")))


def decoder(**changes):
    """A GGUF file of a llama whose keys are changed; ``None`` takes one away."""
    keys = {key: value for key, value in (SMOL | changes).items() if value is not None}
    return gguf_file("llama", **keys)


def test_a_gguf_decoder(tmp_path):
    card = card_of(tmp_path, decoder())
    assert (card.served, card.intact, card.paradigm) == (False, True, "autoregressive")
    assert (card.parameters, card.weight_bytes, card.context_length) == (128, 512, 8192)
    assert card.kv_bytes_per_token == 2 * (64 + 64) * 3 * 30
    assert card.memory_bytes == {"F32": 512 + 180 * 2**20}
    assert card.refusal.code == "autoregressive_model"


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({"llama__attention__head_count_kv": None}, 9 * 128 * 30),  # every head has its own
        ({"llama__attention__head_count_kv": [3, 0] * 15}, 3 * 128 * 15),  # layers without attention
        ({"llama__attention__head_count_kv": [3] * 31}, 3 * 128 * 30),
        ({"llama__attention__head_count": [9, 0] * 15}, 3 * 128 * 30),
        ({"llama__attention__key_length": 192, "llama__attention__value_length": 128}, 3 * 320 * 30),
        ({"llama__attention__key_length": 256, "llama__embedding_length": None}, None),
        ({"llama__attention__head_count": 0, "llama__attention__head_count_kv": 0}, 0),  # no attention at all
        ({"llama__attention__head_count": None, "llama__attention__head_count_kv": None}, None),
        ({"llama__attention__head_count_kv": [3] * 7}, 9 * 128 * 30),  # not what it says
        ({"llama__attention__head_count_kv": "three"}, 9 * 128 * 30),
        ({"llama__block_count": None}, None),
        ({"llama__block_count": 10**6}, None),
        ({"llama__block_count": True}, None),
        ({"llama__context_length": None}, 3 * 128 * 30),
    ],
)
def test_the_key_value_cache(tmp_path, changes, numbers):
    card = card_of(tmp_path, decoder(**changes))
    assert card.kv_bytes_per_token == (None if numbers is None else 2 * numbers)
    assert bool(card.memory_bytes) == (numbers is not None and card.context_length is not None)


def test_the_quantization_of_gguf_files(golden, tmp_path):
    for file_type, expected in (("F32", None), ("F16", None), ("BF16", None), ("Q8_0", "Q8_0"), ("Q4_0", "Q4_0")):
        file = convert(golden / "dream" / "ckpt", tmp_path / f"{file_type}.gguf", file_type=file_type)
        card = inspect_model(str(file))
        assert (card.served, card.quantization) == (True, expected)
        assert card.kv_bytes_per_token is None  # our own cache is another


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"n_positions": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 131072}}, 131072),
        ({"max_position_embeddings": 10**12, "text_config": []}, None),
        ({"max_position_embeddings": True, "n_positions": "8"}, None),
        ({}, None),
    ],
)
def test_a_directory_of_a_decoder(tmp_path, config, context):
    card = card_of(tmp_path, hugging_face(architectures=["LlamaForCausalLM"], **config))
    assert (card.architecture, card.context_length, card.weight_bytes) == ("LlamaForCausalLM", context, 32)
    assert (card.intact, card.quantization, card.stored_as) == (True, None, {"F32": 8})


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq"),
        ({"quantization_config": {"quant_method": "gptq"}}, "gptq"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"bits": 4}}, "None"),
        ({"quantization_config": {"quant_method": "a\x1b[2J"}}, "a\\x1b[2J"),
        ({"quantization_config": {"quant_method": ["x"] * 60}}, "['x', 'x'"),
        ({"quantization": {"bits": 4}, "quantization_config": {"bits": 4}}, "mlx"),
    ],
)
@pytest.mark.parametrize("paradigm", ["diffusion", "autoregressive"])
def test_packed_directories(tmp_path, config, method, paradigm):
    if paradigm == "diffusion":
        card = card_of(tmp_path, lambda path: tiny_copy(path, **config))
    else:
        card = card_of(tmp_path, hugging_face(architectures=["Qwen2ForCausalLM"], **config))
    assert (card.paradigm, card.intact, card.served) == (paradigm, True, False)
    assert card.quantization.startswith(method)
    assert card.weight_bytes > 0


def experts(path, count):
    """A directory of so many small tensors in two shards."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"architectures": ["Qwen3MoeForCausalLM"]}))
    for shard in range(2):
        entries = {
            f"model.layers.{n}.mlp.experts.{shard}.up_proj.weight": {
                "dtype": "U8", "shape": [4], "data_offsets": [4 * n, 4 * n + 4],
            }
            for n in range(count // 2)
        }  # fmt: skip
        raw = json.dumps(entries).encode()
        (path / f"model-{shard}.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(4 * len(entries)))
    return path


def test_more_tensors_than_any_diffusion_model_has(tmp_path):
    """Models of other engines may have them: their size is then that of their files."""
    path = experts(tmp_path / "model", 60_000)
    card = inspect_model(str(path))
    assert (card.intact, card.parameters) == (True, None)
    assert card.weight_bytes == sum(file.stat().st_size for file in path.glob("*.safetensors"))
    assert within(0.1, lambda: inspect_model(str(path)))
    (path / "config.json").write_text('{"architectures": ["LLaDAModelLM"]}')
    assert inspect_model(str(path)).refusal.code == "invalid_checkpoint"


def test_a_directory_without_any_tensor(tmp_path):
    path = tiny_copy(tmp_path / "model")
    save_file({}, path / "model.safetensors")
    card = inspect_model(str(path))
    assert (card.parameters, card.weight_bytes, card.refusal.code) == (0, 0, "invalid_checkpoint")


def test_a_decoder_whose_tokenizer_has_a_mask(tmp_path):
    path = hugging_face(architectures=["LlamaForCausalLM"])(tmp_path / "model")
    assert inspect_model(str(path)).suspect is None
    for content, suspect in (
        ({"mask_token": "<|mask|>"}, True),
        ({"mask_token": {"content": "<mask>"}}, True),
        ({"mask_token": None}, False),
        ({"mask_token": 7}, False),  # not for us to judge
    ):
        (path / "tokenizer_config.json").write_text(json.dumps(content))
        card = inspect_model(str(path))
        assert (card.paradigm, card.intact, bool(card.suspect)) == ("autoregressive", True, suspect)


def test_a_model_of_half_precision(tmp_path):
    path = hugging_face(architectures=["LlamaForCausalLM"])(tmp_path / "model")
    save_file({"a": np.zeros((8, 8), np.float16), "b": np.zeros(4, np.float32)}, path / "model.safetensors")
    card = inspect_model(str(path))
    assert (card.parameters, card.weight_bytes, card.stored_as) == (68, 144, {"F16": 64, "F32": 4})
