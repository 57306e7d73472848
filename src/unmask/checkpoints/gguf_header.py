"""Reading the header of a GGUF file: bounded in time and memory, whatever the file holds.

Layout (all little-endian): ``GGUF``, version, counts, key/value pairs, tensor descriptions, padding, tensor data. Every
length is checked against the bytes that are left before it is used. Arrays are stepped over, not read: a vocabulary of
a quarter million tokens costs no memory. Nothing here touches tensor data.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from unmask.checkpoints.regular_file import open_regular
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.shown import shown

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

# Number of a value's type -> its name and layout; strings (8) and arrays (9) have no fixed size.
_NUMBERS = {
    number: (name, struct.Struct("<" + letter))
    for number, name, letter in (
        (0, "u8", "B"), (1, "i8", "b"), (2, "u16", "H"), (3, "i16", "h"), (4, "u32", "I"), (5, "i32", "i"),
        (6, "f32", "f"), (7, "bool", "?"), (10, "u64", "Q"), (11, "i64", "q"), (12, "f64", "d"),
    )
}  # fmt: skip
_STRING, _ARRAY = 8, 9

# Number of a tensor's type -> its name, elements per block, bytes per block.
TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1),
    25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}  # fmt: skip

# What a header may cost. The largest vocabulary in use has 777,000 tokens and merges in a header of 16 MB.
_MOST_ENTRIES = 2**13  # key/value pairs; tensors of one file
_MOST_STRINGS = 900_000  # inside arrays, all arrays together
_MOST_TEXT = 4 * 2**20  # bytes of all keys, names and text values together
_MOST_HEADER = 256 * 2**20
_MOST_SECONDS = 10.0
_LONGEST_STRING = 2**20
_LONGEST_NAME = 2**10
_MOST_ARRAY_TEXT = 64 * 2**20  # bytes of one array's strings, when they are asked for
_SMALLEST_PAIR, _SMALLEST_TENSOR = 14, 25
# A tensor's sizes, innermost first, the number of its type, and its offset: by the number of sizes.
_TENSOR = [struct.Struct(f"<{dimensions}QIQ") for dimensions in range(5)]
_ALIGNMENTS = frozenset(2**power for power in range(3, 21))
_DEFAULT_ALIGNMENT = 32


class Reason(StrEnum):
    """Why a file was refused."""

    NOT_GGUF = "not_gguf"
    TRUNCATED = "truncated"
    UNSUPPORTED_VERSION = "unsupported_version"
    ENDIAN = "endian"
    OVER_BUDGET = "over_budget"
    MALFORMED = "malformed"


_HINTS = {
    Reason.NOT_GGUF: "Give a .gguf file, or a model directory with safetensors files.",
    Reason.TRUNCATED: "Copy or download the file again; the transfer was cut short.",
    Reason.UNSUPPORTED_VERSION: "Unmask reads versions 2 and 3. Convert the model again with a current converter.",
    Reason.ENDIAN: "Make it little-endian with gguf-convert-endian, which comes with the Python package 'gguf'.",
    Reason.OVER_BUDGET: "No model's header is that large. Is the file what its name says?",
    Reason.MALFORMED: "Copy or download the file again, or convert the model again.",
}


class GgufError(InvalidCheckpointError):
    """A GGUF file that cannot be read, with the ``reason``."""

    def __init__(self, path: Path, reason: Reason, detail: str, *, hint: str = "") -> None:
        super().__init__(f"'{path}' is not a usable GGUF file ({reason}): {detail}.", hint=hint or _HINTS[reason])
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array in the metadata: ``count`` items of ``item_type`` ("str", "i32", ...) at byte ``offset`` of the file."""

    item_type: str
    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies. ``shape`` is as torch has it, rows first; ``offset`` counts from the start of ``file``.

    ``type_name`` and ``byte_count`` are ``None`` for a type that Unmask does not know by its ``type_number``.
    """

    file: Path
    name: str
    shape: tuple[int, ...]
    type_number: int
    type_name: str | None
    offset: int
    byte_count: int | None


Value = bool | int | float | str | ArrayInfo


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """All that a GGUF file says before its tensor data. ``data_start`` is a byte offset."""

    path: Path
    version: int
    metadata: dict[str, Value]
    tensors: dict[str, TensorInfo]
    alignment: int
    data_start: int

    @property
    def architecture(self) -> str | None:
        """The model's architecture as llama.cpp names it, or ``None`` if the file does not say."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else None


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of the one file ``path`` (a shard of a split model says only what it holds itself).

    Raises ``CheckpointNotFoundError``, or ``GgufError`` with its reason.
    """
    with _mapped(path) as content:
        walk = _Walk(path, content)
        version = _version(walk)
        tensor_count = walk.count("tensors", _SMALLEST_TENSOR)
        pair_count = walk.count("key/value pairs", _SMALLEST_PAIR)
        metadata: dict[str, Value] = {}
        for _ in range(pair_count):
            key = walk.new_name("key", metadata)
            metadata[key] = walk.value()
        rows: dict[str, _Row] = {}
        for _ in range(tensor_count):
            name = walk.new_name("tensor", rows)
            rows[name] = walk.tensor()
        alignment = _alignment(walk, metadata)
        start = -(-walk.position // alignment) * alignment
        tensors = {name: _placed(walk, name, row, start, alignment) for name, row in rows.items()}
    return GgufHeader(path, version, metadata, tensors, alignment, start)


def read_array(header: GgufHeader, key: str) -> list[bool] | list[int] | list[float] | list[str]:
    """The items of the array ``key``. Raises ``GgufError`` if there is no such array, or it is out of bounds."""
    info = header.metadata.get(key)
    if not isinstance(info, ArrayInfo):
        raise GgufError(header.path, Reason.MALFORMED, f"the metadata have no array {key!r}")
    with _mapped(header.path) as content:
        walk = _Walk(header.path, content, info.offset, "key", key)
        if info.item_type == "str":
            return walk.strings(info.count)
        layout = next(layout for name, layout in _NUMBERS.values() if name == info.item_type)
        size = info.count * layout.size
        if info.count > _MOST_STRINGS:
            raise walk.here(Reason.OVER_BUDGET, f"has {info.count} items; Unmask reads {_MOST_STRINGS}")
        walk.need(size)
        return list(struct.unpack(f"<{info.count}{layout.format[1:]}", content[info.offset : info.offset + size]))


def read_texts(header: GgufHeader, key: str, indices: Sequence[int]) -> list[str]:
    """The items at the ascending ``indices`` of the array of texts ``key``, the others only stepped over.

    Raises ``GgufError`` if there is no such array, or it has no such items.
    """
    info = header.metadata.get(key)
    if not isinstance(info, ArrayInfo) or info.item_type != "str" or (indices and indices[-1] >= info.count):
        raise GgufError(header.path, Reason.MALFORMED, f"the metadata have no array {key!r} of enough texts")
    with _mapped(header.path) as content:
        walk = _Walk(header.path, content, info.offset, "key", key)
        texts, passed = [], 0
        for index in indices:
            walk.skip_strings(index - passed)
            texts.append(walk.text(_LONGEST_STRING))
            passed = index + 1
        return texts


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    try:
        with open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
                raise GgufError(path, Reason.NOT_GGUF, "it is empty")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield content
    except FileNotFoundError:
        raise CheckpointNotFoundError(f"There is no file '{path}'.", hint="Check the path.") from None
    except OSError as error:
        raise InvalidCheckpointError(
            f"'{path}' cannot be opened: {error.strerror}.", hint="May it be read by the user who runs Unmask?"
        ) from None


def _version(walk: _Walk) -> int:
    magic = walk.content[:4]
    if magic == b"FUGG":
        raise walk.error(Reason.ENDIAN, "it is big-endian")
    if magic != b"GGUF":
        raise walk.error(Reason.NOT_GGUF, "it does not begin with 'GGUF'")
    walk.position = 4
    version = walk.integer(_U32)
    if version and not version & 0xFFFF:
        raise walk.error(Reason.ENDIAN, "it is big-endian")
    if version not in (2, 3):
        raise walk.error(Reason.UNSUPPORTED_VERSION, f"it has version {version}")
    return version


def _alignment(walk: _Walk, metadata: dict[str, Value]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment not in _ALIGNMENTS:
        raise walk.error(
            Reason.MALFORMED, f"its alignment is {str(alignment)[:50]}, not a power of two from 8 to {2**20}"
        )
    return alignment


class _Row(NamedTuple):
    """A tensor's description; ``offset`` counts from the start of the data."""

    shape: tuple[int, ...]
    type_number: int
    offset: int


