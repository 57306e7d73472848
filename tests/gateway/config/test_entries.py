"""All models of a server, by their names."""

from __future__ import annotations

import os

import pytest

from tests.foreign_models import gguf_file, tiny_copy
from tests.gateway.config.files import config, refusal
from unmask.errors import InvalidConfigError
from unmask.gateway.config.config import Config
from unmask.gateway.config.entries import entries
from unmask.gateway.config.folder import models_in
from unmask.gateway.config.wanted import LocalSource


def names(found):
    return [entry.name for entry in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """As people have models: files, split files, directories, and organisations with their models."""
    root = tmp_path_factory.mktemp("models")
    tiny_copy(root / "LLaDA-tiny")
    (root / "org").mkdir()
    tiny_copy(root / "org" / "tiny")
    for name in ("llama-Q4.gguf", "mmproj-llama.gguf", "my model.gguf", ".hidden.gguf"):
        gguf_file("llama")(root / "made").rename(root / name)
        (root / "made").rmdir()
    (root / "org" / "files").mkdir()
    for number in (1, 2):
        (root / "org" / "files" / f"big-0000{number}-of-00002.gguf").write_bytes(b"GGUF")
    (root / "notes.txt").write_text("no model")
    (root / "empty").mkdir()
    (root / "org" / "loop").symlink_to(root)
    return root


def test_nothing_named_is_the_embedded_model():
    (entry,) = entries(Config())
    assert (entry.name, entry.source, entry.preload, entry.idle_seconds) == (
        "unmask-tiny", LocalSource("unmask-tiny"), True, None,
    )  # fmt: skip


def test_models_of_the_command_line_are_called_as_their_checkpoints(folder):
    given = [str(folder / "LLaDA-tiny"), str(folder / "llama-Q4.gguf"), "org/name@main", "unmask-tiny"]
    given += [str(folder / "org" / "files"), str(folder / "org" / "files" / ".." / "tiny"), "no/such/model.gguf"]
    found = entries(Config(), given)
    assert names(found) == ["LLaDA-tiny", "llama-Q4", "org/name", "unmask-tiny", "big", "tiny", "model.gguf"]
    assert [entry.source.model for entry in found] == given
    assert [entry.preload for entry in found] == [True] + [False] * 6
    assert all(entry.named for entry in found)


def test_a_link_is_called_as_before(folder, tmp_path):
    (tmp_path / "directory").symlink_to(folder / "LLaDA-tiny")
    (tmp_path / "file.gguf").symlink_to(folder / "llama-Q4.gguf")
    assert names(entries(Config(), [str(tmp_path / "directory"), str(tmp_path / "file.gguf")])) == [
        "LLaDA-tiny",
        "file",
    ]


def test_a_folder_is_searched(folder):
    found = dict(models_in(folder))
    assert {name for name in found if "loop" not in name} == {
        "LLaDA-tiny",
        "llama-Q4",
        "my-model",
        "org/tiny",
        "org/files/big",
    }
    assert found["org/files/big"].name == "big-00001-of-00002.gguf"


def test_configured_models_come_before_those_of_the_folder_and_are_not_there_twice(folder, tmp_path):
    text = f"""
models_dir: {folder}
idle_seconds: 60
models:
  mine: {{path: {folder}/LLaDA-tiny, threads: 1}}
"""
    found = entries(config(tmp_path, text), ["unmask-tiny"])
    assert names(found)[:2] == ["unmask-tiny", "mine"]
    assert "LLaDA-tiny" not in names(found)
    assert "llama-Q4" in names(found)
    assert {entry.idle_seconds for entry in found} == {60}


def test_a_configured_name_on_the_command_line_means_that_model(tmp_path):
    found = config(tmp_path, "models: {a: {path: x}, b: {path: y, aliases: [bee]}}")
    assert [(entry.name, entry.preload) for entry in entries(found, ["bee"])] == [("b", True), ("a", False)]


TWICE = [
    ("models: {a: {path: x, aliases: [c]}, b: {path: y, aliases: [c]}}", "'c'", "'a'", "'b'"),
    ("models: {a: {path: x}, b: {path: y, aliases: [a]}}", "'a'", "x;", "y;"),
    ("models: {a: {path: x, aliases: [a]}}", "'a'", "twice", ""),
    ("models: {a: {path: x, aliases: [b, b]}}", "'b'", "twice", ""),
    ("models: {a: {path: x, lora: {m: z}}, 'a:m': {path: y}}", "'a:m'", "'a'", "'a:m'"),
]


@pytest.mark.parametrize(("text", *"abc"), TWICE)
def test_two_models_of_one_name_are_both_named(tmp_path, text, a, b, c):
    error = refusal(tmp_path, text)
    assert error.code == "invalid_config"
    assert all(word in error.message for word in (a, b, c))
    assert f"{tmp_path / 'unmask.yaml'}:1" in error.message


def test_two_models_of_one_name_on_the_command_line(folder, tmp_path):
    tiny_copy(tmp_path / "LLaDA-tiny")
    with pytest.raises(InvalidConfigError, match=f"{folder}.*{tmp_path}"):
        entries(Config(), [str(folder / "LLaDA-tiny"), str(tmp_path / "LLaDA-tiny")])


def test_two_models_of_one_name_in_a_folder(tmp_path):
    (tmp_path / "a b.gguf").touch()
    (tmp_path / "a-b.gguf").touch()
    with pytest.raises(InvalidConfigError, match=r"a b\.gguf"):
        entries(Config(models_dir=tmp_path))


def test_an_empty_folder_gives_no_models(tmp_path):
    assert entries(Config(models_dir=tmp_path)) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InvalidConfigError, match="No such file") as caught:
        entries(Config(models_dir=tmp_path / "x"))
    assert caught.value.param == "models_dir"


def test_a_folder_with_too_many_models(tmp_path):
    for number in range(1025):
        (tmp_path / f"{number}.gguf").touch()
    with pytest.raises(InvalidConfigError, match="over 1024 models"):
        entries(Config(models_dir=tmp_path))


def test_names_that_are_not_utf8(tmp_path):
    (tmp_path / os.fsdecode(b"\xff.gguf")).touch()
    assert names(entries(Config(models_dir=tmp_path))) == ["-"]
