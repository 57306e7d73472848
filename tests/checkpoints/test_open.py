"""Opening models of every kind: what Unmask serves is found in any form, all else is refused by its own name."""

from __future__ import annotations

import json
import os
import shutil

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.foreign_models import FOREIGN, LLADA, SMALL, gguf_file, hugging_face, json_directory, tiny_copy
from unmask.checkpoints.directory import EMBEDDED_MODEL, find_checkpoint, open_checkpoint
from unmask.checkpoints.paradigm import judge_config
from unmask.errors import (
    CheckpointNotFoundError,
    InvalidCheckpointError,
    PickleRefusedError,
    UnmaskError,
)
from unmask.models.load import load_model
from unmask.models.registry import FAMILIES, describe

GGUF_ARCHITECTURES = ("llada", "llada-moe", "llada2", "dream", "rnd1", "diffusion-gemma", "diffusiongemma")


@pytest.mark.parametrize("kind", FOREIGN)
def test_each_foreign_model_is_refused_by_name(tmp_path, kind):
    code, words, build = FOREIGN[kind]
    model = str(build(tmp_path / "model"))
    with pytest.raises(UnmaskError) as caught:
        describe(open_checkpoint(model))
    assert caught.value.code == code
    assert words in str(caught.value)
    assert caught.value.hint
    with pytest.raises(UnmaskError) as again:  # as serve and run do
        load_model(model, device="cpu")
    assert str(again.value) == str(caught.value)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_no_config_of_ours_is_foreign(architecture):
    assert judge_config({"architectures": [architecture]}).paradigm == "diffusion"


def test_code_in_a_checkpoint_is_no_error_and_never_run(tmp_path):
    path = tiny_copy(tmp_path / "model", auto_map={"AutoModel": "modeling_trap.Trap"})
    (path / "modeling_trap.py").write_text("raise SystemExit('run')")
    assert open_checkpoint(str(path)).verdict.paradigm == "diffusion"
    assert load_model(str(path), device="cpu").spec.family == "llada"


@pytest.mark.parametrize("architecture", GGUF_ARCHITECTURES)
def test_gguf_files(tmp_path, architecture):
    file = gguf_file(architecture, name="my-model.gguf")(tmp_path / "model")
    checkpoint = open_checkpoint(str(file))
    assert (checkpoint.format, checkpoint.name, checkpoint.path) == ("gguf", "my-model", file)
    assert checkpoint.architecture == checkpoint.header.architecture == architecture
    assert (checkpoint.weights, checkpoint.config, checkpoint.generation) == ((file,), {}, {})
    renamed = file.rename(file.with_name("model.bin"))  # its content says what it is
    assert open_checkpoint(str(renamed)).format == "gguf"


