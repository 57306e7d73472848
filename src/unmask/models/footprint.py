"""What a text model's files say of its size, whichever engine is to serve it. No tensors here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unmask.checkpoints.directory import Checkpoint
from unmask.checkpoints.gguf_header import ArrayInfo, GgufHeader, TensorInfo, read_array
from unmask.checkpoints.packing import packing_of_config
from unmask.checkpoints.safetensors_header import TensorEntry, read_safetensors_headers

Stored = Mapping[str, TensorEntry | TensorInfo]

_PLAIN_TYPES = frozenset({"F64", "F32", "F16", "BF16"})
_FLOAT16_BYTES = 2  # of a number in llama.cpp's key/value cache, unless it is told otherwise
_CONTEXT_KEYS = ("max_position_embeddings", "max_sequence_length", "n_positions", "seq_length")
_MOST_LAYERS = 1024
_LARGEST = 2**31


def stored(checkpoint: Checkpoint) -> Stored:
    """The tensors by name, from the headers. Raises what the readers of headers raise."""
    return read_safetensors_headers(checkpoint.weights) if checkpoint.header is None else checkpoint.header.tensors


def sums(tensors: Stored) -> dict[str, Any]:
    """The card's ``parameters``, ``stored_as`` and ``weight_bytes``."""
    stored_as: dict[str, int] = {}
    sizes: list[int | None] = []
    for tensor in tensors.values():
        dtype = tensor.dtype if isinstance(tensor, TensorEntry) else tensor.type_name or f"type {tensor.type_number}"
        stored_as[dtype] = stored_as.get(dtype, 0) + math.prod(tensor.shape)
        sizes.append(tensor.byte_count)
    return {
        "parameters": sum(stored_as.values()),
        "stored_as": stored_as,
        "weight_bytes": None if None in sizes else sum(size for size in sizes if size is not None),
    }


def quantization(checkpoint: Checkpoint, stored_as: Mapping[str, int]) -> str | None:
    """How the weights are packed: the method of a directory, or the type of most weights of a GGUF file."""
    if checkpoint.header is None:
        packing = packing_of_config(checkpoint.config)
        return packing.method if packing is not None else None
    most = most_used(stored_as)
    return None if most in _PLAIN_TYPES else most


def most_used(stored_as: Mapping[str, int]) -> str | None:
    """The type of most parameters."""
    return max(stored_as, key=lambda name: stored_as[name], default=None)


def context_length(checkpoint: Checkpoint) -> int | None:
    """Tokens, as the file says; ``None`` if it does not."""
    if checkpoint.header is not None:
        return _integer(checkpoint.header.metadata.get(f"{checkpoint.header.architecture}.context_length"))
    nested = checkpoint.config.get("text_config")
    for config in (checkpoint.config, nested if isinstance(nested, dict) else {}):
        for key in _CONTEXT_KEYS:
            if (length := _integer(config.get(key))) is not None:
                return length
    return None


def kv_bytes_per_token(header: GgufHeader) -> int | None:
    """Bytes that a token keeps in llama.cpp's key/value cache of float16, at most: layers with a window keep fewer.

    That is 2 * (key length + value length) * key/value heads, summed over the layers; 0 for a model without attention.
    ``None`` if the file lacks a key for that.
    """
    keys = {name: header.metadata.get(f"{header.architecture}.{name}") for name in ("block_count", "embedding_length")}
    layers, width = _integer(keys["block_count"]), _integer(keys["embedding_length"])
    heads = _per_layer(header, "attention.head_count", layers)
    kv_heads = _per_layer(header, "attention.head_count_kv", layers) or heads
    if heads is None or kv_heads is None:
        return None
    if not max(heads):
        return 0
    usual = None if width is None else width // max(heads)
    key = _integer(header.metadata.get(f"{header.architecture}.attention.key_length")) or usual
    value = _integer(header.metadata.get(f"{header.architecture}.attention.value_length")) or usual
    return None if key is None or value is None else _FLOAT16_BYTES * (key + value) * sum(kv_heads)


def _per_layer(header: GgufHeader, name: str, layers: int | None) -> list[int] | None:
    """The architecture's key ``name``, one number for each of so many ``layers``; a file may say one for all."""
    value = header.metadata.get(f"{header.architecture}.{name}")
    if layers is None or layers > _MOST_LAYERS:
        return None
    if isinstance(value, ArrayInfo) and layers <= value.count <= _MOST_LAYERS:
        items = read_array(header, f"{header.architecture}.{name}")[:layers]
    else:
        items = [value] * layers if isinstance(value, int) else []
    counts = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < _LARGEST]
    return counts if counts and len(counts) == len(items) else None


def _integer(value: object) -> int | None:
    """``value`` if it is a positive integer of a sensible size."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LARGEST
    return value if is_one else None  # type: ignore[return-value]
