"""Reading tensors out of safetensors files, by name, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from unmask.errors import InvalidCheckpointError

Progress = Callable[[float], None]
Patch = Callable[[str, Tensor], Tensor]


class WeightReader:
    """All tensors of a checkpoint behind one ``take(name, shape)``.

    Tensors come back as ``dtype`` on ``device``. ``progress`` is called with the share of tensors taken so far.
    ``patch``, if given, may replace each tensor as it is read (adapters are merged this way).
    """

    def __init__(
        self,
        files: tuple[Path, ...],
        *,
        dtype: torch.dtype,
        device: torch.device,
        progress: Progress = lambda share: None,
        patch: Patch | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._dtype, self._device = dtype, device
        self._progress, self._patch = progress, patch
        self._where: dict[str, Any] = {}
        self._taken: set[str] = set()
        for file in files:
            handle = self._stack.enter_context(_open(file))
            self._where.update(dict.fromkeys(handle.keys(), handle))

    def __enter__(self) -> WeightReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor ``name``, which must have ``shape``. Raises ``InvalidCheckpointError`` naming the tensor."""
        if name not in self._where:
            raise InvalidCheckpointError(f"The weights lack '{name}'.", hint="Does config.json fit these weights?")
        tensor = self._read(name)
        if tuple(tensor.shape) != shape:
            raise InvalidCheckpointError(
                f"'{name}' has shape {list(tensor.shape)}; config.json asks for {list(shape)}.",
                hint="Does config.json fit these weights?",
            )
        return tensor

    def take_any(self, name: str) -> Tensor:
        """The tensor ``name``, whatever its shape; the name must be one of this reader's."""
        return self._read(name)

    def check_all_taken(self, allowed: Callable[[str], bool]) -> None:
        """Raise ``InvalidCheckpointError`` if a tensor was not asked for, unless it is ``allowed`` to be left."""
        left = [name for name in self._where if name not in self._taken and not allowed(name)]
        if left:
            raise InvalidCheckpointError(
                f"The weights hold '{left[0]}', which this architecture has no use for ({len(left)} such tensors).",
                hint="The model would not compute what it was trained to. Is its architecture named rightly?",
            )
        self._progress(1.0)

    def _read(self, name: str) -> Tensor:
        tensor: Tensor = self._where[name].get_tensor(name)
        if self._patch is not None:
            tensor = self._patch(name, tensor.float())
        self._taken.add(name)
        self._progress(len(self._taken) / len(self._where))
        return tensor.to(device=self._device, dtype=self._dtype)


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InvalidCheckpointError(
            f"'{file}' is not a readable safetensors file: {error}.", hint="Copy it again; was the download cut?"
        ) from None
