"""What SGLang and vLLM serve, by Hugging Face's class: the common ones of many, as their documentation lists them."""

from __future__ import annotations

from collections.abc import Mapping

from unmask.checkpoints.paradigm import Paradigm

_BOTH = frozenset(
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

SGLANG: Mapping[Paradigm, frozenset[str]] = {
    "autoregressive": _BOTH,
    "diffusion": frozenset({"LLaDA2MoeModelLM", "SDARForCausalLM", "SDARMoeForCausalLM"}),
}
VLLM: Mapping[Paradigm, frozenset[str]] = {
    "autoregressive": _BOTH,
    "diffusion": frozenset({"DiffusionGemmaForBlockDiffusion"}),
}
