"""Where a GGUF file keeps the tensors that our models ask for by their Hugging Face names."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.gguf_weights import Place, read_tensor
from unmask.errors import InvalidCheckpointError
from unmask.models.gemma_spec import GemmaShape
from unmask.models.spec import ModelSpec, TensorNames, TransformerShape

# The roles of ``TensorNames`` in llama.cpp's words, for the whole model, each layer, and each expert of a layer.
_ENDS = {"embedding": "token_embd", "final_norm": "output_norm", "head": "output"}
_LAYER = {
    "attention_norm": "attn_norm", "qkv": "attn_qkv", "query": "attn_q", "key": "attn_k", "value": "attn_v",
    "query_norm": "attn_q_norm", "key_norm": "attn_k_norm", "output": "attn_output", "mlp_norm": "ffn_norm",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down", "router": "ffn_gate_inp",
    "shared_gate": "ffn_gate_shexp", "shared_up": "ffn_up_shexp", "shared_down": "ffn_down_shexp",
}  # fmt: skip
_EXPERT = {"expert_gate": "ffn_gate_exps", "expert_up": "ffn_up_exps", "expert_down": "ffn_down_exps"}
# Architectures whose query and key rows llama.cpp's converter reorders for its interleaved rotary embedding.
_PERMUTED = frozenset({"llada"})

_GEMMA = "model.decoder"
_GEMMA_ENDS = {"embed_tokens": "token_embd", "norm": "output_norm"} | {
    f"self_conditioning.{name}": f"self_cond_{name.removesuffix('_proj')}"
    for name in ("pre_norm", "gate_proj", "up_proj", "down_proj")
}
_GEMMA_LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight", "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
    "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
    "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight", "router.proj.weight": "ffn_gate_inp.weight",
    "router.scale": "ffn_gate_inp.scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight", "router.per_expert_scale": "ffn_down_exps.scale",
    "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight", "layer_scalar": "layer_output_scale.weight",
}  # fmt: skip


def places(header: GgufHeader, spec: ModelSpec) -> dict[str, Place]:
    """Hugging Face name -> place in the file, for every tensor that the model may ask for."""
    if isinstance(spec.shape, GemmaShape):
        _check_rotation(header, spec.shape)
        return dict(_gemma_places(len(spec.shape.layer_kinds)))
    assert isinstance(spec.shape, TransformerShape)
    assert spec.names is not None
    return dict(_places(spec.names, spec.shape, header.architecture in _PERMUTED))


def _places(names: TensorNames, shape: TransformerShape, permuted: bool) -> Iterator[tuple[str, Place]]:
    for role, ours in _ENDS.items():
        yield f"{getattr(names, role)}.weight", Place(f"{ours}.weight")
    heads = {"query": shape.heads, "key": shape.kv_heads} if permuted else {}
    experts = range(shape.experts.experts if shape.experts else 0)
    for n in range(shape.layers):
        for role, ours in _LAYER.items():
            name = getattr(names, role).format(n=n)
            for end in ("weight", "bias") if name else ():
                yield f"{name}.{end}", Place(f"blk.{n}.{ours}.{end}", unpermute_heads=heads.get(role))
        if names.router_bias:
            yield names.router_bias.format(n=n), Place(f"blk.{n}.exp_probs_b.bias")
        for role, ours in _EXPERT.items() if n in shape.expert_layers else ():
            pattern = getattr(names, role)
            yield from ((f"{pattern.format(n=n, e=e)}.weight", Place(f"blk.{n}.{ours}.weight", e)) for e in experts)


def _gemma_places(layers: int) -> Iterator[tuple[str, Place]]:
    for name, ours in _GEMMA_ENDS.items():
        yield f"{_GEMMA}.{name}.weight", Place(f"{ours}.weight")
    for n in range(layers):
        for name, ours in _GEMMA_LAYER.items():
            yield f"{_GEMMA}.layers.{n}.{name}", Place(f"blk.{n}.{ours}")
        encoder = f"model.encoder.language_model.layers.{n}.layer_scalar"
        yield encoder, Place(f"blk.{n}.enc_layer_output_scale.weight")
    yield "model.rotary_emb.inv_freq", Place("rope_freqs.weight")


def _check_rotation(header: GgufHeader, shape: GemmaShape) -> None:
    """Raise ``InvalidCheckpointError`` if full layers rotate otherwise than the published model's.

    The metadata do not say how much of a head rotates; ``rope_freqs`` does: 1 where a frequency is left as it is, very
    large where it is to stand still.
    """
    info = header.tensors.get("rope_freqs.weight")
    rotating = {kind.rotating_pairs for kind in shape.layer_kinds if not kind.sliding}
    if info is not None and rotating and {int((read_tensor(info) == 1).sum())} != rotating:
        raise InvalidCheckpointError(
            f"'{header.path}': rope_freqs lets {int((read_tensor(info) == 1).sum())} pairs of a head rotate; Unmask "
            f"implements {max(rotating)} only.",
            hint="Convert the model again, or serve its safetensors.",
        )
