"""What does not fit into memory is refused before anything is read, with something to do that helps."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.engines import generate, make_loop
from tests.golden.checkpoints import served_copy
from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.weights import TensorReader
from unmask.engine import fit
from unmask.engine.free_memory import host_bytes, total_bytes
from unmask.errors import InsufficientMemoryError, UnmaskError
from unmask.models.int8 import Int8Weight, int8_unavailable
from unmask.models.load import load_model
from unmask.models.registry import describe
from unmask.models.weight_bytes import weight_shapes

GIB = 2**30
needs_int8 = pytest.mark.skipif(int8_unavailable(torch.device("cpu")) is not None, reason="no int8 on this CPU")


@pytest.fixture
def left(monkeypatch):
    """Sets what memory is left."""
    return lambda count: monkeypatch.setattr(fit, "available_bytes", lambda device: count)


def sizes():
    """Bytes of the embedded model's weights, and of one position in its cache."""
    spec = describe(open_checkpoint("unmask-tiny"))
    return 4 * load_model("unmask-tiny", device="cpu").parameters, 4 * spec.shape.cache_width, spec.shape.context_length


def refused(**options) -> InsufficientMemoryError:
    with pytest.raises(InsufficientMemoryError) as caught:
        make_loop("unmask-tiny", **options)
    assert "unmask-tiny needs" in caught.value.message
    assert caught.value.hint
    return caught.value


def test_the_limit_is_weights_and_two_contexts_to_the_byte(left):
    weights, position, context = sizes()
    left(weights + 2 * context * position)
    assert generate(make_loop("unmask-tiny"), [1, 40, 3], max_tokens=4).error is None
    left(weights + 2 * context * position - 1)
    error = refused()
    assert error.param == "max_context"


def test_nothing_is_read_of_what_does_not_fit(left, monkeypatch):
    monkeypatch.setattr(TensorReader, "take", lambda *_: pytest.fail("a tensor was read"))
    left(1000)
    error = refused()
    assert (error.param, "smaller model" in error.hint) == (None, True)


def test_the_context_that_the_hint_names_is_the_largest_that_fits(left):
    weights, position, _ = sizes()
    left(weights + 1000 * position)
    assert "max_context (--max-context) of at most 480" in refused().hint
    with pytest.raises(InsufficientMemoryError):
        make_loop("unmask-tiny", max_context=512)
    assert make_loop("unmask-tiny", max_context=480, max_running=1).model.context_length == 480


def test_the_kv_tokens_that_the_hint_names_are_the_most_that_fit(left):
    weights, position, _ = sizes()
    left(weights + 1000 * position)
    error = refused(max_context=64, kv_tokens=2048)
    assert (error.param, "at most 992 kv_tokens" in error.hint) == ("kv_tokens", True)
    make_loop("unmask-tiny", max_context=64, kv_tokens=992)


def test_half_the_bits_are_offered_where_they_help(left):
    weights, position, context = sizes()
    left((weights + 2 * context * position) // 2)
    assert "bfloat16" in refused(dtype="float32").hint
    make_loop("unmask-tiny", dtype="bfloat16")
    left(weights - 1)
    assert "dtype bfloat16 (--dtype) with a smaller context." in refused(dtype="float32").hint
    left(weights // 8)
    assert "bfloat16" not in refused(dtype="float32").hint


@needs_int8
def test_int8_is_offered_where_it_helps(left):
    weights, position, context = sizes()
    model = load_model("unmask-tiny", device="cpu", quantize="int8")
    packed = sum(linear.parameters for linear in [*model.linears(), model.output_head])
    needed = weights - 3 * packed + 2 * context * position
    left(needed)
    assert "quantize int8 (--quantize)" in refused().hint
    make_loop("unmask-tiny", quantize="int8")
    left(needed - 1)
    assert "int8 (--quantize) with a smaller context" in refused().hint
    assert "int8" not in refused(quantize="int8").hint


@needs_int8
def test_matrices_become_int8_as_they_are_read(monkeypatch):
    """So never two of them are floats at once."""
    events = []
    take, pack = TensorReader.take, Int8Weight.__init__

    def taking(self, name, shape):
        events.append(len(shape))
        return take(self, name, shape)

    def packing(self, weight):
        events.append("packed")
        pack(self, weight)

    monkeypatch.setattr(TensorReader, "take", taking)
    monkeypatch.setattr(Int8Weight, "__init__", packing)
    model = load_model("unmask-tiny", device="cpu", quantize="int8")
    linears = [*model.linears(), model.output_head]
    assert all(isinstance(linear.weight, Int8Weight) for linear in linears)
    matrices = "".join("p" if event == "packed" else "m" for event in events if event in ("packed", 2))
    assert matrices[0] == "m", "the embedding"
    pieces = matrices[1:].split("p")
    assert sorted(len(piece) for piece in pieces) == sorted([0, *(len(linear.parts) for linear in linears)])


def test_where_free_memory_cannot_be_told_nothing_is_refused(left):
    left(None)
    make_loop("unmask-tiny", max_context=64)
    assert fit.available_bytes(torch.device("mps")) is None


@pytest.mark.parametrize("family", ["llada/ckpt", "llada_moe/ckpt", "llada2/ckpt", "sdar/ckpt", "diffusion_gemma/ckpt"])
def test_what_is_counted_is_what_is_loaded(golden, tmp_path, family):
    checkpoint = open_checkpoint(str(served_copy(golden / family, tmp_path)))
    loaded = load_model(checkpoint, device="cpu")
    counted = sum(math.prod(shape) for _, shape in weight_shapes(checkpoint, describe(checkpoint)))
    assert counted == pytest.approx(loaded.parameters, rel=1e-4)


def test_gguf_files_are_counted_too(golden, left):
    left(1000)
    with pytest.raises(InsufficientMemoryError, match="dream-q8_0 needs"):
        make_loop(golden / "gguf" / "dream-q8_0.gguf")


def test_a_driver_is_asked_for_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5 * GIB, 8 * GIB))
    assert fit.available_bytes(torch.device("cuda:0")) == 5 * GIB


