"""What a model's weights will take in memory, told from headers before anything is read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from unmask.checkpoints.directory import Checkpoint
from unmask.checkpoints.safetensors_header import read_safetensors_headers
from unmask.models.diffusion_gemma import UNREAD
from unmask.models.spec import ModelSpec

_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "token_embd.weight")


def weight_shapes(checkpoint: Checkpoint, spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the tensors that loading ``checkpoint`` reads."""
    if checkpoint.header is not None:
        yield from ((name, tensor.shape) for name, tensor in checkpoint.header.tensors.items())
        return
    unread = UNREAD if spec.names is None else ()
    for name, tensor in read_safetensors_headers(checkpoint.weights).items():
        if not name.startswith(unread):
            yield name, tensor.shape


def weight_bytes(shapes: dict[str, tuple[int, ...]], size: int, int8: bool) -> int:
    """Bytes of the weights as numbers of ``size`` bytes; in ``int8``, matrices but embedding and experts are of one."""
    return sum(
        math.prod(shape)
        * (1 if int8 and len(shape) == 2 and ".experts." not in name and not name.endswith(_EMBEDDINGS) else size)
        for name, shape in shapes.items()
    )