def write_shards(path, count=3):
    path.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(path / "dream.gguf", "dream", split_max_tensors=1)
    for number in range(count):
        writer.add_tensor(f"blk.{number}.attn_norm.weight", np.zeros(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(path.glob("*.gguf"))


def test_any_shard_or_the_directory_opens_a_split_model(tmp_path):
    shards = write_shards(tmp_path / "model")
    assert len(shards) == 3
    (tmp_path / "model" / "mmproj-dream.gguf").write_bytes(b"sidecar")
    for model in (*shards, tmp_path / "model"):
        checkpoint = open_checkpoint(str(model))
        assert (checkpoint.name, checkpoint.path, checkpoint.weights) == ("dream", shards[0], tuple(shards))
    shards[1].unlink()
    with pytest.raises(InvalidCheckpointError, match="00002-of-00003"):
        open_checkpoint(str(tmp_path / "model"))


def test_a_directory_of_several_gguf_models(tmp_path):
    for name in ("a-Q4_0.gguf", "b-Q8_0.gguf"):
        file = gguf_file("llada", name=name)(tmp_path / name.replace(".", "_"))
        (tmp_path / "model").mkdir(exist_ok=True)
        file.rename(tmp_path / "model" / name)
    with pytest.raises(InvalidCheckpointError, match="2 GGUF models") as caught:
        open_checkpoint(str(tmp_path / "model"))
    assert "a-Q4_0" in caught.value.message
    tiny_copy(tmp_path / "both")
    (tmp_path / "model" / "a-Q4_0.gguf").rename(tmp_path / "both" / "a.gguf")
    assert open_checkpoint(str(tmp_path / "both")).format == "safetensors"  # a config.json wins
    (tmp_path / "both" / "model.safetensors").unlink()
    with pytest.raises(InvalidCheckpointError, match="lacks its weights") as caught:
        open_checkpoint(str(tmp_path / "both"))
    assert "a.gguf" in caught.value.hint


def test_a_directory_may_be_called_anything(tmp_path):
    path = tiny_copy(tmp_path / "x.gguf")
    assert open_checkpoint(str(path)).format == "safetensors"
    (tmp_path / "y.gguf").mkdir()
    with pytest.raises(CheckpointNotFoundError, match=r"no config\.json"):
        open_checkpoint(str(tmp_path / "y.gguf"))


def test_the_text_pipelines_with_a_config_are_models(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (path / "model_index.json").write_text('{"_class_name": "LLaDA2Pipeline"}')
    assert open_checkpoint(str(path)).verdict.paradigm == "diffusion"


def test_other_kinds_are_found_though_not_opened(tmp_path):
    config = {"architectures": ["LlamaForCausalLM"]}
    found = find_checkpoint(str(hugging_face(**config)(tmp_path / "model")))
    assert (found.verdict.paradigm, found.architecture) == ("autoregressive", "LlamaForCausalLM")


def test_adapters_and_pickles_beside_a_model_do_not_matter(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (path / "adapter_config.json").write_text("{}")
    (path / "training_args.bin").write_bytes(b"\x80\x02}q.")
    assert open_checkpoint(str(path)).name == "model"


def test_the_index_names_the_shards(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (path / "stray.safetensors").write_bytes(b"")
    names = {"a": "model.safetensors", "b": "../../etc/model-2.safetensors"}
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    with pytest.raises(InvalidCheckpointError, match=r"lacks its weights \(model-2.safetensors\)"):
        open_checkpoint(str(path))
    save_file(SMALL, path / "model-2.safetensors")
    assert [file.name for file in open_checkpoint(str(path)).weights] == ["model-2.safetensors", "model.safetensors"]


def test_a_short_header_is_not_taken_for_a_pickle(tmp_path):
    """640 bytes of header begin as a pickle of protocol 2 does."""
    path = tiny_copy(tmp_path / "model")
    file = path / "model.safetensors"
    save_file(SMALL, file, metadata={"x": "y" * 100})
    content = file.read_bytes()
    header = content[8 : 8 + int.from_bytes(content[:8], "little")].ljust(0x280)
    file.write_bytes((0x280).to_bytes(8, "little") + header + content[-32:])
    assert file.read_bytes()[:2] == b"\x80\x02"
    assert open_checkpoint(str(path)).name == "model"


HOSTILE = {
    "fifo": lambda path: os.mkfifo(path),
    "loop": lambda path: path.symlink_to(path),
    "dangling": lambda path: path.symlink_to("/nowhere/at/all"),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "empty": lambda path: path.touch(),
    "directory": lambda path: path.mkdir(),
    "words": lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n"),
}


@pytest.mark.parametrize("suffix", [".gguf", ".safetensors", ".bin", ""])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_for_a_model(tmp_path, kind, suffix):
    path = tmp_path / f"model{suffix}"
    HOSTILE[kind](path)
    with pytest.raises((InvalidCheckpointError, CheckpointNotFoundError, PickleRefusedError)):
        open_checkpoint(str(path))


NAMES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_in_a_directory(tmp_path, kind, name):
    path = tiny_copy(tmp_path / "model", mask_token_id=None)
    (path / name).unlink(missing_ok=True)
    HOSTILE[kind](path / name)
    with pytest.raises((InvalidCheckpointError, CheckpointNotFoundError)):
        describe(open_checkpoint(str(path)))


@pytest.mark.parametrize("kind", ["fifo", "loop", "dangling", "device", "directory"])
def test_weights_that_are_no_file(tmp_path, kind):
    path = tiny_copy(tmp_path / "model")
    (path / "model.safetensors").unlink()
    HOSTILE[kind](path / "model.safetensors")
    with pytest.raises(InvalidCheckpointError, match=r"lacks its weights \(model.safetensors\)"):
        open_checkpoint(str(path))


@pytest.mark.parametrize(
    "architectures",
    [["A" * 5_000_000], ["A" * 900_000], [{"a": ["b"] * 1000}], "x" * 10_000, [["LLaDAModelLM"]], {}, [None], [1e308]],
    ids=lambda value: str(value)[:20],
)
def test_odd_architectures(tmp_path, architectures):
    path = tiny_copy(tmp_path / "model", architectures=architectures)
    with pytest.raises(UnmaskError) as caught:
        describe(open_checkpoint(str(path)))
    assert caught.value.code in ("invalid_checkpoint", "unknown_architecture")
    assert len(str(caught.value)) < 1000


def test_a_loop_of_directories(tmp_path):
    path = tiny_copy(tmp_path / "model")
    (path / "again").symlink_to(path)
    assert open_checkpoint(str(path / "again" / "again")).name == "model"


def test_the_embedded_model_goes_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_checkpoint(EMBEDDED_MODEL).name == EMBEDDED_MODEL


def test_a_directory_that_may_not_be_read(tmp_path, monkeypatch):
    path = tiny_copy(tmp_path / "model")

    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("unmask.checkpoints.directory.refuse_directory", forbidden)
    with pytest.raises(InvalidCheckpointError, match="Permission denied"):
        open_checkpoint(str(path))


def test_too_many_shards(tmp_path):
    path = json_directory(config=LLADA)(tmp_path / "model")
    for number in range(1025):
        (path / f"{number}.safetensors").touch()
    with pytest.raises(InvalidCheckpointError, match="1024 shards"):
        open_checkpoint(str(path))
    shutil.rmtree(path)
