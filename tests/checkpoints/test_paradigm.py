"""The signs by which a model's kind is told."""

from __future__ import annotations

import pytest

from tests.foreign_models import FOREIGN, gguf_file
from unmask.checkpoints.gguf_split import read_gguf
from unmask.checkpoints.paradigm import judge_config, judge_gguf


def judged(tmp_path, build):
    return judge_gguf(read_gguf(build(tmp_path / "model")))


GGUF = {
    "by name": (gguf_file("llada2"), "diffusion", ["architecture 'llada2'"]),
    "by a key": (
        gguf_file("qwen2", diffusion__shift_logits=True, diffusion__x=1),
        "diffusion",
        ["key 'diffusion.shift_logits'", "key 'diffusion.x'"],
    ),
    "by its attention": (
        gguf_file("llama", llama__attention__causal=False, tokenizer__ggml__mask_token_id=3),
        "diffusion",
        ["attention.causal is false and there is a mask token"],
    ),
    "by all of them": (
        gguf_file(
            "dream", diffusion__shift_logits=True, dream__attention__causal=False, tokenizer__ggml__mask_token_id=3
        ),
        "diffusion",
        [
            "architecture 'dream'", "key 'diffusion.shift_logits'",
            "attention.causal is false and there is a mask token",
        ],
    ),
    "of many keys": (
        gguf_file("dream", **{f"diffusion__{n}": n for n in range(9)}),
        "diffusion",
        ["architecture 'dream'", *(f"key 'diffusion.{n}'" for n in range(4))],
    ),
    "decoder": (gguf_file("llama"), "autoregressive", ["architecture 'llama'", "no sign of diffusion"]),
    "embedder": (
        gguf_file("qwen3", qwen3__pooling_type=3, qwen3__attention__causal=False, tokenizer__ggml__mask_token_id=3),
        "encoder",
        ["a pooling_type", "attention.causal is false"],
    ),
    "encoder by name": (gguf_file("bert"), "encoder", ["architecture 'bert'"]),
    "image": (gguf_file("flux"), "image", ["architecture 'flux'"]),
    "no keys": (FOREIGN["gguf-no-keys"][2], "image", ["tensors without any key"]),
    "adapter": (gguf_file("llama", general__type="adapter"), "adapter", ["general.type 'adapter'"]),
    "adapter by a key": (gguf_file("llama", adapter__type="lora"), "adapter", ["key 'adapter.type'"]),
    "projector": (
        gguf_file("clip", name="mmproj-x.gguf", general__type="mmproj"),
        "sidecar",
        ["general.type 'mmproj'", "architecture 'clip'", "file name 'mmproj-*'"],
    ),
    "vocabulary": (gguf_file("llada", tensors=False), "sidecar", ["no tensors"]),
    "no name": (gguf_file("\x1b[2J"), "unknown", []),
}  # fmt: skip


@pytest.mark.parametrize("kind", GGUF)
def test_gguf_files(tmp_path, kind):
    build, paradigm, evidence = GGUF[kind]
    verdict = judged(tmp_path, build)
    assert (verdict.paradigm, list(verdict.evidence), verdict.suspect) == (paradigm, evidence, None)


def test_a_mask_alone_makes_suspect(tmp_path):
    verdict = judged(tmp_path, gguf_file("qwen2", tokenizer__ggml__mask_token_id=3))
    assert verdict.paradigm == "autoregressive"
    assert "mask token" in verdict.suspect


@pytest.mark.parametrize(
    ("config", "paradigm", "evidence"),
    [
        (
            {"architectures": ["LLaDAModelLM"], "model_type": "llada"},
            "diffusion",
            ["architecture 'LLaDAModelLM'", "model_type 'llada'"],
        ),
        (
            {"architectures": ["X"], "model_type": "nemotron_labs_diffusion"},
            "diffusion",
            ["model_type 'nemotron_labs_diffusion'"],
        ),
        ({"architectures": ["LlamaForCausalLM"], "mask_token_id": 0}, "diffusion", ["key 'mask_token_id'"]),
        (
            {"architectures": ["LlamaForCausalLM"], "mask_token_id": None},
            "autoregressive",
            ["architecture 'LlamaForCausalLM'", "no sign of diffusion"],
        ),
        ({"bd_size": 32, "canvas_length": 256}, "diffusion", ["key 'bd_size'", "key 'canvas_length'"]),
        ({"_class_name": "FluxTransformer2DModel"}, "image", ["_class_name 'FluxTransformer2DModel'"]),
        ({"architectures": ["BertModel"]}, "unknown", []),
        ({}, "unknown", []),
    ],
)
def test_configs(config, paradigm, evidence):
    verdict = judge_config(config)
    assert (verdict.paradigm, list(verdict.evidence), verdict.suspect) == (paradigm, evidence, None)


def test_signs_are_short(tmp_path):
    """What somebody else chose is cut."""
    verdict = judge_config({"model_type": "llada" * 100_000})
    assert max(map(len, verdict.evidence)) < 300
    verdict = judged(tmp_path, gguf_file("llada", **{f"diffusion__{'x' * 900}{n}": n for n in range(20)}))
    assert len(verdict.evidence) == 5
    assert max(map(len, verdict.evidence)) < 300
