"""The file of engines: strict, whole at any time, and written by one at a time."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.conftest import ROOT
from unmask.errors import InvalidEngineRegistryError
from unmask.gateway.engine import Engine, FileMark, Probed
from unmask.gateway.engine_registry import MOST_PINS, Pin, Registry, RegistryFile
from unmask.home import home

PROBED = Probed([FileMark("/opt/llama-server", 9, 8, "0" * 64)], {"autoregressive": ["llama"], "diffusion": []})
ENGINE = Engine("mine", "llama.cpp", "/opt/llama-server", "a path", PROBED)
PIN = Pin("autoregressive", "new", "llama.cpp", "9-8", "mine")


@pytest.fixture
def file(tmp_path):
    return RegistryFile(tmp_path / "home" / "engines.json")


def put(file: RegistryFile, registry: Registry) -> None:
    with file.changing() as changes:
        changes.registry = registry


def test_what_is_written_is_read(file):
    assert file.read() == Registry()
    registry = Registry().with_engine(ENGINE).with_pin(PIN)
    put(file, registry)
    assert file.read() == registry
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    put(file, file.read().with_engine(msgspec.structs.replace(ENGINE, fault="gone")))
    assert [engine.fault for engine in file.read().engines] == ["gone"]
    put(file, file.read().without("mine"))
    assert file.read() == Registry()


def test_pins_are_bounded_and_the_newest_counts(file):
    registry = Registry()
    for n in range(MOST_PINS + 5):
        registry = registry.with_pin(msgspec.structs.replace(PIN, architecture=f"a{n}"))
    registry = registry.with_pin(msgspec.structs.replace(PIN, architecture="a9", lane="other"))
    assert len(registry.pins) == MOST_PINS
    assert [pin.lane for pin in registry.pins if pin.architecture == "a9"] == ["other"]
    put(file, registry)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not hold engines"),
        ("[]", "does not hold engines"),
        ('{"version": 2}', "does not hold engines"),
        ('{"engine": []}', "unknown field"),
        ('{"engines": [{"name": "a/b", "kind": "vllm", "program": "", "source": ""}]}', "name"),
        ('{"engines": [{"name": "a", "kind": "none", "program": "", "source": ""}]}', "kind"),
        ('{"engines": [{"name": "unmask", "kind": "vllm", "program": "", "source": ""}]}', "Unmask's own"),
        (f'{{"engines": [{", ".join([msgspec.json.encode(ENGINE).decode()] * 2)}]}}', "one name"),
        ('{"engines": [], "pins": [' + " " * (4 << 20) + "]}", "larger than 4 MiB"),
        ("\udcff", "does not hold engines"),
    ],
)
def test_a_broken_file_is_named_and_not_written_over(file, text, words):
    file.path.parent.mkdir()
    data = text.encode(errors="surrogateescape")
    file.path.write_bytes(data)
    file.path.chmod(0o600)
    for use in (file.read, lambda: put(file, Registry())):
        with pytest.raises(InvalidEngineRegistryError, match=str(file.path)) as error:
            use()
        assert words in error.value.message
    assert file.path.read_bytes() == data


def test_a_file_that_others_may_write_is_refused(file):
    put(file, Registry().with_engine(ENGINE))
    file.path.chmod(0o620)
    with pytest.raises(InvalidEngineRegistryError, match="written by others"):
        file.read()


def test_what_could_not_be_read_again_is_not_written(file):
    put(file, Registry().with_engine(ENGINE))
    with pytest.raises(InvalidEngineRegistryError, match="not be readable"):
        put(file, Registry().with_engine(msgspec.structs.replace(ENGINE, name="a b")))
    assert file.read().engine("mine") == ENGINE
    assert [path.name for path in file.path.parent.iterdir() if path.suffix != ".lock"] == ["engines.json"]


ADD_FIFTEEN = """
import sys
from pathlib import Path
from unmask.gateway.engine import Engine
from unmask.gateway.engine_registry import RegistryFile
for n in range(15):
    with RegistryFile(Path(sys.argv[1])).changing() as changes:
        changes.registry = changes.registry.with_engine(Engine(f"{sys.argv[2]}{n}", "vllm", "/p", "a path"))
"""


def test_no_writer_loses_what_another_wrote(file):
    command = [sys.executable, "-c", ADD_FIFTEEN, str(file.path)]
    writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in "abcd"]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert len(file.read().engines) == 60


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path))
    assert RegistryFile().path == tmp_path / "engines.json"
    monkeypatch.delenv("UNMASK_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert home() == tmp_path / "unmask"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert home() == Path.home() / ".local" / "share" / "unmask"
