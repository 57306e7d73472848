"""What people give for a model and is none that Unmask serves, made small: each with the code of its error."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint

Build = Callable[[Path], Path]

IMAGE_ARCHITECTURES = (
    "flux", "sd1", "sd3", "sdxl", "qwen_image", "aura", "hidream", "lumina2", "wan", "ltxv", "hyvid", "cosmos", "pig",
    "cow",
)  # fmt: skip
SMALL = {"w": np.zeros((2, 4), np.float32)}


def tiny_copy(path: Path, **changes: Any) -> Path:
    """A copy of the embedded model, its config with ``changes``; ``None`` takes a key away."""
    shutil.copytree(open_checkpoint(EMBEDDED_MODEL).path, path)
    config = json.loads((path / "config.json").read_text()) | changes
    (path / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return path


def hugging_face(**config: Any) -> Build:
    """A directory with this config, and weights."""

    def build(path: Path) -> Path:
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        save_file(SMALL, path / "model.safetensors")
        return path

    return build


def packed(**changes: Any) -> Build:
    """The embedded model, as if its weights were quantised."""
    return lambda path: tiny_copy(path, **changes)


def gguf_file(architecture: str, *, name: str = "model.gguf", tensors: bool = True, **keys: Any) -> Build:
    """A GGUF file with these keys; ``__`` in a name stands for a dot."""

    def build(path: Path) -> Path:
        path.mkdir()
        writer = gguf.GGUFWriter(path / name, architecture)
        for key, value in keys.items():
            kinds = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, list: writer.add_array}
            add = kinds[type(value)]
            add(key.replace("__", "."), value)
        if tensors:
            writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path / name

    return build


def gguf_without_keys(path: Path) -> Path:
    """As some exports of image models are."""
    name = b"double_blocks.0.img_attn.norm.scale"
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0)
    head += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 32, 0, 0)
    file = path.with_suffix(".gguf")
    file.write_bytes(head + bytes(-len(head) % 32 + 128))
    return file


def lone_weights(*names: str) -> Build:
    """A safetensors file by itself."""

    def build(path: Path) -> Path:
        file = path.with_suffix(".safetensors")
        save_file(dict.fromkeys(names, SMALL["w"]), file)
        return file

    return build


def pickled_file(suffix: str, *, protocol: int | None = None) -> Build:
    """A pickle, or for no protocol the zip archive that torch makes today."""

    def build(path: Path) -> Path:
        file = path.with_suffix(suffix)
        if protocol is not None:
            file.write_bytes(pickle.dumps({"w": [1.0]}, protocol))
            return file
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"w": [1.0]}))
        return file

    return build


def pickled_directory(name: str, **config: Any) -> Build:
    """A directory whose weights are a pickle of this name."""

    def build(path: Path) -> Path:
        path.mkdir()
        if config:
            (path / "config.json").write_text(json.dumps(config))
        pickled_file(".zip")(path / "weights").rename(path / name)
        return path

    return build


def json_directory(**files: Any) -> Build:
    """A directory of these JSON files, each given as an object, without their suffix."""

    def build(path: Path) -> Path:
        for name, value in files.items():
            file = path / (name.replace("__", "/") + ".json")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(value))
        return path

    return build


LLADA = {"architectures": ["LLaDAModelLM"], "model_type": "llada"}

# Name -> code of the error, words of its message or hint, and how to make it.
FOREIGN: dict[str, tuple[str, str, Build]] = {
    "nothing": ("checkpoint_not_found", "org/name", lambda path: path / "nowhere"),
    "llama": ("autoregressive_model", "vLLM", hugging_face(architectures=["LlamaForCausalLM"], model_type="llama")),
    "qwen2": ("autoregressive_model", "'Qwen2ForCausalLM'", hugging_face(architectures=["Qwen2ForCausalLM"])),
    "gpt2": ("autoregressive_model", "one token after another", hugging_face(architectures=["GPT2LMHeadModel"])),
    "t5": ("autoregressive_model", "garbage", hugging_face(architectures=["T5ForConditionalGeneration"])),
    "awq-llama": (
        "autoregressive_model",
        "Llama",
        hugging_face(architectures=["LlamaForCausalLM"], quantization_config={"quant_method": "awq"}),
    ),
    "remote-code": (
        "unknown_architecture",
        "never runs code",
        hugging_face(architectures=["NovelModel"], auto_map={"AutoModel": "modeling_novel.NovelModel"}),
    ),
    "unknown": ("unknown_architecture", "BertModel", hugging_face(architectures=["BertModel"])),
    "unknown-diffusion": (
        "unknown_architecture",
        "NemotronLabsDiffusionModel",
        hugging_face(architectures=["NemotronLabsDiffusionModel"], auto_map={"AutoModel": "x.Y"}),
    ),
    "other-fork": ("unknown_architecture", "FastDLLM", hugging_face(architectures=["FastDLLMForCausalLM"])),
    "mlx": ("unsupported_quantization", "MLX", packed(quantization={"group_size": 64, "bits": 4})),
    "awq": ("unsupported_quantization", "'awq'", packed(quantization_config={"quant_method": "awq", "bits": 4})),
    "gptq": ("unsupported_quantization", "'gptq'", packed(quantization_config={"quant_method": "gptq"})),
    "fp8": ("unsupported_quantization", "'fp8'", packed(quantization_config={"quant_method": "fp8"})),
    "odd-packing": ("unsupported_quantization", "'x'", packed(quantization_config="x")),
    "adapter": (
        "adapter_not_model",
        "GSAI-ML/LLaDA-8B-Base",
        json_directory(adapter_config={"base_model_name_or_path": "GSAI-ML/LLaDA-8B-Base"}),
    ),
    "nameless-adapter": ("adapter_not_model", "--adapter", json_directory(adapter_config={})),
    "adapter-file": ("adapter_not_model", "LoRA", lone_weights("base_model.model.q_proj.lora_A.weight")),
    "gguf-adapter": ("adapter_not_model", "'llama'", gguf_file("llama", general__type="adapter", adapter__type="lora")),
    "weights-file": ("invalid_checkpoint", "Give the directory", lone_weights("model.norm.weight")),
    "image-file": ("not_a_text_model", "image model", lone_weights("double_blocks.0.img_attn.norm.weight")),
    "image-checkpoint": ("not_a_text_model", "ComfyUI", lone_weights("model.diffusion_model.input.weight")),
    "pipeline": ("not_a_text_model", "FluxPipeline", json_directory(model_index={"_class_name": "FluxPipeline"})),
    "mixed-pipeline": (
        "not_a_text_model",
        "UniLLaDaPipeline",
        json_directory(model_index={"_class_name": "UniLLaDaPipeline"}, config=LLADA),
    ),
    "nameless-pipeline": ("not_a_text_model", "None", json_directory(model_index={})),
    "text-pipeline": (
        "invalid_checkpoint",
        "one of language_model, text",
        json_directory(model_index={"_class_name": "LLaDA2Pipeline"}, text__config=LLADA, language_model__config=LLADA),
    ),
    "pipeline-part": ("not_a_text_model", "FluxTransformer2DModel", hugging_face(_class_name="FluxTransformer2DModel")),
    "gguf-no-keys": ("not_a_text_model", "image", gguf_without_keys),
    **{f"gguf-{name}": ("not_a_text_model", name, gguf_file(name)) for name in IMAGE_ARCHITECTURES},
    "gguf-encoder": ("not_a_text_model", "vectors", gguf_file("bert", bert__attention__causal=False)),
    "gguf-embedder": ("not_a_text_model", "embedding", gguf_file("qwen3", qwen3__pooling_type=3)),
    "gguf-clip": ("sidecar_not_model", "projector", gguf_file("clip")),
    "gguf-mmproj": ("sidecar_not_model", "'mmproj'", gguf_file("llada", general__type="mmproj")),
    "gguf-mmproj-name": ("sidecar_not_model", "projector", gguf_file("llada", name="mmproj-llada.gguf")),
    "gguf-mtp-name": ("sidecar_not_model", "predictor", gguf_file("llada", name="mtp-llada.gguf")),
    "gguf-imatrix": ("sidecar_not_model", "'imatrix'", gguf_file("imatrix", general__type="imatrix")),
    "gguf-vocabulary": ("sidecar_not_model", "vocabulary", gguf_file("llada", tensors=False)),
    "gguf-llama": ("autoregressive_model", "llama.cpp", gguf_file("llama", llama__block_count=1)),
    "gguf-new": ("autoregressive_model", "'novel'", gguf_file("novel", novel__block_count=1)),
    "gguf-suspect": ("autoregressive_model", "mask token", gguf_file("qwen2", tokenizer__ggml__mask_token_id=3)),
    "gguf-diffusion-llama": ("unknown_architecture", "'llama'", gguf_file("llama", diffusion__shift_logits=False)),
    "gguf-bidirectional": (
        "unknown_architecture",
        "'llama'",
        gguf_file("llama", llama__attention__causal=False, tokenizer__ggml__mask_token_id=3),
    ),
    "gguf-sdar": ("unknown_architecture", "'sdar'", gguf_file("sdar")),
    "pickle-zip": ("pickle_refused", "never", pickled_file(".bin")),
    "pickle-2": ("pickle_refused", "safetensors", pickled_file(".pt", protocol=2)),
    "pickle-5": ("pickle_refused", "safetensors", pickled_file(".weights", protocol=5)),
    "pickle-0": ("pickle_refused", "safetensors", pickled_file(".pth", protocol=0)),
    "pickle-renamed": ("pickle_refused", "never", pickled_file(".safetensors")),
    "pickle-only": ("pickle_refused", "pytorch_model.bin", pickled_directory("pytorch_model.bin", **LLADA)),
    "pickle-no-config": ("pickle_refused", "consolidated.00.pth", pickled_directory("consolidated.00.pth")),
    "pickle-in-disguise": ("pickle_refused", "model.safetensors", pickled_directory("model.safetensors", **LLADA)),
    "no-weights": ("invalid_checkpoint", "lacks its weights", json_directory(config=LLADA)),
    "empty-directory": ("checkpoint_not_found", "no config.json", json_directory(nothing={})),
}
