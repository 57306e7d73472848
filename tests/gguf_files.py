"""Turns Hugging Face checkpoints into GGUF files with the keys, names and layouts of llama.cpp's converters."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

from unmask.checkpoints.gguf_weights import Place

_BLOCK = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
_EXPERTS = {
    "mlp.gate": "ffn_gate_inp", "mlp.experts.#.gate_proj": "ffn_gate_exps", "mlp.experts.#.up_proj": "ffn_up_exps",
    "mlp.experts.#.down_proj": "ffn_down_exps",
}  # fmt: skip
_ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def _under(prefix: str, block: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}.{name}": f"blk.#.{ours}" for name, ours in block.items()}


# Names without ".weight" or ".bias"; "#" is a layer's number and, the second time, an expert's.
_NAMES: dict[str, dict[str, str]] = {
    "llada": {
        "model.transformer.wte": "token_embd", "model.transformer.ln_f": "output_norm",
        "model.transformer.ff_out": "output",
        **_under("model.transformer.blocks.#", {
            "attn_norm": "attn_norm", "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v",
            "attn_out": "attn_output", "ff_norm": "ffn_norm", "ff_proj": "ffn_gate", "up_proj": "ffn_up",
            "ff_out": "ffn_down",
        }),
    },
    "dream": {**_ENDS, **_under("model.layers.#", _BLOCK)},
    "llada-moe": {
        **_ENDS,
        **_under("model.layers.#", _BLOCK | _EXPERTS | {
            "mlp.expert_bias": "exp_probs_b.bias", "shared_expert.gate_proj": "ffn_gate_shexp",
            "shared_expert.up_proj": "ffn_up_shexp", "shared_expert.down_proj": "ffn_down_shexp",
        }),
    },
    "llada2": {
        "model.word_embeddings": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        **_under("model.layers.#", _BLOCK | _EXPERTS | {
            "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
            "attention.query_layernorm": "attn_q_norm", "attention.key_layernorm": "attn_k_norm",
            "mlp.gate.expert_bias": "exp_probs_b.bias", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
            "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
        }),
    },
    "diffusion-gemma": {
        "model.decoder.embed_tokens": "token_embd", "model.decoder.norm": "output_norm",
        **{f"model.decoder.self_conditioning.{name}": f"self_cond_{name.removesuffix('_proj')}"
           for name in ("pre_norm", "gate_proj", "up_proj", "down_proj")},
        "model.encoder.language_model.layers.#.layer_scalar": "blk.#.enc_layer_output_scale.weight",
        **_under("model.decoder.layers.#", _BLOCK | {
            "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm", "post_feedforward_layernorm_1": "post_ffw_norm_1",
            "post_feedforward_layernorm_2": "post_ffw_norm_2", "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
            "router.proj": "ffn_gate_inp", "router.scale": "ffn_gate_inp.scale",
            "router.per_expert_scale": "ffn_down_exps.scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
            "experts.down_proj": "ffn_down_exps.weight", "layer_scalar": "layer_output_scale.weight",
        }),
    },
}  # fmt: skip

_ARCHITECTURES = {
    "LLaDAModelLM": "llada", "DreamModel": "dream", "LLaDAMoEModelLM": "llada-moe", "LLaDA2MoeModelLM": "llada2",
    "DiffusionGemmaForBlockDiffusion": "diffusion-gemma",
}  # fmt: skip


def architecture(config: dict[str, Any]) -> str:
    """What llama.cpp calls the architecture of a ``config.json``."""
    return _ARCHITECTURES[config["architectures"][0]]


def places(config: dict[str, Any], names: Iterable[str]) -> dict[str, Place]:
    """Where ``convert`` puts the tensors ``names`` of a checkpoint. Those of a vision tower are left out."""
    table = _NAMES[architecture(config)]
    found = {}
    for name in names:
        numbers = [int(part) for part in name.split(".") if part.isdigit()]
        pattern = ".".join("#" if part.isdigit() else part for part in name.split("."))
        ending = "" if pattern in table else pattern[pattern.rindex(".") :]
        ours = table.get(pattern.removesuffix(ending))
        if ours is None:
            assert "vision" in name, name
            continue
        found[name] = Place(
            (ours + ending).replace("#", str(numbers[0]) if numbers else "#"),
            index=numbers[1] if len(numbers) == 2 else None,
            unpermute_heads=_heads(config, pattern),
        )
    return found


def convert(
    checkpoint: Path,
    target: Path,
    *,
    file_type: str = "F32",
    tensors_per_shard: int = 0,
    vocabulary: dict[str, Any] | None = None,
) -> Path:
    """Write ``checkpoint`` as the GGUF file ``target``, whose path is returned (the first shard's, if sharded).

    Matrices have ``file_type`` where their rows fit its blocks, but for routers; all else is float32. ``vocabulary``
    holds the tokenizer's keys, those of single bytes if it is not given.
    """
    config = json.loads((checkpoint / "config.json").read_text())
    tensors = load_file(checkpoint / "model.safetensors")
    writer = gguf.GGUFWriter(target, architecture(config), split_max_tensors=tensors_per_shard)
    _add_keys(writer, _KEYS[architecture(config)](config) | (vocabulary or byte_vocabulary(config)))
    stacks: dict[str, list[np.ndarray]] = {}
    for name, place in places(config, tensors).items():
        tensor = tensors[name] if place.unpermute_heads is None else permuted(tensors[name], place.unpermute_heads)
        if place.index is None:
            _add_tensor(writer, place.tensor, tensor, file_type)
        else:  # the table of a checkpoint's tensors is sorted by name, so that 10 comes before 2
            stack = stacks.setdefault(place.tensor, [])
            stack.extend([tensor] * (place.index + 1 - len(stack)))
            stack[place.index] = tensor
    for name, stack in stacks.items():
        _add_tensor(writer, name, np.stack(stack), file_type)
    if architecture(config) == "diffusion-gemma":
        _add_tensor(writer, "rope_freqs.weight", _frequency_factors(config["text_config"]), "F32")
    _finish(writer)
    return next(iter(sorted(target.parent.glob(f"{target.stem}-00001-of-*.gguf"))), target)


def permuted(tensor: np.ndarray, heads: int) -> np.ndarray:
    """The rows of ``heads`` heads in the order of llama.cpp's interleaved rotary embedding."""
    rows = len(tensor)
    return tensor.reshape(heads, 2, rows // heads // 2, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def _heads(config: dict[str, Any], pattern: str) -> int | None:
    if architecture(config) != "llada":
        return None
    return {"q_proj": config["n_heads"], "k_proj": config["n_kv_heads"]}.get(pattern.split(".")[-2])


def _add_tensor(writer: gguf.GGUFWriter, name: str, tensor: np.ndarray, file_type: str) -> None:
    kind = gguf.GGMLQuantizationType[file_type]
    whole = tensor.ndim > 1 and tensor.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
    if not whole or "ffn_gate_inp" in name or file_type == "F32":
        writer.add_tensor(name, np.ascontiguousarray(tensor, dtype=np.float32))
    else:
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)


def relabelled(source: Path, target: Path, arch: str) -> Path:
    """Write the GGUF file ``source`` as if its architecture were ``arch``, with no trace of diffusion."""
    reader = gguf.GGUFReader(source)
    old = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, arch)
    traces = ("GGUF.", "general.architecture", "diffusion.", f"{old}.attention.causal", "tokenizer.ggml.mask_token_id")
    for name, field in reader.fields.items():
        if not name.startswith(traces):
            key = name.replace(f"{old}.", f"{arch}.", 1) if name.startswith(f"{old}.") else name
            writer.add_key_value(key, field.contents(), field.types[0], field.types[1] if field.types[1:] else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    _finish(writer)
    return target


def write_metadata(target: Path, keys: dict[str, Any]) -> Path:
    """Write a GGUF file that holds ``keys`` and no tensors."""
    writer = gguf.GGUFWriter(target, "llada")
    _add_keys(writer, keys)
    _finish(writer)
    return target


def _add_keys(writer: gguf.GGUFWriter, keys: dict[str, Any]) -> None:
    kinds: dict[type, Callable[[str, Any], None]] = {
        bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string,
        list: writer.add_array,
    }  # fmt: skip
    for key, value in keys.items():
        kinds[type(value)](key, value)


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _common(arch: str, **values: Any) -> dict[str, Any]:
    """``values`` under the keys of ``arch``, where "__" stands for a dot."""
    keys = {f"{arch}.{name.replace('__', '.')}": value for name, value in values.items()}
    return {"general.type": "model", f"{arch}.attention.causal": False, **keys}


def _llada(config: dict[str, Any]) -> dict[str, Any]:
    return _common(
        "llada", vocab_size=config["vocab_size"], block_count=config["n_layers"],
        context_length=config["max_sequence_length"], embedding_length=config["d_model"],
        feed_forward_length=config["mlp_hidden_size"], attention__head_count=config["n_heads"],
        attention__head_count_kv=config["n_kv_heads"], attention__layer_norm_rms_epsilon=config["rms_norm_eps"],
        rope__freq_base=config["rope_theta"], rope__dimension_count=config["d_model"] // config["n_heads"],
    ) | {"diffusion.shift_logits": False}  # fmt: skip


def _llama_like(arch: str, config: dict[str, Any], feed_forward: int, **more: Any) -> dict[str, Any]:
    return _common(
        arch, vocab_size=config["vocab_size"], block_count=config["num_hidden_layers"],
        context_length=config["max_position_embeddings"], embedding_length=config["hidden_size"],
        feed_forward_length=feed_forward, attention__head_count=config["num_attention_heads"],
        attention__head_count_kv=config["num_key_value_heads"],
        attention__layer_norm_rms_epsilon=config["rms_norm_eps"], rope__freq_base=float(config["rope_theta"]), **more,
    )  # fmt: skip


def _dream(config: dict[str, Any]) -> dict[str, Any]:
    return _llama_like("dream", config, config["intermediate_size"])


def _llada_moe(config: dict[str, Any]) -> dict[str, Any]:
    shared = config["shared_expert_intermediate_size"]
    keys = _llama_like(
        "llada-moe", config, config["dense_intermediate_size"], expert_count=config["num_experts"],
        expert_used_count=config["num_experts_per_tok"],
        expert_feed_forward_length=config["expert_intermediate_size"],
        **({"expert_shared_feed_forward_length": shared} if shared else {}),
    )  # fmt: skip
    return keys | {"diffusion.shift_logits": False}


def _llada2(config: dict[str, Any]) -> dict[str, Any]:
    return _llama_like(
        "llada2", config, config["intermediate_size"], expert_count=config["num_experts"],
        expert_used_count=config["num_experts_per_tok"], expert_feed_forward_length=config["moe_intermediate_size"],
        expert_shared_feed_forward_length=config["moe_intermediate_size"] * config["num_shared_experts"],
        expert_shared_count=config["num_shared_experts"], expert_group_count=config["n_group"],
        expert_group_used_count=config["topk_group"], expert_gating_func=2,
        expert_weights_scale=config["routed_scaling_factor"], expert_weights_norm=config["norm_topk_prob"],
        leading_dense_block_count=config["first_k_dense_replace"], rope__dimension_count=config["rotary_dim"],
        attention__key_length=config["head_dim"], attention__value_length=config["head_dim"],
    ) | {"diffusion.shift_logits": False}  # fmt: skip


def _diffusion_gemma(config: dict[str, Any]) -> dict[str, Any]:
    text = config["text_config"]
    sliding = [kind == "sliding_attention" for kind in text["layer_types"]]
    kv_heads = [text["num_key_value_heads"] if slides else text["num_global_key_value_heads"] for slides in sliding]
    rope = text["rope_parameters"]
    keys = _common(
        "diffusion-gemma", block_count=text["num_hidden_layers"], context_length=text["max_position_embeddings"],
        embedding_length=text["hidden_size"], feed_forward_length=text["intermediate_size"],
        attention__head_count=text["num_attention_heads"], attention__head_count_kv=kv_heads,
        rope__freq_base=rope["full_attention"]["rope_theta"],
        rope__freq_base_swa=rope["sliding_attention"]["rope_theta"],
        attention__layer_norm_rms_epsilon=text["rms_norm_eps"], expert_count=text["num_experts"],
        expert_used_count=text["top_k_experts"], attention__key_length=text["global_head_dim"],
        attention__value_length=text["global_head_dim"], final_logit_softcapping=text["final_logit_softcapping"],
        attention__sliding_window=text["sliding_window"], attention__shared_kv_layers=0,
        embedding_length_per_layer_input=0, attention__sliding_window_pattern=sliding,
        attention__key_length_swa=text["head_dim"], attention__value_length_swa=text["head_dim"],
        expert_feed_forward_length=text["moe_intermediate_size"], rope__dimension_count=text["global_head_dim"],
        rope__dimension_count_swa=text["head_dim"],
    )  # fmt: skip
    return keys | {"diffusion.canvas_length": config["canvas_length"]}


_KEYS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "llada": _llada, "dream": _dream, "llada-moe": _llada_moe, "llada2": _llada2, "diffusion-gemma": _diffusion_gemma,
}  # fmt: skip


