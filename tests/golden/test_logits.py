"""Every family's forward against its reference: logits, hidden states of each layer, and what routers decide."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from tests.golden.checkpoints import served_copy
from tests.golden.forward import logits_of
from unmask.models.experts import Experts
from unmask.models.load import load_model

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
MODELS = [
    ("llada", "ckpt"),
    ("llada_moe", "ckpt"),
    ("llada_moe", "ckpt_bias_shared_gqa"),
    ("llada2", "ckpt"),
    ("dream", "ckpt"),
    ("sdar", "ckpt"),
    ("fast_dllm_v2", "ckpt"),
]
# Checkpoint, prefix of the logits' names, how many there are, block length of the attention.
LOGITS = [
    ("llada_moe", "ckpt", "logits_", 2, None),
    ("llada_moe", "ckpt_bias_shared_gqa", "variant_logits_", 2, None),
    ("llada2", "ckpt", "logits_b8_", 3, 8),
    ("dream", "ckpt", "logits_", 3, None),
    ("sdar", "ckpt", "logits_b4_", 3, 4),
    ("sdar", "ckpt", "logits_b8_", 3, 8),
    ("fast_dllm_v2", "ckpt", "logits_b8_", 3, 8),
    ("fast_dllm_v2", "ckpt", "logits_b32_", 3, 32),
]


@pytest.fixture(scope="module")
def models(golden, tmp_path_factory):
    path = tmp_path_factory.mktemp("golden")
    return {
        (family, checkpoint): load_model(str(served_copy(golden / family / checkpoint, path)), device="cpu")
        for family, checkpoint in MODELS
    }


@pytest.fixture(scope="module")
def fixtures(golden):
    return {family: load_file(golden / family / "logits.safetensors") for family, _ in MODELS}


def visible(length, block):
    """How many keys each row sees with block-causal attention from position 0 on."""
    return None if block is None else [min(length, (row // block + 1) * block) for row in range(length)]


@pytest.mark.parametrize(("family", "checkpoint", "prefix", "count", "block"), LOGITS)
def test_logits(models, fixtures, family, checkpoint, prefix, count, block):
    for index in range(count):
        ids = fixtures[family][f"ids_{index}"].tolist()
        logits = logits_of(models[family, checkpoint], ids, visible=visible(len(ids), block))
        torch.testing.assert_close(logits, fixtures[family][f"{prefix}{index}"], **CLOSE)


@pytest.mark.parametrize("family", ["llada_moe", "dream"])
def test_logits_of_a_padded_batch(models, fixtures, family):
    """The references pad their batches; ours have no pads, and the same logits."""
    tensors = fixtures[family]
    masks = tensors["pad_mask"].bool()
    real = [row[mask].tolist() for row, mask in zip(tensors["pad_ids"], masks, strict=True)]
    torch.testing.assert_close(logits_of(models[family, "ckpt"], *real), tensors["pad_logits"][masks], **CLOSE)


@pytest.mark.parametrize(
    ("family", "block"), [("llada", None), ("llada_moe", None), ("llada2", 8), ("dream", None), ("sdar", 4)]
)
def test_hidden_states(models, fixtures, monkeypatch, family, block):
    """Embeddings, then the output of each layer. The reference norms the last one only, ours come out normed always."""
    model, tensors = models[family, "ckpt"], fixtures[family]
    ids, layers = tensors["ids_0"].tolist(), model.layers
    monkeypatch.setattr(model, "head", lambda hidden: hidden)
    for depth in range(len(layers) + 1):
        monkeypatch.setattr(model, "layers", layers[:depth])
        expected = tensors[f"hidden_0_{depth}"]
        if depth < len(layers):
            expected = F.rms_norm(expected, expected.shape[-1:], model.final_norm, model.shape.norm_eps)
        torch.testing.assert_close(logits_of(model, ids, visible=visible(len(ids), block)), expected, **CLOSE)


@pytest.mark.parametrize(("family", "layer", "block"), [
    ("llada_moe", 0, None), ("llada_moe", 2, None), ("llada2", 1, 8), ("llada2", 2, 8)
])  # fmt: skip
def test_router(models, fixtures, monkeypatch, family, layer, block):
    model, tensors = models[family, "ckpt"], fixtures[family]
    experts = model.layers[layer].mlp
    seen = []
    monkeypatch.setattr(Experts, "__call__", recording(Experts.__call__, experts, seen))
    ids = tensors["ids_0"].tolist()
    logits_of(model, ids, visible=visible(len(ids), block))
    (rows,) = seen
    torch.testing.assert_close(rows @ experts.router.T, tensors[f"router_logits_0_layer{layer}"], **CLOSE)
    if family == "llada2":
        chosen, shares = experts.route(rows)
        expected, order = tensors[f"router_idx_0_layer{layer}"].sort(dim=-1)
        ours, our_order = chosen.sort(dim=-1)
        assert torch.equal(ours, expected)
        weights = tensors[f"router_weight_0_layer{layer}"].gather(-1, order)
        torch.testing.assert_close(shares.gather(-1, our_order), weights, **CLOSE)


def recording(call, wanted, seen):
    """``call``, keeping the rows that go to the experts ``wanted``."""

    def recorded(self, rows, *rest):
        if self is wanted:
            seen.append(rows)
        return call(self, rows, *rest)

    return recorded