def test_it_comes_back_from_an_engine_process_as_it_is():
    error = UnmaskError.from_code("insufficient_memory", "words", "hint")
    assert isinstance(error, InsufficientMemoryError)


def lay(root: Path, **files: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / name.replace("__", ".")).write_text(content)


def machine(tmp_path: Path, cgroup: str, available: int = 16 * GIB) -> tuple[Path, Path]:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    lay(proc, meminfo=f"MemTotal: 33554432 kB\nMemAvailable:   {available // 1024} kB\n")
    lay(proc / "self", cgroup=cgroup)
    return proc, groups


def test_a_machine_without_groups(tmp_path):
    assert host_bytes(*machine(tmp_path, "")) == 16 * GIB
    assert host_bytes(tmp_path / "none", tmp_path / "none") is None


def test_the_tightest_group_around_the_process_counts(tmp_path):
    proc, groups = machine(tmp_path, "0::/pod/box\n")
    lay(groups / "pod" / "box", memory__max="max\n", memory__current=f"{GIB}\n")
    assert host_bytes(proc, groups) == 16 * GIB
    lay(groups / "pod", memory__max=f"{6 * GIB}\n", memory__current=f"{4 * GIB}\n")
    assert host_bytes(proc, groups) == 2 * GIB
    lay(groups / "pod", memory__stat=f"anon 7\ninactive_file {GIB}\nactive_file {GIB // 2}\nbroken\n")
    assert host_bytes(proc, groups) == 3 * GIB + GIB // 2, "what is only cached can be had back"
    lay(groups / "pod" / "box", memory__max=str(GIB))
    assert host_bytes(proc, groups) == 0


def test_what_there_is_in_all_is_what_the_machine_has_or_its_groups_allow(tmp_path):
    proc, groups = machine(tmp_path, "0::/pod/box\n")
    assert total_bytes(proc, groups) == 32 * GIB
    lay(groups / "pod", memory__max=f"{6 * GIB}\n", memory__current=f"{4 * GIB}\n")
    assert total_bytes(proc, groups) == 6 * GIB
    assert total_bytes(tmp_path / "none", tmp_path / "none") is None


def test_the_older_groups(tmp_path):
    proc, groups = machine(tmp_path, "5:cpu:/x\n4:memory,hugetlb:/box\n0::/\n")
    lay(groups / "memory" / "box", memory__limit_in_bytes=str(3 * GIB), memory__usage_in_bytes=str(GIB))
    assert host_bytes(proc, groups) == 2 * GIB
    lay(groups / "memory" / "box", memory__limit_in_bytes="9223372036854771712")
    assert host_bytes(proc, groups) == 16 * GIB


@pytest.mark.parametrize("cgroup", ["0", "::", "0::/../../etc\n" * 1000, "\xff:\x00", "0::" + "/a" * 100_000])
def test_whatever_stands_in_those_files(tmp_path, cgroup):
    proc, groups = machine(tmp_path, cgroup)
    assert host_bytes(proc, groups) == 16 * GIB
    lay(proc, meminfo="MemAvailable: lots kB\nnonsense")
    assert host_bytes(proc, groups) is None


def test_this_machine_has_some():
    assert host_bytes() is None or host_bytes() > 2**20