def _frequency_factors(text: dict[str, Any]) -> np.ndarray:
    """By which the rotary frequencies of full layers are divided: those that are not to turn, by very much."""
    pairs = text["global_head_dim"] // 2
    turning = int(pairs * text["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    return np.array([1.0] * turning + [1e30] * (pairs - turning), dtype=np.float32)


def byte_vocabulary(config: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer with a token for every byte but those whose ids are special in the golden checkpoints."""
    gemma = architecture(config) == "diffusion-gemma"
    size = (config["text_config"] if gemma else config)["vocab_size"]
    ids = {"padding": 0, "eos": 1, "bos": 2} if gemma else {"bos": 250, "eos": 250, "padding": 250, "mask": 255}
    special = set(ids.values())
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [f"<|{index}|>" if index in special else byte_symbol(index) for index in range(size)],
        "tokenizer.ggml.token_type": [3 if index in special else 1 for index in range(size)],
        "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.add_bos_token": architecture(config) == "llada",
        **{f"tokenizer.ggml.{name}_token_id": index for name, index in ids.items()},
    }  # fmt: skip


def vocabulary_of(directory: Path, pre: str) -> dict[str, Any]:
    """The keys of the byte-level tokenizer in ``directory``, whose words the rule ``pre`` cuts, and its template."""
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    config = json.loads((directory / "tokenizer_config.json").read_text())
    special = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = tokenizer["model"]["vocab"] | special
    names = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "mask": "mask_token"}
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": sorted(ids, key=lambda token: ids[token]),
        "tokenizer.ggml.token_type": [3 if index in special.values() else 1 for index in range(len(ids))],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in tokenizer["model"]["merges"]],
        "tokenizer.chat_template": (directory / "chat_template.jinja").read_text(),
        **{f"tokenizer.ggml.{name}_token_id": special[config[key]] for name, key in names.items()},
    }  # fmt: skip


def byte_symbol(byte: int) -> str:
    """The character that stands for a byte in byte-level vocabularies."""
    return _BYTE_SYMBOLS[byte]


def _byte_symbols() -> list[str]:
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = itertools.count(0x100)
    return [chr(byte if byte in shown else next(hidden)) for byte in range(0x100)]


_BYTE_SYMBOLS = _byte_symbols()
