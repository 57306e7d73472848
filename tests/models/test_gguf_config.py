"""What a GGUF file's metadata say of the forward pass reaches the family, which refuses what it cannot do."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from unmask.checkpoints.directory import open_checkpoint
from unmask.errors import InvalidCheckpointError
from unmask.models.registry import describe

COMMON = {
    "block_count": 2, "embedding_length": 32, "feed_forward_length": 64, "context_length": 128,
    "attention.head_count": 4, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 16,
    "expert_group_count": 1, "expert_group_used_count": 1,
}  # fmt: skip
GEMMA = {
    "attention.sliding_window_pattern": [True, False], "attention.head_count_kv": [2, 2], "attention.key_length": 8,
    "attention.key_length_swa": 8, "attention.sliding_window": 16,
}  # fmt: skip


@pytest.fixture
def spec_of(tmp_path):
    """The spec of a GGUF file of ``architecture`` with these keys of it beside the usual ones."""

    def described(architecture, **keys):
        file = tmp_path / "model.gguf"
        writer = gguf.GGUFWriter(file, architecture)
        keys = {name.replace("__", "."): value for name, value in keys.items()}
        values = COMMON | (GEMMA if architecture == "diffusion-gemma" else {}) | keys
        for name, value in values.items():
            add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
            add.get(type(value), writer.add_array)(f"{architecture}.{name}", value)
        writer.add_uint32("tokenizer.ggml.mask_token_id", 3)
        writer.add_uint32("diffusion.canvas_length", 16)
        writer.add_tensor("token_embd.weight", np.zeros((256, 32), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return describe(open_checkpoint(str(file)))

    return described


@pytest.mark.parametrize("architecture", ["llada", "dream", "llada-moe", "llada2", "rnd1", "diffusion-gemma"])
def test_scaled_rotation_is_refused(spec_of, architecture):
    assert spec_of(architecture).shape.context_length == 128
    for scaling in (
        {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0},
        {"rope__scaling__type": "yarn"},
        {"rope__scaling__type": "linear", "rope__scaling__factor": 2.0},
        {"rope__scaling__factor": 2.0},
        {"rope__scale_linear": 2.0},
    ):
        with pytest.raises(InvalidCheckpointError, match="rope_scaling"):
            spec_of(architecture, **scaling)
    for plain in (
        {"rope__scaling__type": "none", "rope__scaling__factor": 4.0},
        {"rope__scaling__type": "linear", "rope__scaling__factor": 1.0},
        {"rope__scaling__factor": 0.0},
    ):
        assert spec_of(architecture, **plain) == spec_of(architecture)


def test_messages_name_the_file(spec_of):
    for changes in (
        {"rope__scaling__type": "yarn"},
        {"attention__head_count": 5},
        {"attention__head_count_kv": 3},
        {"embedding_length": 0},
    ):
        with pytest.raises(InvalidCheckpointError, match=r"^model\.gguf: "):
            spec_of("dream", **changes)
    with pytest.raises(InvalidCheckpointError, match=r"^text_config of model\.gguf: "):
        spec_of("diffusion-gemma", rope__scaling__type="yarn")


def test_how_llada_moe_weighs_its_experts(spec_of):
    assert spec_of("llada-moe").shape.experts.scale == 1.0
    assert spec_of("llada-moe", expert_weights_scale=2.5, expert_gating_func=1).shape.experts.scale == 2.5
    assert spec_of("llada-moe", expert_weights_norm=False) == spec_of("llada-moe")
    for key, value, named in (
        ("expert_weights_norm", True, "norm_topk_prob"),
        ("expert_gating_func", 2, "moe_router_score_function"),
        ("expert_gating_func", 3, "moe_router_score_function"),
    ):
        with pytest.raises(InvalidCheckpointError, match=named):
            spec_of("llada-moe", **{key: value})
