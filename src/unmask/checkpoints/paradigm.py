"""What kind of model a checkpoint is, by the signs that its config or its GGUF metadata give."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeGuard

from unmask.checkpoints.gguf_header import GgufHeader

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
_LONGEST_NAME = 200
SIDECAR_PREFIXES = ("mmproj-", "mtp-")  # of file names


def architecture_of_config(config: dict[str, Any]) -> str | None:
    """The first architecture that ``config.json`` names; ``None`` if it names none, or nothing that could be one."""
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    return architecture if _is_name(architecture) else None


def architecture_of_gguf(header: GgufHeader) -> str | None:
    """The architecture that the metadata name; ``None`` as in ``architecture_of_config``."""
    return header.architecture if _is_name(header.architecture) else None


def paradigm_of_config(config: dict[str, Any]) -> Paradigm:
    """The paradigm of the model with this ``config.json``."""
    architecture = architecture_of_config(config) or ""
    if not architecture and "_class_name" in config:  # a component of an image pipeline
        return "image"
    if _DIFFUSION_WORDS.search(f"{architecture} {config.get('model_type')}") or any(
        config.get(key) is not None for key in _DIFFUSION_KEYS
    ):
        return "diffusion"
    return "autoregressive" if architecture.endswith(_AUTOREGRESSIVE_ENDINGS) else "unknown"


def paradigm_of_gguf(header: GgufHeader) -> Paradigm:
    """The paradigm of the model, or of what else there is, in this GGUF file.

    A decoder that says nothing of diffusion is autoregressive: so are all but a handful of llama.cpp's architectures.
    """
    metadata, architecture = header.metadata, architecture_of_gguf(header)
    kind = metadata.get("general.type", "model")
    if kind == "adapter" or "adapter.type" in metadata:
        return "adapter"
    if architecture in _IMAGE_ARCHITECTURES or (header.tensors and not metadata):
        return "image"
    named_so = architecture == "clip" or header.path.name.startswith(SIDECAR_PREFIXES)
    if kind != "model" or named_so or not header.tensors:
        return "sidecar"
    if architecture is None:
        return "unknown"
    causal = metadata.get(f"{architecture}.attention.causal", True)
    pooled = f"{architecture}.pooling_type" in metadata
    if (
        _DIFFUSION_WORDS.search(architecture)
        or any(key.startswith("diffusion.") for key in metadata)
        or (not causal and not pooled and has_mask_token(header))
    ):
        return "diffusion"
    return "encoder" if pooled or not causal else "autoregressive"


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable()


def has_mask_token(header: GgufHeader) -> bool:
    """Whether the file's tokenizer has a mask token, as those of diffusion models have, and few others."""
    return "tokenizer.ggml.mask_token_id" in header.metadata
