"""Where a GGUF file keeps the tensors that a ``Transformer`` asks for by their Hugging Face names."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.gguf_weights import Place
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


def transformer_places(header: GgufHeader, spec: ModelSpec) -> dict[str, Place]:
    """Hugging Face name -> place in the file, for every tensor that the model may ask for."""
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
