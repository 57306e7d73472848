"""Files cut at any byte, and large ones: a named verdict each, at once, and no engine is asked for one."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.checkpoints.test_gguf_header import ARRAY, F32, STRING, array, file, pair, tensor, text
from tests.foreign_models import gguf_file, json_directory, lone_weights
from tests.gateway.known import ALL
from tests.timing import within
from unmask.errors import UnmaskError
from unmask.gateway.routing import Route, route
from unmask.models.card import inspect_model
from unmask.refusal import Refusal

CODES = {kind.code for kind in UnmaskError.__subclasses__()}
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "max_position_embeddings": 64, "é": [1.5, None, True],
}  # fmt: skip


def decoder(path):
    """The directory of an autoregressive model; its config is not as ``json.dump`` would break it."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    save_file({"w": np.zeros((2, 4), np.float32)}, path / "model.safetensors")
    return path


# What is made, which of its files is cut, and the code that the file has as long as it is not whole.
CUT = {
    "gguf": (gguf_file("llama", llama__context_length=8, general__name="é"), "", {"invalid_checkpoint"}),
    "weights of a directory": (decoder, "model.safetensors", {"invalid_checkpoint"}),
    "weights alone": (lone_weights("lora_A"), "", {"invalid_checkpoint"}),
    "config": (decoder, "config.json", {"invalid_checkpoint"}),
    "pipeline": (
        json_directory(model_index={"_class_name": "FluxPipeline"}), "model_index.json", {"invalid_checkpoint"}
    ),
    "adapter": (
        json_directory(adapter_config={"base_model_name_or_path": "é/b"}), "adapter_config.json", {"invalid_checkpoint"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CUT)
def test_a_file_cut_at_any_byte(tmp_path, kind):
    build, name, codes = CUT[kind]
    model = build(tmp_path / "model")
    cut_file = model / name if name else model
    whole = cut_file.read_bytes()
    before = route(inspect_model(str(model)), ALL)
    for size in range(len(whole)):
        cut_file.write_bytes(whole[:size])
        found = route(inspect_model(str(model)), ALL)
        assert isinstance(found, Refusal), size
        assert found.code in codes, (size, found)
        assert found.message
        assert found.remedy
    assert within(0.1, lambda: inspect_model(str(model)))
    cut_file.write_bytes(whole)
    assert route(inspect_model(str(model)), ALL) == before
    assert before.code not in codes if isinstance(before, Refusal) else before.lane


@pytest.mark.parametrize("kind", CUT)
def test_a_file_with_any_byte_changed(tmp_path, kind):
    """It may mean something else then; it never ends in anything but a decision."""
    build, name, _ = CUT[kind]
    model = build(tmp_path / "model")
    changed = model / name if name else model
    whole = changed.read_bytes()
    for place in range(len(whole)):
        for byte in (0xFF, whole[place] ^ 1):
            changed.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            found = route(inspect_model(str(model)), ALL)
            assert isinstance(found, Route) or found.code in CODES


def test_a_vocabulary_of_a_quarter_million(tmp_path):
    tokens = b"".join(text(f"token{n}") for n in range(262_144))
    merges = b"".join(text(f"tok en{n}") for n in range(250_000))
    path = tmp_path / "model.gguf"
    path.write_bytes(
        file(
            array("tokenizer.ggml.tokens", STRING, 262_144, tokens),
            array("tokenizer.ggml.merges", STRING, 250_000, merges),
            array("tokenizer.ggml.scores", F32, 262_144, bytes(4 * 262_144)),
            pair("general.architecture", STRING, text("llama")),
            tensors=(tensor("token_embd.weight"),),
            data=128,
        )
    )
    begun = time.process_time()
    found = route(inspect_model(str(path)), ALL)
    spent = time.process_time() - begun
    assert found.lane.name == "llama.cpp"
    print(f"{path.stat().st_size / 2**20:.1f} MiB of header in {spent * 1000:.0f} ms")
    assert within(0.5, lambda: inspect_model(str(path)))


NESTED = pair("a", ARRAY, (b"\x09\0\0\0" + b"\x01" + bytes(7)) * 5000)


@pytest.mark.parametrize(
    "content",
    [b"", b"GGUF", file(array("a", 0, 2**60)), file(NESTED), file(pair("a", 13, bytes(8))), file(pair_count=2**62)],
)
def test_hostile_headers_reach_no_engine(tmp_path, content):
    """The readers' own tests have many more."""
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert route(inspect_model(str(path)), ALL).code == "invalid_checkpoint"
    assert within(0.1, lambda: route(inspect_model(str(path)), ALL))
