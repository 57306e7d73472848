"""What Unmask does not serve, each with the error that says what it is and what to do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.json_file import read_json
from unmask.checkpoints.packing import packing_of_config
from unmask.checkpoints.paradigm import architecture_of_config, judge_config, judge_gguf
from unmask.checkpoints.regular_file import open_regular
from unmask.checkpoints.safetensors_header import read_safetensors_headers
from unmask.errors import (
    AdapterNotModelError,
    AutoregressiveModelError,
    CheckpointNotFoundError,
    InvalidCheckpointError,
    NotATextModelError,
    PickleRefusedError,
    SidecarNotModelError,
    UnknownArchitectureError,
    UnsupportedQuantizationError,
)

# Pipelines of diffusers that make text; all others make images, video or sound.
_TEXT_PIPELINES = ("LLaDA2Pipeline", "DiffusionGemmaPipeline")
_IMAGE_TENSORS = ("double_blocks.", "model.diffusion_model.")
_ADAPTER_TENSORS = ("lora_A", "lora_B", "lora_down", "lora_up")
_PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
_LONGEST_NAME = 200

_IMAGE_HINT = "Use an engine for images, stable-diffusion.cpp or ComfyUI for example."
_BASE_HINT = "Serve the base model, and give this with --adapter."


def refuse_directory(path: Path) -> None:
    """Raise the error of what ``path`` holds instead of a model, or in place of the parts of one."""
    if (path / "model_index.json").is_file():
        _refuse_pipeline(path)
    if (path / "config.json").exists():
        return
    if (path / "adapter_config.json").is_file():
        base = read_json(path / "adapter_config.json").get("base_model_name_or_path")
        raise AdapterNotModelError(
            f"'{path}' is an adapter, which changes {_quoted(base) if base else 'a base model'} and is none itself.",
            hint=_BASE_HINT,
        )
    refuse_pickles(path)


def refuse_pickles(path: Path) -> None:
    """Raise ``PickleRefusedError`` if the directory ``path`` has weights that are pickled, for lack of others."""
    pickled = min((file for file in path.glob("*") if file.suffix in _PICKLE_SUFFIXES), default=None)
    if pickled is not None:
        raise _pickle(pickled)


def refuse_pickle(file: Path) -> None:
    """Raise ``PickleRefusedError`` if ``file`` holds a pickle, whatever its name says."""
    if _is_pickle(first_bytes(file)):
        raise _pickle(file)


def refuse_config(path: Path, config: dict[str, Any]) -> None:
    """Raise the error of a model that is none of diffusion, or whose weights cannot be computed with."""
    architecture = architecture_of_config(config)
    if any(len(str(config.get(key))) > _LONGEST_NAME for key in ("architectures", "model_type")):
        raise InvalidCheckpointError(
            f"'{path / 'config.json'}' names no architecture, but something of great length.",
            hint="Copy the checkpoint again.",
        )
    paradigm = judge_config(config).paradigm
    if paradigm == "image":
        raise NotATextModelError(
            f"'{path}' is a part of an image model ({_quoted(config['_class_name'])}).", hint=_IMAGE_HINT
        )
    if paradigm == "autoregressive":
        raise _autoregressive(path, architecture, "Serve it with vLLM, SGLang or another engine of its kind.")
    if paradigm == "unknown" and config.get("auto_map"):
        raise UnknownArchitectureError(
            f"'{path}' brings code of its own for its architecture {_quoted(architecture)} (auto_map), and nothing in "
            "config.json says that it is a diffusion model.",
            hint="Unmask never runs code from a checkpoint; it has its own for each architecture that it serves.",
        )
    _refuse_packed(path, config)


def refuse_gguf(header: GgufHeader) -> None:
    """Raise the error of a GGUF file that is no diffusion language model."""
    path, architecture = header.path, header.architecture
    verdict = judge_gguf(header)
    match verdict.paradigm:
        case "adapter":
            raise AdapterNotModelError(
                f"'{path}' is an adapter for a model of the architecture {_quoted(architecture)}, and none itself.",
                hint="Serve the base model, and give the adapter as a PEFT directory with --adapter.",
            )
        case "sidecar":
            raise SidecarNotModelError(
                f"'{path}' accompanies a model and is none itself: {_sidecar(header)}.",
                hint="Give the file of the model.",
            )
        case "image":
            name = f"a model of images or video ({_quoted(architecture)})" if architecture else "an image model"
            raise NotATextModelError(f"'{path}' is {name}.", hint=_IMAGE_HINT)
        case "encoder":
            raise NotATextModelError(
                f"'{path}' is an encoder ({_quoted(architecture)}): it makes vectors of text, and writes none.",
                hint="Use llama-server --embedding, or another engine for embeddings.",
            )
        case "autoregressive":
            hint = "Serve it with llama.cpp or another engine of its kind."
            raise _autoregressive(path, architecture, f"{hint} {verdict.suspect or ''}".strip())


def refuse_file(path: Path) -> NoReturn:
    """Raise the error of ``path``, a file that is not GGUF, hence no model."""
    head = first_bytes(path)
    if _is_pickle(head) or (path.suffix in _PICKLE_SUFFIXES and not _is_safetensors(head)):
        raise _pickle(path)
    if path.suffix == ".safetensors" or _is_safetensors(head):
        names = read_safetensors_headers((path,))
        if any(name.startswith(_IMAGE_TENSORS) for name in names):
            raise NotATextModelError(f"'{path}' holds the weights of an image model.", hint=_IMAGE_HINT)
        if any(part in name for name in names for part in _ADAPTER_TENSORS):
            raise AdapterNotModelError(
                f"'{path}' holds an adapter (LoRA), which changes a base model and is none itself.", hint=_BASE_HINT
            )
    raise InvalidCheckpointError(
        f"'{path}' is a file, not a model directory.",
        hint="Give the directory that holds config.json, tokenizer.json and the safetensors files; or a .gguf file.",
    )


def first_bytes(file: Path) -> bytes:
    """The first 16 bytes of ``file``. Raises ``CheckpointNotFoundError`` or ``InvalidCheckpointError``."""
    try:
        with open_regular(file) as stream:
            return stream.read(16)
    except FileNotFoundError:
        raise CheckpointNotFoundError(f"There is no file '{file}'.", hint="Check the path.") from None
    except OSError as error:
        raise InvalidCheckpointError(
            f"'{file}' cannot be opened: {error.strerror}.", hint="May it be read by the user who runs Unmask?"
        ) from None


def _is_pickle(head: bytes) -> bool:
    """A pickle of protocol 2 and above, or a zip archive, as torch.save makes them."""
    zipped = head.startswith(b"PK\x03\x04")
    pickled = len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
    return (zipped or pickled) and not _is_safetensors(head)


def _is_safetensors(head: bytes) -> bool:
    """The size of a header in eight bytes, of which the upper half is zero, and its opening brace."""
    return head[4:9] == b"\0\0\0\0{"


def _pickle(file: Path) -> PickleRefusedError:
    return PickleRefusedError(
        f"'{file}' is pickled: to read it is to run the code in it, which Unmask never does.",
        hint="Get the model as safetensors or GGUF, or convert it where you trust it.",
    )


def _refuse_pipeline(path: Path) -> None:
    kind = read_json(path / "model_index.json").get("_class_name")
    if kind not in _TEXT_PIPELINES:
        raise NotATextModelError(
            f"'{path}' is a pipeline of diffusers ({_quoted(kind)}) that does not make text.", hint=_IMAGE_HINT
        )
    if (path / "config.json").exists():
        return
    parts = sorted(part.parent.name for part in path.glob("*/config.json"))
    raise InvalidCheckpointError(
        f"'{path}' is a pipeline of diffusers ({kind}); Unmask reads the model in it alone.",
        hint="Give the directory of its language model" + (f", one of {', '.join(parts[:5])}." if parts else "."),
    )


def _refuse_packed(path: Path, config: dict[str, Any]) -> None:
    packing = packing_of_config(config)
    if packing is None:
        return
    method = "MLX" if packing.method == "mlx" else _quoted(packing.method)
    raise UnsupportedQuantizationError(
        f"The weights in '{path}' are packed by {method} ('{packing.key}' in config.json), which Unmask cannot compute "
        "with.",
        hint="Take the checkpoint that they were made of, or a GGUF file; --quantize int8 packs weights as they load.",
    )


def _autoregressive(path: Path, architecture: str | None, hint: str) -> AutoregressiveModelError:
    return AutoregressiveModelError(
        f"'{path}' is an autoregressive model ({_quoted(architecture)}): it writes one token after another. Unmask "
        "fills masked tokens in any order; such a model would answer with garbage.",
        hint=f"{hint} Unmask serves diffusion models, such as LLaDA, Dream and SDAR.",
    )


def _sidecar(header: GgufHeader) -> str:
    kind = header.metadata.get("general.type", "model")
    if header.architecture == "clip" or header.path.name.startswith("mmproj-"):
        return "a projector of images or sound"
    if header.path.name.startswith("mtp-"):
        return "a predictor of further tokens"
    return f"its type is {_quoted(kind)}" if kind != "model" else "a vocabulary without weights"


def _quoted(value: object) -> str:
    """``value``, which somebody else chose, in a length that fits a message."""
    text = repr(value)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."
