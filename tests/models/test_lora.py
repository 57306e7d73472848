"""LoRA adapters in the PEFT format: merged and attached they are the same, and what is no plain LoRA is refused."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.models.linear import AdaptedRows, Linear
from unmask.models.lora import LoraAdapter

CPU = torch.device("cpu")
OUTPUTS, INPUTS, RANK = 6, 10, 4
LAYERS = 3
GOLDEN_PARTS = {
    "llada": "model.transformer.blocks.{n}. q_proj k_proj v_proj, attn_out, ff_proj up_proj",
    "dream": "model.layers.{n}. self_attn.q_proj self_attn.k_proj self_attn.v_proj, self_attn.o_proj, mlp.gate_proj",
}


def write(path, tensors, **config):
    path.mkdir(exist_ok=True)
    (path / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": 8, "bias": "none"} | config)
    )
    save_file(tensors, path / "adapter_model.safetensors")
    return path


def pair(module, *, rank=RANK, spelling=""):
    draw = torch.Generator().manual_seed(rank)
    prefix = f"base_model.model.{module}"
    return {
        f"{prefix}.lora_A{spelling}.weight": torch.randn(rank, INPUTS, generator=draw),
        f"{prefix}.lora_B{spelling}.weight": torch.randn(OUTPUTS, rank, generator=draw),
    }


def product(tensors):
    down, up = tensors.values()
    return up @ down


def merged(path, module="a.q"):
    """The whole update of ``module``."""
    adapter = LoraAdapter(path)
    update = adapter.merge(f"{module}.weight", torch.zeros(OUTPUTS, INPUTS))
    adapter.check_used()
    return update


def attached(path, *linears):
    """What each of ``linears`` makes of the adapter, as matrices."""
    LoraAdapter(path).attach(1, linears, dtype=torch.float32, device=CPU)
    matrices = []
    for linear in linears:
        inputs = torch.eye(linear.weight.shape[1])
        matrices.append((linear(inputs, [AdaptedRows(1, torch.arange(len(inputs)))]) - linear(inputs)).T)
    return matrices


def zeros(*names):
    return Linear([(name, OUTPUTS) for name in names], torch.zeros(len(names) * OUTPUTS, INPUTS))


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_golden_adapters_attached_are_as_merged(golden, family):
    folder, base = golden / "d2f" / f"{family}_adapter", {}
    for file in (golden / family / "ckpt").glob("*.safetensors"):
        base |= load_file(file)
    prefix, stacks = GOLDEN_PARTS[family].split(" ", 1)
    merging, linears, expected = LoraAdapter(folder), [], []
    for n, parts in itertools.product(range(LAYERS), stacks.split(",")):
        names = [prefix.format(n=n) + part for part in parts.split()]
        tensors = {name: base[f"{name}.weight"].float() for name in names}
        linears.append(Linear([(name, len(each)) for name, each in tensors.items()], torch.cat([*tensors.values()])))
        expected.append(torch.cat([merging.merge(f"{name}.weight", each) for name, each in tensors.items()]))
    merging.check_used()
    changed = 0
    for linear, update, whole in zip(linears, attached(folder, *linears), expected, strict=True):
        torch.testing.assert_close(linear.weight + update, whole, atol=1e-5, rtol=1e-5)
        changed += bool(update.any())
    assert changed == 2 * LAYERS  # all but the feed-forward stacks


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({}, 2.0),
        ({"use_rslora": True}, 4.0),
        ({"use_rslora": False, "alpha_pattern": {"q": 2}}, 0.5),
        ({"alpha_pattern": {"a.q": 2, "q": 16}}, 0.5),
        ({"alpha_pattern": {"^a.q": 2}}, 0.5),
        ({"alpha_pattern": {"^q": 2, "other.q": 3, "aq": 5}}, 2.0),
        ({"r": 8, "rank_pattern": {"a.q": RANK}}, 2.0),
        ({"target_modules": ["q"], "lora_dropout": 0.5, "modules_to_save": [], "loftq_config": {}}, 2.0),
        ({"target_modules": ".*q$", "modules_to_save": None, "init_lora_weights": "gaussian"}, 2.0),
    ],
)
def test_scale(tmp_path, config, scale):
    tensors = pair("a.q")
    path = write(tmp_path / "adapter", tensors, **config)
    torch.testing.assert_close(merged(path), scale * product(tensors))
    torch.testing.assert_close(attached(path, zeros("a.q"))[0], scale * product(tensors))


def test_keys_may_name_the_default_adapter(tmp_path):
    tensors = pair("a.q", spelling=".default")
    torch.testing.assert_close(merged(write(tmp_path / "adapter", tensors)), 2 * product(tensors))


def test_stacked_parts(tmp_path):
    """Parts with updates of different rank, one without, and a linear that has none at all."""
    q, v = pair("a.q"), pair("a.v", rank=2)
    path = write(tmp_path / "adapter", q | v, rank_pattern={"v": 2})
    qkv, none = attached(path, zeros("a.q", "a.k", "a.v"), zeros("b.q"))
    expected = torch.cat([2 * product(q), torch.zeros(OUTPUTS, INPUTS), 4 * product(v)])
    torch.testing.assert_close(qkv, expected)
    assert not none.any()


def test_attached_in_the_models_type(tmp_path):
    path = write(tmp_path / "adapter", pair("a.q"))
    linear = Linear([("a.q", OUTPUTS)], torch.zeros(OUTPUTS, INPUTS, dtype=torch.bfloat16))
    LoraAdapter(path).attach(1, [linear], dtype=torch.bfloat16, device=CPU)
    rows = torch.ones(2, INPUTS, dtype=torch.bfloat16)
    output = linear(rows, [AdaptedRows(1, torch.tensor([1]))])
    assert not output[0].any()
    torch.testing.assert_close(output[1].float(), merged(path).sum(dim=1), atol=0.2, rtol=0.05)


HALF_A, HALF_B = pair("a.q")
FOREIGN = {
    "base_model.model.a.q.lora_magnitude_vector": torch.ones(OUTPUTS),
    "base_model.model.wte.lora_embedding_A": torch.ones(RANK, INPUTS),
    "base_model.model.a.q.base_layer.bias": torch.ones(OUTPUTS),
    "base_model.model.head.modules_to_save.weight": torch.ones(2, 2),
    "a.q.lora_A.weight": torch.ones(RANK, INPUTS),
}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"peft_type": "LOHA"}, "'peft_type': 'LOHA'"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "lora_only"}, "'bias': 'lora_only'"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save.*lm_head"),
        ({"init_lora_weights": "pissa_niter_16"}, "pissa"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"r": 0}, "'r' is 0"),
        ({"r": "8"}, "'r' is '8'"),
        ({"r": 3}, r"'a.q' has lora_A \[4, 10\] and lora_B \[6, 4\].*rank 3"),
        ({"lora_alpha": "big"}, "lora_alpha"),
        ({"rank_pattern": [4]}, "'rank_pattern' is"),
        ({"rank_pattern": {"q": -1}}, "rank_pattern of adapter_config.json: 'q' is -1"),
        ({"alpha_pattern": {"(a+)+$": 1}}, r"alpha_pattern.*\(a\+\)\+"),
    ],
)
def test_configs_that_are_refused(tmp_path, config, named):
    with pytest.raises(InvalidCheckpointError, match=named):
        LoraAdapter(write(tmp_path / "adapter", pair("a.q"), **config))


@pytest.mark.parametrize("name", FOREIGN)
def test_tensors_that_are_refused(tmp_path, name):
    with pytest.raises(InvalidCheckpointError, match=name) as caught:
        LoraAdapter(write(tmp_path / "adapter", pair("a.q") | {name: FOREIGN[name]}))
    assert "merge_and_unload" in caught.value.hint


@pytest.mark.parametrize(
    ("tensors", "named"),
    [
        ({HALF_A: torch.ones(RANK, INPUTS)}, "lacks lora_B of 'a.q'"),
        ({HALF_B: torch.ones(OUTPUTS, RANK)}, "lacks lora_A of 'a.q'"),
        ({HALF_A: torch.ones(RANK, INPUTS), HALF_B: torch.ones(OUTPUTS)}, r"'a.q'.*lora_B \[6\]"),
        (pair("a.q") | pair("a.q", spelling=".default"), "'a.q' twice"),
        ({}, "change nothing"),
    ],
)
def test_tensors_that_do_not_fit_each_other(tmp_path, tensors, named):
    with pytest.raises(InvalidCheckpointError, match=named):
        LoraAdapter(write(tmp_path / "adapter", tensors))


def test_updates_that_the_model_has_no_place_for(tmp_path):
    """They are named, and nothing is attached."""
    path = write(tmp_path / "adapter", pair("a.q") | pair("b.norm"))
    linear = zeros("a.q")
    with pytest.raises(InvalidCheckpointError, match=r"updates 'b\.norm'"):
        LoraAdapter(path).attach(1, [linear], dtype=torch.float32, device=CPU)
    rows = torch.ones(1, INPUTS)
    assert not linear(rows, [AdaptedRows(1, torch.tensor([0]))]).any()
    with pytest.raises(InvalidCheckpointError, match=r"updates 'b\.norm'"):
        merged(path)


def test_updates_of_another_shape(tmp_path):
    path = write(tmp_path / "adapter", pair("a.q"))
    with pytest.raises(InvalidCheckpointError, match=r"'a.q' as a matrix \[6, 10\]; the model's is \[6, 11\]"):
        LoraAdapter(path).merge("a.q.weight", torch.zeros(OUTPUTS, INPUTS + 1))
    linear = Linear([("a.q", OUTPUTS)], torch.zeros(OUTPUTS, INPUTS + 1))
    with pytest.raises(InvalidCheckpointError, match=r"'a.q' as a matrix"):
        LoraAdapter(path).attach(1, [linear], dtype=torch.float32, device=CPU)


def test_files_that_are_missing(tmp_path):
    with pytest.raises(CheckpointNotFoundError, match="no adapter directory"):
        LoraAdapter(tmp_path / "nowhere")
    path = write(tmp_path / "adapter", pair("a.q"))
    (path / "adapter_model.safetensors").unlink()
    with pytest.raises(InvalidCheckpointError, match=r"lacks adapter_model\.safetensors"):
        LoraAdapter(path)
