"""Work elsewhere that would let other engines serve an architecture: what a refusal may point to."""

from __future__ import annotations

_LLAMA_CPP = "https://github.com/ggml-org/llama.cpp"
_DIFFUSION_GEMMA = f"{_LLAMA_CPP}/pull/24423 (workers) and {_LLAMA_CPP}/pull/24427 (a server)"

# By GGUF architecture.
UPSTREAM = {
    "llada": f"{_LLAMA_CPP}/issues/17249",
    "llada-moe": f"{_LLAMA_CPP}/issues/17249",
    "llada2": f"{_LLAMA_CPP}/pull/17454",
    "diffusion-gemma": _DIFFUSION_GEMMA,
    "diffusiongemma": _DIFFUSION_GEMMA,
}
