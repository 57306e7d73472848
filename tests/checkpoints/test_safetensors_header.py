"""safetensors headers: read as the library reads them; whatever is wrong with one is named at no cost."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tests.timing import within
from unmask.checkpoints.safetensors_header import read_safetensors_headers
from unmask.errors import InvalidCheckpointError


def write(path, header, *, data=0, length=None):
    """A file with this header, an object or bytes, which says that it has ``length`` bytes; ``data`` zeros follow."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw) if length is None else length) + raw)
        file.truncate(8 + len(raw) + data)
    return path


def entry(dtype="F32", shape=(2, 4), offsets=(0, 32)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def refused(path, words=None):
    with pytest.raises(InvalidCheckpointError, match=words) as caught:
        read_safetensors_headers((path,))
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert len(str(caught.value)) < 1000


def test_what_a_header_says(tmp_path):
    tensors = {
        "a": np.zeros((3, 5), np.float32), "b": np.zeros((2, 1, 7), np.float16), "c": np.zeros((), np.int64),
        "d": np.zeros((0, 4), np.uint8), "e": np.zeros(3, bool),
    }  # fmt: skip
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt", "dtype": "anything"})
    found = read_safetensors_headers((tmp_path / "x.safetensors",))
    assert {name: found[name].shape for name in found} == {name: array.shape for name, array in tensors.items()}
    assert {name: found[name].byte_count for name in found} == {name: array.nbytes for name, array in tensors.items()}
    assert [found[name].dtype for name in "abcde"] == ["F32", "F16", "I64", "U8", "BOOL"]


def test_all_shards_together(tmp_path, golden):
    for name in ("a", "b"):
        save_file({name: np.zeros(2, np.float32)}, tmp_path / f"{name}.safetensors")
    assert set(read_safetensors_headers(sorted(tmp_path.iterdir()))) == {"a", "b"}
    assert read_safetensors_headers(()) == {}
    file = golden / "llada" / "ckpt" / "model.safetensors"
    with safe_open(file, "np") as theirs:
        assert set(read_safetensors_headers((file,))) == set(theirs.keys())


def test_a_file_cut_anywhere(tmp_path):
    file = tmp_path / "x.safetensors"
    save_file({"a": np.ones((4, 4), np.float32), "b": np.ones(3, np.int8)}, file)
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        refused(file)
    file.write_bytes(whole + b"x")
    refused(file, "69 bytes|68 bytes|it has")


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ({"a": entry(shape=(2, 5))}, 32),  # a shape that is not its size
        ({"a": entry(dtype="F16")}, 32),
        ({"a": entry(dtype="F33")}, 32),
        ({"a": entry(dtype="")}, 32),
        ({"a": entry(offsets=(0, 64), shape=(4, 4))}, 32),  # beyond the end
        ({"a": entry(), "b": entry()}, 32),  # in the same place
        ({"a": entry(), "b": entry(offsets=(16, 48))}, 64),
        ({"a": entry(), "b": entry(offsets=(40, 72))}, 72),  # a gap
        ({"a": entry(offsets=(8, 40))}, 40),
        ({"a": entry()}, 33),  # data of nobody
        ({"a": entry(offsets=(32, 0))}, 32),
        ({"a": entry(offsets=(-32, 0))}, 32),
        ({"a": entry(shape=(-2, -4))}, 32),
        ({"a": entry(shape=(2**63, 2**63))}, 32),
        ({"a": entry(dtype="F4", shape=(3,), offsets=(0, 1))}, 1),  # half a byte
        ({"a": {"dtype": "F32"}}, 32),
        ({"a": {"shape": [2, 4], "data_offsets": [0, 32]}}, 32),
        ({"a": entry() | {"shape": "2x4"}}, 32),
        ({"a": entry() | {"shape": [2.0, 4]}}, 32),
        ({"a": entry() | {"data_offsets": [0, 16, 32]}}, 32),
        ({"a": []}, 0),
        ([], 0),
        (b"", 8),
        (b"null", 0),
        (b"{", 0),
        (b'{"a":' * 10_000, 0),
        (b'{"\xff": 1}', 0),
        (b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b"]}}", 0),
        (b'{"a":{"dtype":"F32","shape":[1e9999]}}', 0),
    ],
)
def test_a_header_that_contradicts_itself(tmp_path, header, data):
    file = write(tmp_path / "x.safetensors", header, data=data)
    refused(file)
    with pytest.raises(SafetensorError):  # the library agrees
        safe_open(file, "np").__enter__()


def test_more_dimensions_than_a_tensor_can_have(tmp_path):
    refused(write(tmp_path / "x.safetensors", {"a": entry(shape=[1] * 100 + [2, 4])}, data=32), "shape")


@pytest.mark.parametrize("length", [0, 1, 7, 2**27, 2**63, 2**64 - 1])
def test_a_header_of_impossible_size(tmp_path, length):
    refused(write(tmp_path / "x.safetensors", {"a": entry()}, data=32, length=length))


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    for name in ("fifo", "loop", "empty", "absent", "."):
        refused(tmp_path / name)


@given(content=st.binary(max_size=200))
def test_random_bytes(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "random.safetensors"
    file.write_bytes(struct.pack("<Q", len(content)) + content)
    try:
        assert isinstance(read_safetensors_headers((file,)), dict)
    except InvalidCheckpointError as error:
        assert error.hint  # noqa: PT017 (either is right)


def many(count, dimensions=(0,)):
    """A header of so many tensors."""
    one = b'"%x":' + json.dumps(entry(shape=dimensions, offsets=(0, 0))).encode()
    return b"{" + b",".join(one % number for number in range(count)) + b"}"


LARGE = {
    "many tensors": (many(100_000), 0, "32768 tensors"),
    "many dimensions": (b'{"a":{"shape":[' + b"0," * 3_000_000 + b"0]}}", 0, "too large"),
    "many remarks": (b'{"__metadata__":{' + b'"a":"b",' * 900_000 + b'"a":"b"}}', 0, "too large"),
    "a long number": (b'{"a":{"shape":[' + b"9" * 7_000_000 + b"]}}", 0, "malformed"),
    "deep nesting": (b'{"a":' * 1_000_000, 0, "too large"),
    "nothing but spaces": (b"{" + b" " * 8_000_000 + b"]", 0, "malformed"),
    "what the format allows": (b"{" + b" " * 60_000_000, 0, "too large"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_headers_cost_little(tmp_path, kind):
    header, data, words = LARGE[kind]
    file = write(tmp_path / "x.safetensors", header, data=data)
    assert within(0.1, lambda: refused(file, words))
    tracemalloc.start()
    refused(file, words)
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()


def test_the_headers_of_all_shards_share_one_budget(tmp_path):
    files = [write(tmp_path / f"{n}.safetensors", many(20_000)) for n in range(2)]
    assert len(read_safetensors_headers(files[:1])) == 20_000
    with pytest.raises(InvalidCheckpointError, match="too large"):
        read_safetensors_headers(files)


def test_the_largest_diffusion_models_are_read(tmp_path):
    """As many experts as LLaDA2.0-flash has, in one file."""
    size, header = 1024 * 4096 * 2, {}
    for number in range(31 * 256 * 3):
        offsets = (number * size, (number + 1) * size)
        header[f"model.layers.{number}.mlp.experts.255.gate_proj.weight"] = entry("BF16", (1024, 4096), offsets)
    file = write(tmp_path / "x.safetensors", header, data=len(header) * size)
    if file.stat().st_blocks > 2**20:  # pragma: no cover
        pytest.skip("this file system has no holes in files")
    assert len(read_safetensors_headers((file,))) == 23808
