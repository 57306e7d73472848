"""Opening and loading checkpoints: what is wrong is named, nothing foreign runs."""

from __future__ import annotations

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engines import make_loop
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.engine import fit
from unmask.errors import (
    CheckpointNotFoundError,
    InsufficientMemoryError,
    InvalidCheckpointError,
    InvalidValueError,
    PickleRefusedError,
    UnknownArchitectureError,
)
from unmask.models.load import load_model


@pytest.fixture
def copied(tmp_path):
    path = tmp_path / "model"
    shutil.copytree(open_checkpoint(EMBEDDED_MODEL).path, path)
    return path


def change_config(path, **changes):
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | changes))


def load(path):
    return load_model(str(path), device="cpu")


def test_the_embedded_model_is_small_and_loads():
    path = open_checkpoint(EMBEDDED_MODEL).path
    assert sum(file.stat().st_size for file in path.iterdir()) <= 12 * 10**6
    model = load(EMBEDDED_MODEL)
    assert model.spec.attention == "block_causal"


def test_progress_is_reported_to_the_end(copied):
    shares = []
    load_model(str(copied), device="cpu", progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_a_missing_path():
    with pytest.raises(CheckpointNotFoundError, match="no model at"):
        load("/nowhere/at/all")


def test_a_file_instead_of_a_directory(copied):
    with pytest.raises(InvalidCheckpointError, match="is a file"):
        load(copied / "config.json")


def test_a_directory_without_config(tmp_path):
    with pytest.raises(CheckpointNotFoundError, match=r"no config\.json"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 100_000])
def test_a_config_that_is_no_json_object(copied, text):
    (copied / "config.json").write_text(text)
    with pytest.raises(InvalidCheckpointError):
        load(copied)


@pytest.mark.parametrize("architectures", [None, [], ["LlamaForCausalLM"], "LLaDAModelLM", [3], [{}]])
def test_an_unknown_architecture(copied, architectures):
    change_config(copied, architectures=architectures)
    with pytest.raises(UnknownArchitectureError, match="serve"):
        load(copied)


@pytest.mark.parametrize(
    "change",
    [
        {"d_model": "128"}, {"n_layers": 0}, {"n_heads": True}, {"n_layers": 10**12}, {"rope_theta": -1},
        {"alibi": True}, {"activation_type": "gelu"}, {"layer_norm_type": "low_precision"}, {"include_bias": True},
        {"mask_token_id": 5000}, {"mask_token_id": "6"}, {"n_layers": 7}, {"d_model": 64},
        {"block_size": 0}, {"block_size": 4096},
        {"n_heads": 128}, {"n_heads": 3, "n_kv_heads": 3},
        {"rms_norm_eps": float("inf")}, {"eos_token_id": 1024}, {"eos_token_id": [0, -1]},
    ],
    ids=str,
)  # fmt: skip
def test_a_config_that_does_not_fit(copied, change):
    change_config(copied, **change)
    with pytest.raises(InvalidCheckpointError):
        load(copied)


def test_files_that_are_no_files(copied):
    (copied / "generation_config.json").symlink_to("/dev/zero")
    with pytest.raises(InvalidCheckpointError, match="regular file"):
        load(copied)
    (copied / "generation_config.json").unlink()
    os.mkfifo(copied / "generation_config.json")
    with pytest.raises(InvalidCheckpointError, match="regular file"):
        load(copied)
    (copied / "generation_config.json").unlink()
    (copied / "generation_config.json").write_text('{"x": "' + "y" * 5_000_000 + '"}')
    with pytest.raises(InvalidCheckpointError, match="MiB"):
        load(copied)


@pytest.mark.parametrize("model", ["~nosuchuser/x", "x" * 5000, "/nowhere"])
def test_paths_that_lead_nowhere(model):
    with pytest.raises(CheckpointNotFoundError):
        load(model)


def test_a_context_beyond_all_memory_is_a_named_error(copied, monkeypatch):
    change_config(copied, max_sequence_length=2_000_000_000)
    with pytest.raises(InsufficientMemoryError) as caught:
        make_loop(copied)
    assert caught.value.param == "max_context"
    monkeypatch.setattr(fit, "available_bytes", lambda device: None)
    with pytest.raises(InvalidValueError) as caught:
        make_loop(copied)
    assert caught.value.param == "kv_tokens"
    assert make_loop(copied, max_context=512).model.context_length == 512


def test_missing_and_broken_weights(copied):
    weights = copied / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidCheckpointError, match="not a readable safetensors file"):
        load(copied)
    weights.write_bytes(b"\xff" * 100)
    with pytest.raises(InvalidCheckpointError):
        load(copied)
    weights.unlink()
    (copied / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(PickleRefusedError):
        load(copied)


def test_weights_that_the_architecture_does_not_use(copied):
    tensors = load_file(copied / "model.safetensors")
    tensors["model.transformer.blocks.0.q_norm.weight"] = torch.ones(32)
    save_file(tensors, copied / "model.safetensors")
    with pytest.raises(InvalidCheckpointError, match="q_norm"):
        load(copied)


def test_the_checkpoint_says_how_it_attends(copied):
    def attention(option=None):
        return load_model(str(copied), device="cpu", attention=option).spec.attention

    assert attention() == "block_causal"
    assert attention("full") == "full"
    change_config(copied, attention="full")
    assert attention() == "full"
    change_config(copied, attention="sideways")
    with pytest.raises(InvalidValueError):
        load(copied)
    change_config(copied, attention="block_causal", grid_anchor="token_0")
    with pytest.raises(InvalidCheckpointError, match="grid_anchor"):
        load(copied)


def test_sharded_weights_load_like_whole_ones(copied):
    tensors = load_file(copied / "model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name].clone() for name in part}, copied / file)
    (copied / "model.safetensors").unlink()
    (copied / "model.safetensors.index.json").write_text('{"weight_map": []}')
    with pytest.raises(InvalidCheckpointError, match="weight_map"):
        load(copied)
    index = {"weight_map": {name: file for file, part in shards.items() for name in part}}
    (copied / "model.safetensors.index.json").write_text(json.dumps(index))
    sharded, whole = load(copied), load(EMBEDDED_MODEL)
    assert torch.equal(sharded.layers[3].qkv.weight, whole.layers[3].qkv.weight)
    (copied / "b.safetensors").unlink()
    with pytest.raises(InvalidCheckpointError, match=r"b\.safetensors"):
        load(copied)


def test_unknown_device_and_dtype(copied):
    with pytest.raises(InvalidValueError) as caught:
        load_model(str(copied), device="abacus")
    assert caught.value.param == "device"
    with pytest.raises(InvalidValueError) as caught:
        load_model(str(copied), dtype="float12")
    assert caught.value.param == "dtype"


def test_an_adapter_with_half_a_pair(golden, tmp_path):
    shutil.copytree(golden / "d2f" / "llada_adapter", tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors.pop(next(name for name in tensors if "lora_A" in name))
    save_file(tensors, file)
    with pytest.raises(InvalidCheckpointError, match="both halves"):
        load_model(str(golden / "llada" / "ckpt"), adapter=str(tmp_path / "adapter"), device="cpu")


def test_an_adapter_for_another_model(golden):
    with pytest.raises(InvalidCheckpointError, match="no place for"):
        load_model(str(golden / "dream" / "ckpt"), adapter=str(golden / "d2f" / "llada_adapter"), device="cpu")
    with pytest.raises(CheckpointNotFoundError, match="adapter"):
        load_model(str(golden / "dream" / "ckpt"), adapter="/nowhere", device="cpu")
