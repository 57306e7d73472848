"""Where a GGUF file keeps the tensors that ``DiffusionGemma`` asks for by their Hugging Face names."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.gguf_weights import Place, read_tensor
from unmask.errors import InvalidCheckpointError
from unmask.models.gemma_spec import GemmaShape
from unmask.models.spec import ModelSpec

# In llama.cpp's words, for the whole model and each layer.
_DECODER = "model.decoder"
_ENDS = {"embed_tokens": "token_embd", "norm": "output_norm"} | {
    f"self_conditioning.{name}": f"self_cond_{name.removesuffix('_proj')}"
    for name in ("pre_norm", "gate_proj", "up_proj", "down_proj")
}
_LAYER = {
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


def gemma_places(header: GgufHeader, spec: ModelSpec) -> dict[str, Place]:
    """Hugging Face name -> place in the file, for every tensor that the model may ask for.

    Raises ``InvalidCheckpointError`` for a file that has another part of each head rotate.
    """
    assert isinstance(spec.shape, GemmaShape)
    _check_rotation(header, spec.shape)
    return dict(_places(len(spec.shape.layer_kinds)))


def _places(layers: int) -> Iterator[tuple[str, Place]]:
    for name, ours in _ENDS.items():
        yield f"{_DECODER}.{name}.weight", Place(f"{ours}.weight")
    for n in range(layers):
        for name, ours in _LAYER.items():
            yield f"{_DECODER}.layers.{n}.{name}", Place(f"blk.{n}.{ours}")
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
