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
    "sglang": frozenset(
        {"LLaDA2MoeModelLM", "SDARForCausalLM", "SDARMoeForCausalLM", "DiffusionGemmaForBlockDiffusion"}
    ),
    "vllm": frozenset({"DiffusionGemmaForBlockDiffusion"}),
}
# Each file of SGLang's models ends with what it registers. vLLM has one list; what it serves no more stands there too,
# with a version in place of a module.
_ENTRY = re.compile(r"^EntryClass\b[^=\n]*=\s*(\[[^]]*\]|\w+)", re.MULTILINE)
_ROW = re.compile(r'^\s*"(\w+)":\s*\(', re.MULTILINE)
_WORD = re.compile(r"\w+")
_MOST_FILES = 2000
_MOST_BYTES = 2**21  # of a file; theirs are smaller
VERSIONS = ("version.py", "_version.py")  # one of which changes with every release


def served_by(package: str, folder: Path) -> Mapping[Paradigm, frozenset[str]]:
    """What ``package``, "sglang" or "vllm", serves as it is installed in ``folder``. Its files are read, not run."""
    known, decoded = _of_sglang(folder) if package == "sglang" else _of_vllm(folder)
    return {"autoregressive": _COMMON & known, "diffusion": _DIFFUSION[package] & decoded}


def _of_sglang(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The classes that are registered, and those of them that it has an algorithm of diffusion for."""
    files = sorted((folder / "srt" / "models").glob("*.py"))[:_MOST_FILES]
    known = frozenset(word for file in files for entry in _ENTRY.findall(_text(file)) for word in _WORD.findall(entry))
    return known, known.intersection(_WORD.findall(_text(folder / "srt" / "dllm" / "config.py")))


def _of_vllm(folder: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The same: what it registers of diffusion models it decodes as such."""
    known = frozenset(_ROW.findall(_text(folder / "model_executor" / "models" / "registry.py")))
    return known, known


def _text(file: Path) -> str:
    """What is in ``file``; nothing if there is none."""
    try:
        with open(file, "rb") as opened:
            return opened.read(_MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
