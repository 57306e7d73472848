"""Tensors out of GGUF files: the values the file stands for, under Hugging Face's names, checked like safetensors'."""

from __future__ import annotations

import json
import shutil

import gguf
import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tests.gguf_files import convert, places
from unmask.checkpoints.gguf_header import GgufHeader, TensorInfo, read_gguf_header
from unmask.checkpoints.gguf_split import read_gguf
from unmask.checkpoints.gguf_weights import GgufReader, Place, read_tensor
from unmask.checkpoints.weights import WeightReader
from unmask.errors import InvalidCheckpointError

CPU = torch.device("cpu")
CHECKPOINTS = (
    "llada/ckpt", "llada/ckpt_gqa", "dream/ckpt", "llada_moe/ckpt", "llada_moe/ckpt_bias_shared_gqa", "llada2/ckpt",
    "diffusion_gemma/ckpt",
)  # fmt: skip
GOLDEN_FILES = {
    "llada-f32": ("llada/ckpt", "F32"), "llada-q8_0": ("llada/ckpt", "Q8_0"), "llada-q4_0": ("llada/ckpt", "Q4_0"),
    "llada_gqa-f32": ("llada/ckpt_gqa", "F32"), "dream-f32": ("dream/ckpt", "F32"),
    "dream-q8_0": ("dream/ckpt", "Q8_0"), "dream-q4_0": ("dream/ckpt", "Q4_0"),
    "llada-moe-f32": ("llada_moe/ckpt", "F32"), "llada-moe-q8_0": ("llada_moe/ckpt", "Q8_0"),
}  # fmt: skip


def reader(path, where, *, dtype=torch.float32, **options) -> GgufReader:
    return GgufReader(read_gguf(path), where, dtype=dtype, device=CPU, **options)


def checkpoint(golden, name):
    """Where the converter puts a checkpoint's tensors, and these."""
    tensors = load_file(golden / name / "model.safetensors")
    where = places(json.loads((golden / name / "config.json").read_text()), tensors)
    return where, {key: tensors[key] for key in where}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_float32_comes_back_as_it_was(golden, tmp_path, name):
    where, tensors = checkpoint(golden, name)
    shares = []
    with reader(convert(golden / name, tmp_path / "m.gguf"), where, progress=shares.append) as weights:
        for key, tensor in tensors.items():
            assert key in weights
            assert torch.equal(weights.take(key, tuple(tensor.shape)), tensor), key
        weights.check_all_taken(lambda left: left == "rope_freqs.weight")
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("stem", GOLDEN_FILES)
def test_the_converter_writes_what_the_golden_files_hold(golden, tmp_path, stem):
    name, file_type = GOLDEN_FILES[stem]
    ours = read_gguf_header(convert(golden / name, tmp_path / "m.gguf", file_type=file_type))
    theirs = read_gguf_header(golden / "gguf" / f"{stem}.gguf")
    names = json.loads((golden / "gguf" / "tensor_names.json").read_text())[stem]
    assert theirs.tensors.keys() == names.keys()
    layers = {"blk.1.": "blk.2."} if stem.startswith("llada-moe") else {}  # they left out the layer between
    for key, info in theirs.tensors.items():
        ours_info = ours.tensors[key.replace("blk.1.", layers.get("blk.1.", "blk.1."))]
        assert (ours_info.shape, ours_info.type_name) == (info.shape, info.type_name)
        assert torch.equal(read_tensor(ours_info), read_tensor(info)), key
    if not layers:
        assert ours.tensors.keys() == theirs.tensors.keys()
        where, tensors = checkpoint(golden, name)
        assert {key: where[theirs_name].tensor for key, theirs_name in names.items()} == {key: key for key in names}
        assert sorted(names.values()) == sorted(tensors)


