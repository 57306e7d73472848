"""Reading tensors out of GGUF files, under the names they have in the Hugging Face checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from numpy.typing import NDArray
from torch import Tensor

from unmask.checkpoints.gguf_header import TENSOR_TYPES, GgufHeader, TensorInfo
from unmask.checkpoints.weights import Patch, Progress, TensorReader, check_shape
from unmask.errors import InvalidCheckpointError

_PLAIN = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_ELEMENTS_AT_ONCE = 2**22  # so that expanding a large tensor needs little memory besides the result


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies in a GGUF file.

    ``index`` picks one matrix of a stacked tensor [E, out, in]. ``unpermute_heads`` undoes the order that llama.cpp
    gives the rows of ``unpermute_heads`` heads for its interleaved rotary embedding.
    """

    tensor: str
    index: int | None = None
    unpermute_heads: int | None = None


class GgufReader(TensorReader):
    """The tensors of a GGUF model.

    ``places`` says where the tensors of the Hugging Face names lie; those that the file lacks are left out. A tensor
    that no place leads to keeps its own name, so that it is not forgotten in ``check_all_taken``.
    """

    def __init__(
        self,
        header: GgufHeader,
        places: Mapping[str, Place],
        *,
        dtype: torch.dtype,
        device: torch.device,
        progress: Progress = lambda share: None,
        patch: Patch | None = None,
    ) -> None:
        self._tensors = header.tensors
        self._places = {name: place for name, place in places.items() if place.tensor in self._tensors}
        reached = {place.tensor for place in self._places.values()}
        self._places |= {name: Place(name) for name in self._tensors if name not in reached}
        super().__init__(self._places, dtype=dtype, device=device, progress=progress, patch=patch)

    def take_stacked(self, pattern: str, count: int, shape: tuple[int, ...]) -> Tensor:
        """As every reader's; read at once where the places lead, in order, to one stacked tensor of the file."""
        stack = self._places.get(pattern.format(e=0))
        if stack is None or stack != Place(stack.tensor, 0) or self._patch is not None:
            return super().take_stacked(pattern, count, shape)
        info = self._tensors[stack.tensor]
        check_shape(info.name, info.shape, (count, *shape))
        names = [pattern.format(e=index) for index in range(count)]
        if [self._places.get(name) for name in names] != [Place(info.name, index) for index in range(count)]:
            return super().take_stacked(pattern, count, shape)
        return self._finished(read_tensor(info), *names)

    def _load(self, name: str) -> Tensor:
        place = self._places[name]
        tensor = read_tensor(self._tensors[place.tensor], place.index)
        return tensor if place.unpermute_heads is None else _unpermuted(tensor, place.unpermute_heads, name)


def read_tensor(info: TensorInfo, index: int | None = None) -> Tensor:
    """The tensor ``info``, or ``tensor[index]`` of it, without reading the rest.

    Its dtype is the file's for float32, float16 and bfloat16 (the memory is then the file's, mapped copy-on-write),
    else float32. Raises ``InvalidCheckpointError`` for a type that cannot be expanded.
    """
    if info.type_name is None or info.byte_count is None:
        raise _unreadable(info)
    offset, size, shape = info.offset, info.byte_count, info.shape
    if index is not None:
        if not shape or not 0 <= index < shape[0]:
            raise InvalidCheckpointError(
                f"'{info.name}' has shape {list(shape)}; there is no matrix {index} in it.",
                hint="Do the metadata fit these tensors?",
            )
        size, shape = size // shape[0], shape[1:]
        offset += index * size
    content = _mapped(info.file, offset, size)
    if info.type_name in _PLAIN:
        return torch.from_numpy(content).view(_PLAIN[info.type_name]).reshape(shape)
    return _expanded(info, content, shape)


def _expanded(info: TensorInfo, content: NDArray[np.uint8], shape: tuple[int, ...]) -> Tensor:
    columns = shape[-1] if shape else 1
    blocks = content.reshape(math.prod(shape[:-1]), -1)
    result = torch.empty(len(blocks), columns)
    rows = max(1, _ELEMENTS_AT_ONCE // columns)
    try:
        kind = GGMLQuantizationType(info.type_number)
        with np.errstate(all="ignore"):  # what is not finite is found by the reader, with the tensor's name
            for begin in range(0, len(blocks), rows):
                part = slice(begin, begin + rows)
                result[part] = torch.from_numpy(dequantize(blocks[part], kind))
    except (NotImplementedError, ValueError):
        raise _unreadable(info) from None
    return result.reshape(shape)


def _unpermuted(tensor: Tensor, heads: int, name: str) -> Tensor:
    rows, *columns = tensor.shape or (1,)
    if rows % (2 * heads):
        raise InvalidCheckpointError(
            f"'{name}' has {rows} rows, which are not {heads} heads of even size.",
            hint="Do the metadata fit these tensors?",
        )
    return tensor.reshape(heads, rows // heads // 2, 2, *columns).transpose(1, 2).reshape(tensor.shape)


def _mapped(file: Path, offset: int, size: int) -> NDArray[np.uint8]:
    try:
        return np.asarray(np.memmap(file, dtype=np.uint8, mode="c", offset=offset, shape=(size,)))
    except (OSError, ValueError) as error:
        raise InvalidCheckpointError(
            f"'{file}' cannot be read at byte {offset}: {error}.", hint="Was the file changed while it was read?"
        ) from None


def _unreadable(info: TensorInfo) -> InvalidCheckpointError:
    readable = [name for name, *_ in TENSOR_TYPES.values() if name in _PLAIN or _expands(name)]
    return InvalidCheckpointError(
        f"The tensor '{info.name}' has the type {info.type_name or info.type_number}, which cannot be read.",
        hint=f"Quantise the model to one of {', '.join(readable)}.",
    )


def _expands(name: str) -> bool:
    number, block_bytes = next((number, row[2]) for number, row in TENSOR_TYPES.items() if row[0] == name)
    try:
        dequantize(np.zeros((1, block_bytes), np.uint8), GGMLQuantizationType(number))
    except (NotImplementedError, ValueError):
        return False
    return True