def _placed(walk: _Walk, name: str, row: _Row, start: int, alignment: int) -> TensorInfo:
    elements = math.prod(row.shape)
    if not 0 < elements < 2**63:
        raise walk.error(Reason.MALFORMED, f"the tensor {shown(name)} has the shape {list(row.shape)}")
    if row.offset % alignment:
        raise walk.error(Reason.MALFORMED, f"the tensor {shown(name)} is not aligned to {alignment} bytes")
    type_name, per_block, block_bytes = TENSOR_TYPES.get(row.type_number, (None, 1, 0))
    if row.shape and row.shape[-1] % per_block:
        raise walk.error(
            Reason.MALFORMED, f"the rows of {shown(name)} {list(row.shape)} are not whole blocks of {type_name}"
        )
    offset, size = start + row.offset, elements // per_block * block_bytes
    if offset + size > len(walk.content):
        raise walk.error(Reason.TRUNCATED, f"the tensor {shown(name)} ends beyond the end of the file")
    return TensorInfo(walk.path, name, row.shape, row.type_number, type_name, offset, size if type_name else None)


@dataclass(slots=True)
class _Walk:
    """A position in the file that only moves forward, what is read there, and what the walk has cost so far."""

    path: Path
    content: mmap.mmap
    position: int = 0
    kind: str = "field"
    name: str | int = "version"
    text_bytes: int = 0
    strings_passed: int = 0
    deadline: float = field(default_factory=lambda: time.monotonic() + _MOST_SECONDS)

    def error(self, reason: Reason, detail: str) -> GgufError:
        return GgufError(self.path, reason, detail)

    def here(self, reason: Reason, fault: str) -> GgufError:
        return self.error(reason, f"its {self.kind} {shown(self.name)} {fault}")

    def need(self, size: int) -> None:
        left = len(self.content) - self.position
        if size > left:
            raise self.here(Reason.TRUNCATED, f"needs {size} bytes where {max(left, 0)} are left")

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        self.need(layout.size)
        values = layout.unpack_from(self.content, self.position)
        self.position += layout.size
        return values

    def integer(self, layout: struct.Struct) -> int:
        (value,) = self.unpack(layout)
        return int(value)

    def count(self, kind: str, smallest: int) -> int:
        self.kind, self.name = "number of", kind
        count = self.integer(_U64)
        if count * smallest > len(self.content):
            raise self.here(Reason.TRUNCATED, f"is {count}, more than the file has room for")
        if count > _MOST_ENTRIES:
            raise self.here(Reason.OVER_BUDGET, f"is {count}; Unmask reads {_MOST_ENTRIES}")
        return count

    def text(self, longest: int) -> str:
        size = self.integer(_U64)
        self.need(size)
        self.text_bytes += size
        if size > longest or self.text_bytes > _MOST_TEXT:
            raise self.here(Reason.OVER_BUDGET, f"is a text of {size} bytes")
        begin, self.position = self.position, self.position + size
        try:
            return self.content[begin : self.position].decode()
        except UnicodeDecodeError:
            raise self.here(Reason.MALFORMED, "is not UTF-8 text") from None

    def new_name(self, kind: str, known: Mapping[str, object]) -> str:
        if self.position > _MOST_HEADER:
            raise self.error(Reason.OVER_BUDGET, f"its header is over {_MOST_HEADER >> 20} MiB")
        if time.monotonic() > self.deadline:
            raise self.error(Reason.OVER_BUDGET, f"its header took over {_MOST_SECONDS:.0f} s to read")
        self.kind, self.name = kind, len(known)
        name = self.text(_LONGEST_NAME)
        if not name or name in known:
            raise self.here(Reason.MALFORMED, f"has the name of another, {shown(name)}" if name else "has no name")
        self.name = name
        return name

    def value(self) -> Value:
        number = self.integer(_U32)
        if number == _STRING:
            return self.text(_LONGEST_STRING)
        if number == _ARRAY:
            return self.array()
        if number not in _NUMBERS:
            raise self.here(Reason.MALFORMED, f"has the unknown type {number}")
        value: Value = self.unpack(_NUMBERS[number][1])[0]
        return value

    def array(self) -> ArrayInfo:
        number, count = self.integer(_U32), self.integer(_U64)
        begin = self.position
        if number == _STRING:
            self.skip_strings(count)
            return ArrayInfo("str", count, begin)
        if number not in _NUMBERS:  # arrays of arrays among them: nothing uses them
            raise self.here(Reason.MALFORMED, f"is an array with items of the unreadable type {number}")
        name, layout = _NUMBERS[number]
        size = count * layout.size
        self.need(size)
        self.position += size
        return ArrayInfo(name, count, begin)

    def skip_strings(self, count: int) -> None:
        self.need(8 * count)
        self.strings_passed += count
        if self.strings_passed > _MOST_STRINGS:
            raise self.error(Reason.OVER_BUDGET, f"its arrays hold over {_MOST_STRINGS} texts")
        size_at, content, position = _U64.unpack_from, self.content, self.position
        try:
            for _ in range(count):
                position += 8 + size_at(content, position)[0]
        except (struct.error, OverflowError):  # a length that leads out of the file
            position = len(content) + 1
        self.need(position - self.position)
        self.position = position

    def strings(self, count: int) -> list[str]:
        size_at, content, position = _U64.unpack_from, self.content, self.position
        most = position + _MOST_ARRAY_TEXT
        items: list[str] = []
        try:
            for _ in range(count):
                begin = position + 8
                position = begin + size_at(content, position)[0]
                if position > most:
                    raise self.here(Reason.OVER_BUDGET, f"is over {_MOST_ARRAY_TEXT >> 20} MiB")
                items.append(content[begin:position].decode())
        except (struct.error, UnicodeDecodeError):
            raise self.here(Reason.MALFORMED, f"has an item, {len(items)}, that is not UTF-8 text") from None
        return items

    def tensor(self) -> _Row:
        dimensions = self.integer(_U32)
        if dimensions >= len(_TENSOR):
            raise self.here(Reason.MALFORMED, f"has {dimensions} dimensions")
        *sizes, number, offset = self.unpack(_TENSOR[dimensions])
        return _Row(tuple(reversed(sizes)), number, offset)
