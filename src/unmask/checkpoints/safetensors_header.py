"""Reading the header of safetensors files: bounded in time and memory, whatever the files hold.

Layout: u64 size of the header (little-endian), the header (a JSON object: name -> dtype, shape, place in the data), the
data, which the tensors fill without gaps. Nothing here touches the data.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path

import msgspec

from unmask.checkpoints.regular_file import open_regular
from unmask.errors import InvalidCheckpointError
from unmask.shown import cut

# Bits of an element.
_BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

_SIZE = struct.Struct("<Q")
_LARGEST_HEADER = 100_000_000  # what the format allows
# What all headers of a model may cost. The largest diffusion models have 24,000 tensors and 3 MB of header.
_MOST_TENSORS = 2**15
_MOST_BYTES = 8 * 2**20
_COMMAS = 8  # in the description of a tensor that has many dimensions
_MOST_DIMENSIONS = 64
_LARGEST_DIMENSION = 2**48
_HINT = "Copy or download it again; was the transfer cut?"


class TensorEntry(msgspec.Struct, frozen=True, gc=False):
    """A tensor as the header has it. ``dtype`` is the format's name ("BF16"), ``data_offsets`` count bytes."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    data_offsets: tuple[int, int] = (0, 0)

    @property
    def byte_count(self) -> int:
        """Bytes in the file."""
        return self.data_offsets[1] - self.data_offsets[0]


class HeadersTooLargeError(InvalidCheckpointError):
    """More tensors than any diffusion model has."""


def read_safetensors_headers(files: Iterable[Path]) -> dict[str, TensorEntry]:
    """The tensors of all ``files`` by name.

    Raises ``InvalidCheckpointError`` naming the file that cannot be read, ``HeadersTooLargeError`` if all are too much.
    """
    tensors: dict[str, TensorEntry] = {}
    bytes_left = _MOST_BYTES
    for file in files:
        content, data_size = _read_header(file, bytes_left)
        bytes_left -= len(content)
        # Braces and commas bound the number of tensors and of all their numbers before any is made.
        if max(len(tensors) + content.count(b"{"), content.count(b",") // _COMMAS) > _MOST_TENSORS:
            raise _over_budget(file, f"over {_MOST_TENSORS} tensors")
        entries = _decoded(file, content)
        _check_places(file, entries, data_size)
        tensors |= entries
    return tensors


def _read_header(file: Path, bytes_left: int) -> tuple[bytes, int]:
    """The header's text, and the number of bytes that follow it."""
    try:
        with open_regular(file) as stream:
            size = file.stat().st_size
            if size <= _SIZE.size:
                raise _unusable(file, f"it has {size} bytes")
            (length,) = _SIZE.unpack(stream.read(_SIZE.size))
            rest = size - _SIZE.size
            if length > min(rest, _LARGEST_HEADER):
                raise _unusable(file, f"it names a header of {length} bytes, where {rest} bytes follow")
            if length > bytes_left:
                raise _over_budget(file, f"over {_MOST_BYTES >> 20} MiB of them")
            return stream.read(length), rest - length
    except OSError as error:
        raise _unusable(file, f"it cannot be opened ({error.strerror})") from None


def _decoded(file: Path, content: bytes) -> dict[str, TensorEntry]:
    try:
        entries = msgspec.json.decode(content, type=dict[str, TensorEntry])
    except (ValueError, RecursionError) as error:
        raise _unusable(file, f"its header is malformed ({cut(error)})") from None
    entries.pop("__metadata__", None)  # remarks of whoever wrote the file
    return entries


def _check_places(file: Path, entries: dict[str, TensorEntry], data_size: int) -> None:
    """Raise ``InvalidCheckpointError`` unless the tensors fill the data exactly, each with the size of its shape."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1].data_offsets):
        shape = entry.shape
        if len(shape) > _MOST_DIMENSIONS or (shape and not 0 <= min(shape) <= max(shape) < _LARGEST_DIMENSION):
            raise _unusable(file, f"no tensor has the shape that '{name:.100}' has")
        bits = _BITS.get(entry.dtype)
        if bits is None:
            raise _unusable(file, f"'{name:.100}' has the unknown dtype '{entry.dtype:.20}'")
        begin, until = entry.data_offsets
        if begin != end or 8 * (until - begin) != bits * math.prod(shape):
            raise _unusable(
                file,
                f"'{name:.100}' of {entry.dtype} {list(shape)} lies at bytes {begin} to {until}, and the tensor before "
                f"it ends at {end}",
            )
        end = until
    if end != data_size:
        raise _unusable(file, f"its tensors take {end} bytes of data, and it has {data_size}")


def _unusable(file: Path, detail: str) -> InvalidCheckpointError:
    return InvalidCheckpointError(f"'{file}' is not a usable safetensors file: {detail}.", hint=_HINT)


def _over_budget(file: Path, detail: str) -> HeadersTooLargeError:
    return HeadersTooLargeError(
        f"The headers up to '{file}' are too large: {detail}.",
        hint="No model has such. Is the file what its name says?",
    )
