"""Lanes for tests: our own, llama.cpp as released, and engines that somebody may have."""

from __future__ import annotations

from dataclasses import replace

from unmask.gateway.lane import Lane
from unmask.gateway.mainline import MAINLINE
from unmask.models.gguf_config import GGUF_ARCHITECTURES
from unmask.models.registry import FAMILIES


def lane(name, kind, file_format, **architectures):
    """A lane of one format; a paradigm's architectures as words of one string."""
    return Lane(
        name=name,
        kind=kind,
        formats=frozenset({file_format}),
        architectures={paradigm: frozenset(names.split()) for paradigm, names in architectures.items()},
    )


OWN = Lane(
    name="unmask",
    kind="unmask",
    formats=frozenset({"safetensors", "gguf"}),
    architectures={"diffusion": frozenset(FAMILIES) | GGUF_ARCHITECTURES},
)
LLAMA_CPP = lane("llama.cpp", "llama.cpp", "gguf", autoregressive=" ".join(MAINLINE))
# Knows the names of diffusion models, and does not say that its server decodes them.
LISTS_ALL = lane("lists-all", "llama.cpp", "gguf", autoregressive=f"{' '.join(MAINLINE)} llada llada2 dream sdar")
FORK = lane("my-fork", "llama.cpp", "gguf", autoregressive="llama", diffusion="sdar diffusion-gemma")
WORKER = lane("worker", "logits_worker", "gguf", diffusion="diffusion-gemma sdar llama")
DECODES = lane("decodes", "llama.cpp", "gguf", diffusion="diffusion-gemma sdar llama")
SGLANG = lane(
    "sglang", "sglang", "safetensors", autoregressive="LlamaForCausalLM Qwen2ForCausalLM",
    diffusion="LLaDA2MoeModelLM LLaDAModelLM NemotronLabsDiffusionModel",
)  # fmt: skip
VLLM = lane("vllm", "vllm", "safetensors", autoregressive="LlamaForCausalLM GPT2LMHeadModel")
REMOTE = lane("other-host", "remote", "safetensors", autoregressive="LlamaForCausalLM")

USUAL = (OWN, LLAMA_CPP)
ALL = (OWN, LLAMA_CPP, LISTS_ALL, FORK, WORKER, SGLANG, VLLM, REMOTE)


def missing(there: Lane) -> Lane:
    """``there``, but not installed."""
    return replace(there, missing=f"{there.name} is not installed", remedy=f"install {there.name}")
