"""GGUF headers: read without their arrays; whatever is wrong with one is named at once and at no cost."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gguf_files import convert
from tests.timing import within
from unmask.checkpoints.gguf_header import TENSOR_TYPES, ArrayInfo, GgufError, Reason, read_array, read_gguf_header
from unmask.checkpoints.gguf_split import read_gguf
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError

U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def array(key: str, item_kind: int, count: int, items: bytes = b"") -> bytes:
    return pair(key, ARRAY, struct.pack("<IQ", item_kind, count) + items)


def tensor(name: str, dims: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def file(*pairs: bytes, tensors: tuple[bytes, ...] = (), data: int = 0, version: int = 3, **counts: int) -> bytes:
    head = b"GGUF" + struct.pack(
        "<IQQ", version, counts.get("tensor_count", len(tensors)), counts.get("pair_count", len(pairs))
    )
    whole = head + b"".join(pairs) + b"".join(tensors)
    return whole + bytes(-len(whole) % 32 + data) if data else whole


ARCHITECTURE = pair("general.architecture", STRING, text("llada"))
SMALL = file(
    ARCHITECTURE,
    pair("a.number", U32, struct.pack("<I", 7)),
    pair("a.flag", BOOL, b"\x01"),
    pair("a.share", F32, struct.pack("<f", 0.5)),
    array("some.texts", STRING, 3, text("x") + text("") + text("yy")),
    array("some.numbers", U8, 4, bytes([1, 2, 3, 4])),
    pair("last", STRING, text("é")),
    tensors=(tensor("t.weight", (32, 2), 8), tensor("strange", (5,), 222, 96), tensor("scalar", (), 0, 128)),
    data=132,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gguf"


def reason(path, content: bytes) -> Reason:
    """Why ``content`` is refused; within the time and memory a refusal may take."""
    path.write_bytes(content)

    def refuse():
        with pytest.raises(GgufError):
            read_gguf_header(path)

    in_time = within(0.1, refuse)
    tracemalloc.start()
    with pytest.raises(GgufError) as caught:
        read_gguf_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert in_time
    assert peak < 32 * 2**20
    assert caught.value.reason in str(caught.value)
    assert caught.value.hint
    assert len(str(caught.value)) < 4000
    return caught.value.reason


def test_what_a_header_says(path):
    path.write_bytes(SMALL)
    header = read_gguf_header(path)
    assert (header.version, header.architecture, header.alignment) == (3, "llada", 32)
    assert header.data_start % 32 == 0
    assert header.metadata["a.number"] == 7
    assert header.metadata["a.flag"] is True
    assert header.metadata["a.share"] == 0.5
    assert header.metadata["last"] == "é"
    texts = header.metadata["some.texts"]
    assert isinstance(texts, ArrayInfo)
    assert (texts.item_type, texts.count) == ("str", 3)
    assert read_array(header, "some.texts") == ["x", "", "yy"]
    assert read_array(header, "some.numbers") == [1, 2, 3, 4]
    with pytest.raises(GgufError, match=r"last"):
        read_array(header, "last")
    weight, strange, scalar = header.tensors.values()
    assert (weight.shape, weight.type_name, weight.byte_count) == ((2, 32), "Q8_0", 68)
    assert weight.offset == header.data_start
    assert (strange.type_name, strange.type_number, strange.byte_count) == (None, 222, None)
    assert (scalar.shape, scalar.byte_count, scalar.offset) == ((), 4, header.data_start + 128)


def test_versions_and_files_without_metadata(path):
    for version in (2, 3):
        path.write_bytes(file(version=version, tensors=(tensor("t"),), data=128))
        header = read_gguf_header(path)
        assert header.architecture is None
        assert list(header.tensors) == ["t"]


def test_files_of_the_gguf_package(golden):
    for file_path in sorted((golden / "gguf").glob("*.gguf")):
        header, other = read_gguf_header(file_path), gguf.GGUFReader(file_path)
        assert {
            name: (list(info.shape), info.type_name, info.offset, info.byte_count)
            for name, info in header.tensors.items()
        } == {t.name: (t.shape.tolist()[::-1], t.tensor_type.name, t.data_offset, t.n_bytes) for t in other.tensors}
        for key, value in header.metadata.items():
            expected = other.fields[key].contents()
            assert (read_array(header, key) if isinstance(value, ArrayInfo) else value) == expected


def test_the_table_of_tensor_types():
    sizes = {kind.value: (kind.name, *size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
    assert sizes == TENSOR_TYPES


def test_cut_at_every_byte(path):
    for length in range(len(SMALL)):
        expected = Reason.NOT_GGUF if length < 4 else Reason.TRUNCATED
        assert reason(path, SMALL[:length]) == expected, length


HUGE = 2**62
LONG = struct.pack("<Q", 2**64 - 9)
WIDE = text("a") + struct.pack("<I", 2**31)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", "not_gguf", id="empty"),
        pytest.param(b"PK\x03\x04" + bytes(100), "not_gguf", id="another format"),
        pytest.param(b"FUGG" + SMALL[4:], "endian", id="FUGG"),
        pytest.param(b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "endian", id="big-endian"),
        pytest.param(file(version=0), "unsupported_version", id="version 0"),
        pytest.param(file(version=1), "unsupported_version", id="version 1"),
        pytest.param(file(version=4), "unsupported_version", id="version 4"),
        pytest.param(file(pair_count=HUGE), "truncated", id="2^62 pairs"),
        pytest.param(file(tensor_count=HUGE), "truncated", id="2^62 tensors"),
        pytest.param(file(pair_count=20_000) + bytes(400_000), "over_budget", id="many pairs"),
        pytest.param(file(tensor_count=20_000) + bytes(600_000), "over_budget", id="many tensors"),
        pytest.param(file(array("a", U8, 2**60)), "truncated", id="2^60 bytes"),
        pytest.param(file(array("a", U8, 2**31), pair("b", U8, b"\0")), "truncated", id="2^31 bytes"),
        pytest.param(file(array("a", STRING, 2**60)), "truncated", id="2^60 texts"),
        pytest.param(file(array("a", STRING, 2**61 + 1)), "truncated", id="texts whose sizes overflow"),
        pytest.param(file(array("a", STRING, 2, text("x") + LONG)), "truncated", id="text that leads backwards"),
        pytest.param(file(array("a", STRING, 1, struct.pack("<Q", 2**63))), "truncated", id="text of 2^63 in an array"),
        pytest.param(file(array("a", STRING, 2**20, bytes(8 * 2**20))), "over_budget", id="too many texts"),
        pytest.param(file(pair("a", STRING, struct.pack("<Q", 2**63))), "truncated", id="text of 2^63"),
        pytest.param(file(struct.pack("<Q", 2**63), pair_count=1) + bytes(99), "truncated", id="key of 2^63"),
        pytest.param(file(pair("a", STRING, text("x" * (2**20 + 1)))), "over_budget", id="long text"),
        pytest.param(file(pair("x" * 5000, U8, b"\0")), "over_budget", id="long key"),
        pytest.param(file(*(pair(f"{n}", STRING, text("x" * 2**20)) for n in range(5))), "over_budget", id="much text"),
        pytest.param(file(array("a", ARRAY, 1, struct.pack("<IQ", 9, 1) * 5000)), "malformed", id="nested arrays"),
        pytest.param(file(array("a", 13, 1, bytes(8))), "malformed", id="unknown item type"),
        pytest.param(file(pair("a", 13, bytes(8))), "malformed", id="unknown value type"),
        pytest.param(file(pair("a", 2**31, bytes(8))), "malformed", id="negative value type"),
        pytest.param(file(ARCHITECTURE, ARCHITECTURE), "malformed", id="duplicate key"),
        pytest.param(file(pair("", U64, bytes(8))), "malformed", id="empty key"),
        pytest.param(file(pair(b"\xff\xfe", U8, b"\0")), "malformed", id="key that is no text"),
        pytest.param(file(pair("a", STRING, text(b"\xff"))), "malformed", id="value that is no text"),
        pytest.param(file(tensors=(tensor("a"), tensor("a")), data=256), "malformed", id="duplicate tensor"),
        pytest.param(file(tensors=(tensor("a", (1,) * 5),), data=256), "malformed", id="five dimensions"),
        pytest.param(file(tensors=(WIDE,), data=256), "malformed", id="2^31 dimensions"),
        pytest.param(file(tensors=(tensor("a", (32, 0)),), data=256), "malformed", id="no elements"),
        pytest.param(file(tensors=(tensor("a", (2**40, 2**40)),), data=256), "malformed", id="overflowing dimensions"),
        pytest.param(file(tensors=(tensor("a", (2**63, 2)),), data=256), "malformed", id="dimensions that wrap to 0"),
        pytest.param(file(tensors=(tensor("a", (33,), 8),), data=256), "malformed", id="half a block"),
        pytest.param(file(tensors=(tensor("a", offset=4),), data=256), "malformed", id="unaligned tensor"),
        pytest.param(file(tensors=(tensor("a", (1000,)),), data=256), "truncated", id="tensor beyond the end"),
        pytest.param(file(tensors=(tensor("a", offset=2**63),), data=256), "truncated", id="offset beyond the end"),
        pytest.param(file(tensors=(tensor("a", (5,), 222, 2**62),), data=256), "truncated", id="unknown and too far"),
        *(
            pytest.param(file(pair("general.alignment", U64, struct.pack("<Q", size))), "malformed", id=f"align {size}")
            for size in (0, 4, 33, 2**21, 2**31, 2**63)
        ),
        pytest.param(file(pair("general.alignment", STRING, text("32"))), "malformed", id="alignment as text"),
        pytest.param(file(pair("general.alignment", BOOL, b"\1")), "malformed", id="alignment as flag"),
    ],
)  # fmt: skip
def test_hostile_files(path, content, expected):
    assert reason(path, content) == expected


def test_the_most_that_a_header_may_hold_costs_little(path):
    most = 2**13
    pairs = [array(f"{n:0100}", U8, 0) for n in range(most)]
    tensors = [tensor(f"{n:0100}", (2**15 + 1,) * 4) for n in range(most)]
    assert reason(path, file(*pairs, tensors=tuple(tensors))) == Reason.TRUNCATED
    strings = array("a", STRING, 500_000, bytes(8 * 500_000))
    assert reason(path, file(strings, array("b", STRING, 500_000, bytes(8 * 500_000)))) == Reason.OVER_BUDGET


def test_the_header_of_a_large_vocabulary(path):
    tokens = b"".join(text(f"token{n}") for n in range(262_144))
    merges = b"".join(text(f"tok en{n}") for n in range(250_000))
    scores = bytes(4 * 262_144)
    path.write_bytes(
        file(
            array("tokenizer.ggml.tokens", STRING, 262_144, tokens),
            array("tokenizer.ggml.merges", STRING, 250_000, merges),
            array("tokenizer.ggml.scores", F32, 262_144, scores),
        )
    )
    tracemalloc.start()
    read_gguf_header(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    begun = time.process_time()
    header = read_gguf_header(path)
    spent = time.process_time() - begun
    print(f"{path.stat().st_size / 2**20:.1f} MiB of header in {spent * 1000:.0f} ms, {peak / 2**10:.0f} KiB")
    assert spent < 0.5
    assert peak < 2**20
    assert read_array(header, "tokenizer.ggml.merges")[-1] == "tok en249999"


@settings(max_examples=400, derandomize=True)
@given(st.data())
def test_no_damage_leads_to_a_foreign_error(tmp_path_factory, data):
    content = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        length = data.draw(st.integers(0, 8))
        content[at : at + length] = data.draw(st.binary(max_size=12))
    target = tmp_path_factory.getbasetemp() / "damaged.gguf"
    target.write_bytes(content)
    with suppress(InvalidCheckpointError):
        header = read_gguf_header(target)
        for key, value in header.metadata.items():
            if isinstance(value, ArrayInfo):
                read_array(header, key)


def test_an_array_that_is_no_text_or_too_much(path, monkeypatch):
    path.write_bytes(file(array("a", STRING, 1, text(b"\xff")), array("b", U8, 2**20 + 1, bytes(2**20 + 1))))
    header = read_gguf_header(path)
    with pytest.raises(GgufError, match="UTF-8"):
        read_array(header, "a")
    with pytest.raises(GgufError, match="1048577 items"):
        read_array(header, "b")
    path.write_bytes(SMALL)
    header = read_gguf_header(path)
    monkeypatch.setattr("unmask.checkpoints.gguf_header._MOST_ARRAY_TEXT", 10)
    with pytest.raises(GgufError, match="over"):
        read_array(header, "some.texts")
    path.write_bytes(SMALL[:200])  # changed since
    with pytest.raises(GgufError):
        read_array(header, "some.texts")


def test_budgets(path, monkeypatch):
    path.write_bytes(SMALL)
    monkeypatch.setattr("unmask.checkpoints.gguf_header._MOST_HEADER", 50)
    with pytest.raises(GgufError, match="MiB") as caught:
        read_gguf_header(path)
    assert caught.value.reason == Reason.OVER_BUDGET
    monkeypatch.undo()
    monkeypatch.setattr("unmask.checkpoints.gguf_header._MOST_SECONDS", -1.0)
    with pytest.raises(GgufError, match="took over") as caught:
        read_gguf_header(path)
    assert caught.value.reason == Reason.OVER_BUDGET


def test_paths_that_are_no_files(tmp_path, path):
    with pytest.raises(CheckpointNotFoundError):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(InvalidCheckpointError, match="not a regular file"):
        read_gguf_header(tmp_path)
    os.mkfifo(path)
    with pytest.raises(InvalidCheckpointError, match="not a regular file"):
        read_gguf_header(path)
    with pytest.raises(InvalidCheckpointError):
        read_gguf_header(tmp_path / ("x" * 300))


def test_it_needs_neither_torch_nor_numpy():
    code = "import sys, unmask.checkpoints.gguf_split as _; assert not {'torch', 'numpy', 'gguf'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_split_model_is_read_as_one(golden, tmp_path):
    whole = read_gguf(convert(golden / "llada" / "ckpt", tmp_path / "whole.gguf"))
    first = convert(golden / "llada" / "ckpt", tmp_path / "part.gguf", tensors_per_shard=11)
    for number in (1, 2, 3):
        header = read_gguf(first.with_name(f"part-0000{number}-of-00003.gguf"))
        assert header.path == first
        assert header.architecture == "llada"
        assert {info.file.name for info in header.tensors.values()} == {
            f"part-0000{n}-of-00003.gguf" for n in (1, 2, 3)
        }
        assert {name: info.shape for name, info in header.tensors.items()} == {
            name: info.shape for name, info in whole.tensors.items()
        }


def test_split_models_that_are_incomplete(golden, tmp_path):
    first = convert(golden / "llada" / "ckpt", tmp_path / "part.gguf", tensors_per_shard=11)
    second, third = (first.with_name(f"part-0000{n}-of-00003.gguf") for n in (2, 3))
    kept = second.read_bytes()
    second.unlink()
    with pytest.raises(GgufError, match=r"'part-00002-of-00003\.gguf' is missing") as caught:
        read_gguf(first)
    assert caught.value.reason == Reason.TRUNCATED
    second.write_bytes(third.read_bytes())
    with pytest.raises(GgufError, match="shard 2 of 3, and stands for 1 of 3"):
        read_gguf(first)
    second.write_bytes(kept)
    alone = tmp_path / "alone.gguf"
    alone.write_bytes(first.read_bytes())
    with pytest.raises(GgufError, match="shard 0 of 3, and stands for 0 of 1"):
        read_gguf(alone)


def shard(number: int, count: int, total: int, name: str) -> bytes:
    keys = {"split.no": number, "split.count": count, "split.tensors.count": total}
    pairs = (pair(key, U32, struct.pack("<I", value)) for key, value in keys.items())
    return file(*pairs, tensors=(tensor(name),), data=128)


def test_split_models_that_contradict_themselves(tmp_path):
    first, second = (tmp_path / f"x-0000{n}-of-00002.gguf" for n in (1, 2))
    first.write_bytes(shard(0, 2, 2, "a"))
    second.write_bytes(shard(1, 2, 2, "a"))
    with pytest.raises(GgufError, match="another shard holds its tensor 'a'"):
        read_gguf(first)
    second.write_bytes(shard(1, 2, 2, "b"))
    assert list(read_gguf(second).tensors) == ["a", "b"]
    first.write_bytes(shard(0, 2, 3, "a"))
    with pytest.raises(GgufError, match="2 tensors of 3"):
        read_gguf(first)
    single = tmp_path / "y-00001-of-00001.gguf"
    single.write_bytes(SMALL)
    assert len(read_gguf(single).tensors) == 3
