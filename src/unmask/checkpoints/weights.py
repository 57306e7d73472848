"""Reading tensors out of a checkpoint, by name, one at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from unmask.errors import InvalidCheckpointError
from unmask.shown import cut

Progress = Callable[[float], None]
Patch = Callable[[str, Tensor], Tensor]

_FITS = "Do the model's configuration and its weights belong together?"


class TensorReader(ABC):
    """All tensors of a checkpoint behind one ``take(name, shape)``.

    Tensors come back as ``dtype`` on ``device``, and hold neither NaN nor infinity. ``progress`` is called with the
    share of tensors taken so far. ``patch``, if given, may replace each tensor as it is read (adapters are merged this
    way). ``int8`` tells who takes matrices that their products are to be computed in int8.
    """

    int8 = False

    def __init__(
        self,
        names: Collection[str],
        *,
        dtype: torch.dtype,
        device: torch.device,
        progress: Progress = lambda share: None,
        patch: Patch | None = None,
    ) -> None:
        self._names = dict.fromkeys(names)
        self._dtype, self._device = dtype, device
        self._progress, self._patch = progress, patch
        self._taken: set[str] = set()
        self._open_files = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """The tensor ``name``, which must have ``shape``. Raises ``InvalidCheckpointError`` naming the tensor."""
        if name not in self:
            raise _missing(name)
        tensor = self.take_any(name)
        check_shape(name, tuple(tensor.shape), shape)
        return tensor

    def take_any(self, name: str) -> Tensor:
        """The tensor ``name``, whatever its shape; the name must be one of this reader's."""
        tensor = self._load(name)
        if self._patch is not None:
            tensor = self._patch(name, tensor.float())
        return self._finished(tensor, name)

    def take_stacked(self, pattern: str, count: int, shape: tuple[int, ...]) -> Tensor:
        """The tensors ``pattern.format(e=0)`` to ``count - 1``, each of ``shape``, as one: [count, *shape]."""
        last = pattern.format(e=count - 1)
        if last not in self:  # before room is made for as many as the config says
            raise _missing(last)
        first = self.take(pattern.format(e=0), shape)
        stacked = first.new_empty(count, *shape)
        stacked[0] = first
        for index in range(1, count):
            stacked[index] = self.take(pattern.format(e=index), shape)
        return stacked

    def check_all_taken(self, allowed: Callable[[str], bool]) -> None:
        """Raise ``InvalidCheckpointError`` if a tensor was not asked for, unless it is ``allowed`` to be left."""
        left = [name for name in self if name not in self._taken and not allowed(name)]
        if left:
            raise InvalidCheckpointError(
                f"The weights hold '{left[0]}', which this architecture has no use for ({len(left)} such tensors).",
                hint="The model would not compute what it was trained to. Is its architecture named rightly?",
            )
        self._progress(1.0)

    @abstractmethod
    def _load(self, name: str) -> Tensor:
        """The tensor ``name``, one of this reader's, as the file has it."""

    def _finished(self, tensor: Tensor, *names: str) -> Tensor:
        """``tensor``, which is all that ``names`` stand for, as it is handed out."""
        tensor = tensor.to(device=self._device, dtype=self._dtype)
        # The extremes are NaN if any element is, and cost no second tensor.
        if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
            raise InvalidCheckpointError(
                f"'{names[0]}' holds NaN or infinity as {str(self._dtype).removeprefix('torch.')}.",
                hint="Copy the weights again. If they are sound, they need a dtype of a larger range.",
            )
        self._taken.update(names)
        self._progress(len(self._taken) / len(self._names))
        return tensor


class WeightReader(TensorReader):
    """The tensors of safetensors ``files``."""

    def __init__(
        self,
        files: tuple[Path, ...],
        *,
        dtype: torch.dtype,
        device: torch.device,
        progress: Progress = lambda share: None,
        patch: Patch | None = None,
    ) -> None:
        self._where: dict[str, tuple[Path, Any]] = {}
        with ExitStack() as opened:
            for file in files:
                handle = opened.enter_context(_open(file))
                self._where.update(dict.fromkeys(handle.keys(), (file, handle)))
            super().__init__(self._where, dtype=dtype, device=device, progress=progress, patch=patch)
            self._open_files = opened.pop_all()

    def _load(self, name: str) -> Tensor:
        file, handle = self._where[name]
        try:
            tensor: Tensor = handle.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise InvalidCheckpointError(
                f"'{name}' cannot be read from '{file}': {cut(error)}.", hint="Copy the file again."
            ) from None
        return tensor


def check_shape(name: str, found: tuple[int, ...], asked: tuple[int, ...]) -> None:
    """Raise ``InvalidCheckpointError`` if the tensor ``name`` was ``found`` with another shape than ``asked`` for."""
    if found != asked:
        raise InvalidCheckpointError(
            f"'{name}' has shape {list(found)}; the configuration asks for {list(asked)}.", hint=_FITS
        )


def _missing(name: str) -> InvalidCheckpointError:
    return InvalidCheckpointError(f"The weights lack '{name}'.", hint=_FITS)


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InvalidCheckpointError(
            f"'{file}' is not a readable safetensors file: {cut(error)}.", hint="Copy it again; was the download cut?"
        ) from None
