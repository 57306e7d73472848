"""What kind of model a checkpoint is, by the signs that its config or its GGUF metadata give."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.shown import shown

# "encoder": makes vectors of text. "image": makes images or video. "sidecar": accompanies a model
# (a vocabulary without tensors does, too). "unknown": no sign.
Paradigm = Literal["diffusion", "autoregressive", "encoder", "image", "adapter", "sidecar", "unknown"]

# What diffusion language models call themselves, or the family that they come from.
_DIFFUSION_WORDS = re.compile(r"diffusion|dllm|llada|dream|sdar|rnd1", re.IGNORECASE)
_DIFFUSION_KEYS = ("mask_token_id", "bd_size", "canvas_length")
_AUTOREGRESSIVE_ENDINGS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")

_IMAGE_ARCHITECTURES = frozenset(
    {
        "flux", "sd1", "sd3", "sdxl", "qwen_image", "aura", "hidream", "lumina2", "wan", "ltxv", "hyvid", "cosmos",
        "pig", "cow",  # what converters write that know no name
    }
)  # fmt: skip
# Encoders as llama.cpp's converters call them. Their tokenizers have mask tokens too, and no model of theirs writes.
ENCODER_ARCHITECTURES = frozenset(
    {
        "bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "modern-bert", "eurobert",
        "gemma-embedding", "llama-embed", "t5encoder",
    }
)  # fmt: skip
_LONGEST_NAME = 200
_MOST_SIGNS = 5
SIDECAR_PREFIXES = ("mmproj-", "mtp-")  # of file names

_NO_SIGN = "no sign of diffusion"
_SUSPECT = (
    "Its tokenizer has a mask token, as those of diffusion models have, and nothing else says that it is one. If it "
    "was made from a diffusion model, its answers will be garbage: convert that model again."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A paradigm, and the ``evidence``: the signs that it was told by, at most five.

    ``suspect`` warns of a model that is taken for autoregressive although something speaks against it.
    """

    paradigm: Paradigm
    evidence: tuple[str, ...] = ()
    suspect: str | None = None


def is_named_for_diffusion(architecture: str) -> bool:
    """Whether the name alone says that such a model is one of diffusion."""
    return _DIFFUSION_WORDS.search(architecture) is not None


def architecture_of_config(config: dict[str, Any]) -> str | None:
    """The first architecture that ``config.json`` names; ``None`` if it names none, or nothing that could be one."""
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    return architecture if _is_name(architecture) else None


def architecture_of_gguf(header: GgufHeader) -> str | None:
    """The architecture that the metadata name; ``None`` as in ``architecture_of_config``."""
    return header.architecture if _is_name(header.architecture) else None


def judge_config(config: dict[str, Any], mask_token: str = "") -> Verdict:
    """What kind of model has this ``config.json``, and a tokenizer that calls ``mask_token`` its mask ('' for none)."""
    architecture, model_type = architecture_of_config(config), config.get("model_type")
    if not architecture and "_class_name" in config:  # a component of an image pipeline
        return _verdict("image", [f"_class_name {shown(config['_class_name'])}"])
    named = {"architecture": architecture, "model_type": model_type}
    signs = [f"{label} {shown(word)}" for label, word in named.items() if _DIFFUSION_WORDS.search(str(word))]
    signs += [f"key '{key}'" for key in _DIFFUSION_KEYS if config.get(key) is not None]
    if signs:
        return _verdict("diffusion", signs)
    if architecture is None or not architecture.endswith(_AUTOREGRESSIVE_ENDINGS):
        return Verdict("unknown")
    evidence = (f"architecture {shown(architecture)}", _NO_SIGN)
    return Verdict("autoregressive", evidence, suspect=_SUSPECT if mask_token else None)


def judge_gguf(header: GgufHeader) -> Verdict:
    """What kind of model, or what else, this GGUF file is.

    A decoder that says nothing of diffusion is autoregressive: so are all but a handful of llama.cpp's architectures.
    """
    other = _other_than_text(header)
    if other is not None:
        return other
    metadata, architecture = header.metadata, architecture_of_gguf(header)
    if architecture is None:
        return Verdict("unknown")
    causal = metadata.get(f"{architecture}.attention.causal", True)
    pooled = f"{architecture}.pooling_type" in metadata
    has_mask = "tokenizer.ggml.mask_token_id" in metadata
    named = f"architecture {shown(architecture)}"
    if architecture in ENCODER_ARCHITECTURES:
        return _verdict("encoder", [named])
    signs = [named] if _DIFFUSION_WORDS.search(architecture) else []
    signs += [f"key {shown(key)}" for key in metadata if key.startswith("diffusion.")]
    if not causal and not pooled and has_mask:
        signs.append("attention.causal is false and there is a mask token")
    if signs:
        return _verdict("diffusion", signs)
    if pooled or not causal:
        return _verdict("encoder", ["a pooling_type"] * pooled + ["attention.causal is false"] * (not causal))
    return Verdict("autoregressive", (named, _NO_SIGN), suspect=_SUSPECT if has_mask else None)


def _other_than_text(header: GgufHeader) -> Verdict | None:
    """The verdict on a file that is no model of text; ``None`` if it is one."""
    metadata, architecture = header.metadata, architecture_of_gguf(header)
    kind = metadata.get("general.type", "model")
    typed, named = f"general.type {shown(kind)}", f"architecture {shown(architecture)}"
    if kind == "adapter" or "adapter.type" in metadata:
        return _verdict("adapter", [typed if kind == "adapter" else "key 'adapter.type'"])
    if header.tensors and not metadata:
        return _verdict("image", ["tensors without any key"])
    if architecture in _IMAGE_ARCHITECTURES:
        return _verdict("image", [named])
    signs = [typed] * (kind != "model") + [named] * (architecture == "clip")
    signs += [f"file name '{prefix}*'" for prefix in SIDECAR_PREFIXES if header.path.name.startswith(prefix)]
    signs += ["no tensors"] * (not header.tensors)
    return _verdict("sidecar", signs) if signs else None


def _verdict(paradigm: Paradigm, signs: Iterable[str]) -> Verdict:
    return Verdict(paradigm, tuple(signs)[:_MOST_SIGNS])


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable()
