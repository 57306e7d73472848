"""What SGLang and vLLM serve, by Hugging Face's class: the common ones of many that an installed package has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from unmask.checkpoints.paradigm import Paradigm

_COMMON = frozenset(
    {
        "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "QWenLMHeadModel", "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM", "GemmaForCausalLM",
        "Gemma2ForCausalLM", "Gemma3ForCausalLM", "DeepseekForCausalLM", "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM", "Phi3ForCausalLM", "PhiMoEForCausalLM", "GptOssForCausalLM", "Glm4ForCausalLM",
        "Glm4MoeForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM", "OlmoeForCausalLM", "GraniteForCausalLM",
        "CohereForCausalLM", "Cohere2ForCausalLM", "StableLmForCausalLM", "DbrxForCausalLM", "MiniCPMForCausalLM",
        "MiniCPM3ForCausalLM", "InternLM2ForCausalLM", "BaichuanForCausalLM", "ExaoneForCausalLM", "GPT2LMHeadModel",
    }
)  # fmt: skip

# As diffusion, those that their releases decode so.
_DIFFUSION = {
    "sglang": frozenset({"LLaDA2MoeModelLM", "SDARForCausalLM", "SDARMoeForCausalLM"}),
    "vllm": frozenset({"DiffusionGemmaForBlockDiffusion"}),
}
_MODELS = {"sglang": Path("srt", "models"), "vllm": Path("model_executor", "models")}
_CLASS = re.compile(rb"\b[A-Z]\w{3,79}\b")
_MOST_FILES = 2000
_MOST_BYTES = 2**21  # of a file; theirs are smaller
VERSIONS = ("version.py", "_version.py")  # one of which changes with every release


def served_by(package: str, folder: Path) -> Mapping[Paradigm, frozenset[str]]:
    """What ``package``, "sglang" or "vllm", serves as it is installed in ``folder``. Its files are read, not run."""
    words: set[bytes] = set()
    for file in sorted((folder / _MODELS[package]).glob("*.py"))[:_MOST_FILES]:
        with open(file, "rb") as opened:
            words.update(_CLASS.findall(opened.read(_MOST_BYTES)))
    known = {word.decode() for word in words}
    return {"autoregressive": _COMMON & known, "diffusion": _DIFFUSION[package] & known}