@pytest.mark.parametrize("file_type", ["F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
def test_every_type_is_read_as_the_gguf_package_reads_it(golden, tmp_path, file_type):
    path = convert(golden / "llada2/ckpt", tmp_path / "m.gguf", file_type=file_type)
    header = read_gguf_header(path)
    assert {info.type_name for info in header.tensors.values()} == {"F32", file_type}
    for tensor in gguf.GGUFReader(path).tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        ours = read_tensor(header.tensors[tensor.name])
        assert ours.dtype == {"F16": torch.float16, "BF16": torch.bfloat16}.get(tensor.tensor_type.name, torch.float32)
        assert np.array_equal(ours.float().numpy().ravel(), expected.ravel()), tensor.name


def block_q8_0(scale: float, values: list[int]) -> bytes:
    return np.float16(scale).tobytes() + np.array(values, dtype=np.int8).tobytes()


def block_q4_k(d: float, dmin: float) -> bytes:
    """256 elements in which every scale is 3 and every minimum is 5; all quants are 9."""
    scales = bytes([3] * 4 + [5] * 4 + [3 | 5 << 4] * 4)
    return np.float16(d).tobytes() + np.float16(dmin).tobytes() + scales + bytes([0x99] * 128)


def stored(tmp_path, content: bytes, shape: tuple[int, ...], name: str, number: int) -> TensorInfo:
    file = tmp_path / "data"
    file.write_bytes(b"header" + content)
    return TensorInfo(file, "t", shape, number, name, 6, len(content))


def holding(info: TensorInfo) -> GgufHeader:
    return GgufHeader(info.file, 3, {}, {info.name: info}, 32, 0)


def test_blocks_mean_what_the_format_says(tmp_path, monkeypatch):
    monkeypatch.setattr("unmask.checkpoints.gguf_weights._ELEMENTS_AT_ONCE", 64)  # more than one part
    rows = [block_q8_0(scale, list(range(-16, 16))) for scale in (0.5, 1.0, 2.0, 4.0, -1.0)]
    tensor = read_tensor(stored(tmp_path, b"".join(rows), (5, 32), "Q8_0", 8))
    assert torch.equal(tensor, torch.tensor([[0.5], [1.0], [2.0], [4.0], [-1.0]]) * torch.arange(-16.0, 16.0))
    one = read_tensor(stored(tmp_path, b"".join(rows[:4]), (2, 2, 32), "Q8_0", 8), index=1)
    assert torch.equal(one, tensor[2:4])
    q4_k = read_tensor(stored(tmp_path, block_q4_k(2.0, 0.5), (256,), "Q4_K", 12))
    assert torch.equal(q4_k, torch.full((256,), 2.0 * 3 * 9 - 0.5 * 5))


def test_what_need_not_be_copied_is_not(golden, tmp_path):
    path = convert(golden / "dream/ckpt", tmp_path / "m.gguf", file_type="BF16")
    before = path.read_bytes()
    where, _ = checkpoint(golden, "dream/ckpt")
    with reader(path, where, dtype=torch.bfloat16) as weights:
        head = weights.take("lm_head.weight", (256, 64))
        once, twice = (read_tensor(read_gguf_header(path).tensors["output.weight"]) for _ in range(2))
    assert head.untyped_storage().nbytes() == 256 * 64 * 2
    once.zero_()  # their own copy of the pages; the file stays as it is
    assert torch.equal(head, twice)
    assert path.read_bytes() == before


def test_types_that_cannot_be_expanded(tmp_path):
    with pytest.raises(InvalidCheckpointError, match=r"'t' has the type Q8_1.*F32, F16, Q4_0.*Q6_K"):
        read_tensor(stored(tmp_path, bytes(40), (32,), "Q8_1", 9))
    with pytest.raises(InvalidCheckpointError, match="type I32"):
        read_tensor(stored(tmp_path, bytes(40), (10,), "I32", 26))
    unknown = TensorInfo(tmp_path / "data", "t", (32,), 222, None, 0, None)
    with pytest.raises(InvalidCheckpointError, match="type 222"):
        read_tensor(unknown)


def test_files_that_changed_since(tmp_path):
    info = stored(tmp_path, bytes(128), (32,), "F32", 0)
    info.file.write_bytes(b"short")
    with pytest.raises(InvalidCheckpointError, match="cannot be read at byte 6"):
        read_tensor(info)
    info.file.unlink()
    with pytest.raises(InvalidCheckpointError, match="cannot be read"):
        read_tensor(info)


def test_stacked_experts(golden, tmp_path, monkeypatch):
    where, tensors = checkpoint(golden, "llada2/ckpt")
    path = convert(golden / "llada2/ckpt", tmp_path / "m.gguf")
    pattern = "model.layers.1.mlp.experts.{e}.up_proj.weight"
    expected = torch.stack([tensors[pattern.format(e=e)] for e in range(16)])
    reads = []
    monkeypatch.setattr(
        "unmask.checkpoints.gguf_weights.read_tensor", lambda *info: reads.append(1) or read_tensor(*info)
    )
    with reader(path, where) as weights:
        assert torch.equal(weights.take_stacked(pattern, 16, (32, 64)), expected)
        assert len(reads) == 1
        with pytest.raises(InvalidCheckpointError, match=r"shape \[16, 32, 64\].*\[15, 32, 64\]"):
            weights.take_stacked(pattern, 15, (32, 64))
        left = [key for key in tensors if not key.startswith("model.layers.1.mlp.experts") or "up_proj" not in key]
        for key in left:
            weights.take(key, tuple(tensors[key].shape))
        weights.check_all_taken(lambda _: False)
    swapped = where | {pattern.format(e=0): where[pattern.format(e=1)], pattern.format(e=1): where[pattern.format(e=0)]}
    with reader(path, swapped) as weights:
        assert torch.equal(weights.take_stacked(pattern, 16, (32, 64)), expected[[1, 0, *range(2, 16)]])
    with reader(path, where, patch=lambda name, tensor: tensor + 1 if ".3." in name else tensor) as weights:
        patched = weights.take_stacked(pattern, 16, (32, 64))
    assert torch.equal(patched[3], expected[3] + 1)
    assert torch.equal(patched[4], expected[4])


def test_stacked_experts_of_a_safetensors_checkpoint(golden):
    path = golden / "llada2/ckpt/model.safetensors"
    _, tensors = checkpoint(golden, "llada2/ckpt")
    pattern = "model.layers.2.mlp.experts.{e}.down_proj.weight"
    with WeightReader((path,), dtype=torch.float32, device=CPU) as weights:
        stacked = weights.take_stacked(pattern, 16, (64, 32))
        assert torch.equal(stacked, torch.stack([tensors[pattern.format(e=e)] for e in range(16)]))
        with pytest.raises(
            InvalidCheckpointError, match=r"lack 'model.layers.2.mlp.experts.999999999.down_proj.weight'"
        ):
            weights.take_stacked(pattern, 10**9, (64, 32))
        with pytest.raises(InvalidCheckpointError, match="shape"):
            weights.take_stacked(pattern, 16, (32, 64))


def test_what_does_not_fit_is_named(golden, tmp_path):
    where, _ = checkpoint(golden, "llada/ckpt")
    path = convert(golden / "llada/ckpt", tmp_path / "m.gguf")
    head, query = "model.transformer.ff_out.weight", "model.transformer.blocks.0.q_proj.weight"
    with reader(path, where | {"absent": Place("nowhere.weight")}) as weights:
        assert "absent" not in weights
        with pytest.raises(InvalidCheckpointError, match="lack 'absent'"):
            weights.take("absent", (1,))
        with pytest.raises(InvalidCheckpointError, match=r"shape \[256, 64\]"):
            weights.take(head, (256, 65))
        with pytest.raises(InvalidCheckpointError, match="no use for"):
            weights.check_all_taken(lambda _: False)
    with reader(path, {"a": Place("output.weight", 256), "b": Place("output_norm.weight", -1)}) as weights:
        for name in ("a", "b"):
            with pytest.raises(InvalidCheckpointError, match="there is no matrix"):
                weights.take_any(name)
    with reader(path, {query: Place("blk.0.attn_q.weight", unpermute_heads=7)}) as weights:
        with pytest.raises(InvalidCheckpointError, match="not 7 heads"):
            weights.take_any(query)
        with pytest.raises(InvalidCheckpointError, match=r"hold 'blk\.0\."):  # in the file, and placed nowhere
            weights.check_all_taken(lambda name: name in (query, "output.weight"))


def test_permuted_rows_of_a_bias(tmp_path):
    content = np.arange(12, dtype=np.float32).reshape(2, 2, 3).swapaxes(1, 2).tobytes()
    info = stored(tmp_path, content, (12,), "F32", 0)
    header = holding(info)
    with GgufReader(header, {"b": Place("t", unpermute_heads=2)}, dtype=torch.float32, device=CPU) as weights:
        assert torch.equal(weights.take("b", (12,)), torch.arange(12.0))


def test_a_safetensors_file_that_fails_late(golden, monkeypatch):
    class Failing:
        def get_tensor(self, name):
            raise SafetensorError("the file is gone")

    path = golden / "dream/ckpt/model.safetensors"
    with WeightReader((path,), dtype=torch.float32, device=CPU) as weights:
        monkeypatch.setattr(weights, "_where", {"lm_head.weight": (path, Failing())})
        with pytest.raises(InvalidCheckpointError, match=r"'lm_head\.weight' cannot be read from .*gone"):
            weights.take("lm_head.weight", (256, 64))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers(golden, tmp_path, value):
    copied = tmp_path / "ckpt"
    shutil.copytree(golden / "llada/ckpt", copied)
    tensors = load_file(copied / "model.safetensors")
    name = "model.transformer.blocks.1.up_proj.weight"
    tensors[name][3, 5] = value
    save_file(tensors, copied / "model.safetensors")
    where, _ = checkpoint(golden, "llada/ckpt")
    safe = WeightReader((copied / "model.safetensors",), dtype=torch.float32, device=CPU)
    for weights in (safe, reader(convert(copied, tmp_path / "m.gguf"), where)):
        with weights, pytest.raises(InvalidCheckpointError, match=f"'{name}' holds NaN or infinity"):
            weights.take_any(name)


def test_weights_too_large_for_the_dtype(tmp_path):
    info = stored(tmp_path, np.array([1.0, 1e6], dtype=np.float32).tobytes(), (2,), "F32", 0)
    weights = GgufReader(holding(info), {}, dtype=torch.float16, device=CPU)
    with pytest.raises(InvalidCheckpointError, match="infinity as float16"):
        weights.take("t", (2,))


def test_a_scale_that_is_no_number_is_found(tmp_path):
    info = stored(tmp_path, block_q8_0(float("nan"), [1] * 32), (32,), "Q8_0", 8)
    weights = GgufReader(holding(info), {}, dtype=torch.float32, device=CPU)
    with pytest.raises(InvalidCheckpointError, match="'t' holds NaN"):
        weights.take("t", (32,))


def test_a_split_model(golden, tmp_path):
    where, tensors = checkpoint(golden, "dream/ckpt")
    with reader(convert(golden / "dream/ckpt", tmp_path / "m.gguf", tensors_per_shard=9), where) as weights:
        for key, tensor in tensors.items():
            assert torch.equal(weights.take(key, tuple(tensor.shape)), tensor)
        weights.check_all_taken(lambda _: False)
