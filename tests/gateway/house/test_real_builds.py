"""A real ``llama-server``: what it turns out to know, and a second one that is asked for what it only says to know.

Skipped where there is none: see ``real_llama``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests import gguf_files
from tests.gateway.conftest import nothing_left
from tests.gateway.house.asking import DIALECTS, ask
from tests.gateway.house.engines import registered
from tests.gateway.house.files import write_config
from tests.gateway.real_fork import ARCHITECTURE, fork_of
from tests.gateway.real_llama import llama_server
from tests.gateway.test_rescue import Loader, add
from tests.serving.processes import serve
from unmask.errors import NoLaneError
from unmask.gateway.engine_lanes import registered_lanes, without_disproved
from unmask.gateway.engine_probe import probe
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.linked_files import linked_files
from unmask.gateway.llama_table import architectures_in
from unmask.gateway.mainline import LOADED_NOT_SERVED, MAINLINE
from unmask.gateway.rescue import load_or_rescue
from unmask.gateway.routing import Route, route
from unmask.models.card import inspect_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program() -> Path:
    return llama_server()


@pytest.fixture(scope="module")
def fork(program, tmp_path_factory) -> Path:
    return fork_of(program, tmp_path_factory.mktemp("fork") / "bin")


@pytest.fixture(scope="module")
def model(smollm2, tmp_path_factory) -> Path:
    """SmolLM2, called ``gptj``."""
    return gguf_files.relabelled(smollm2, tmp_path_factory.mktemp("model") / "gptj.gguf", ARCHITECTURE)


def test_what_it_knows(program):
    begun = time.monotonic()
    kind, found = probe("llama.cpp", program)
    print(f"probed in {time.monotonic() - begun:.2f} s, {len(found.files)} files")
    served = set(found.architectures["autoregressive"])
    assert (kind, [*found.architectures]) == ("llama.cpp", ["autoregressive"])
    assert served >= MAINLINE
    assert not served & LOADED_NOT_SERVED
    table = frozenset().union(*map(architectures_in, linked_files(program)))
    assert table >= LOADED_NOT_SERVED
    assert not table & {"llada2", "diffusion-gemma", "sdar"}


def test_the_second_build_knows_it_by_another_name(fork):
    _, found = probe("llama.cpp", fork)
    assert {ARCHITECTURE, "gptx"} <= set(found.architectures["autoregressive"])


@pytest.fixture
def file(tmp_path, monkeypatch) -> RegistryFile:
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path / "home"))
    return RegistryFile()


def lanes(file: RegistryFile):
    registry = file.read()
    return without_disproved(registered_lanes(registry), registry.pins)


async def test_two_real_builds(program, fork, model, file, directory, mark):
    add(file, "released", program)
    add(file, "fork", fork)
    card = inspect_model(str(model))
    first = route(card, lanes(file))
    assert isinstance(first, Route)
    assert first.lane.name == "released"
    loader = Loader(file, str(model), directory, mark)
    used, child = await load_or_rescue(card, lanes(file), first.lane, loader, file)
    await child.close()
    assert used.name == "fork"
    log = directory.log_path("m").read_text()
    assert "error loading model: unsupported model architecture: 'gptj'" in log
    assert [(pin.architecture, pin.failed, pin.lane) for pin in file.read().pins] == [
        (ARCHITECTURE, "released", "fork")
    ]
    again = route(card, lanes(file))
    assert isinstance(again, Route)
    assert again.lane.name == "fork"
    assert nothing_left(mark)


async def test_alone_it_is_an_explanation(program, model, file, directory, mark):
    add(file, "released", program)
    card, known = inspect_model(str(model)), lanes(file)
    with pytest.raises(NoLaneError, match="released advertises the autoregressive architecture 'gptj', and said"):
        await load_or_rescue(card, known, known[0], Loader(file, str(model), directory, mark), file)


async def test_it_is_served_by_the_second_in_every_dialect(fork, model, session, tmp_path, monkeypatch):
    """The first is llama.cpp's package, which lists the architecture too."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed; install unmask[llamacpp]")
    registered(tmp_path, fork=fork)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config = write_config(tmp_path / "models.yaml", {"m": {"path": str(model), "threads": 1, "context": 512}})
    with serve("--config", str(config)) as server:
        told = [
            await ask(session, server.url, dialect, "m", "The capital of France is", stream=stream)
            for dialect in DIALECTS
            for stream in (False, True)
        ]
        assert {(one.status, one.complete) for one in told} == {(200, True)}
        assert all("Paris" in one.text for one in told[2 * DIALECTS.index("completions") :][:2]), told
    (pin,) = RegistryFile(tmp_path / "unmask" / "engines.json").read().pins
    assert (pin.failed, pin.lane) == ("llama.cpp", "fork")
