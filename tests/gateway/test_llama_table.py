"""Which architectures a build of llama.cpp knows, from its files."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from tests.gateway.builds import RELEASED, table
from unmask.gateway.advertised import advertised
from unmask.gateway.lanes import known_lanes
from unmask.gateway.llama_table import architectures_in
from unmask.gateway.mainline import LOADED_NOT_SERVED, MAINLINE


@pytest.fixture
def file(tmp_path):
    """Writes bytes into a file."""

    def write(data: bytes) -> Path:
        path = tmp_path / "program"
        path.write_bytes(data)
        return path

    return write


def test_the_real_llama_cpp():
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed; install unmask[llamacpp]")
    package = Path(importlib.util.find_spec("xllamacpp").origin).parent
    known = architectures_in(next(package.glob("xllamacpp*.so")))
    assert known >= MAINLINE | LOADED_NOT_SERVED
    assert not known & {"llada2", "diffusion-gemma", "diffusiongemma", "sdar", "(unknown)"}
    assert len(known) > len(MAINLINE | LOADED_NOT_SERVED)  # it is newer than the table
    lane = known_lanes()[1]
    assert lane.architectures == advertised(known, "tokens")
    assert lane.advertises("autoregressive", "qwen2")
    assert lane.mark
    for name in (*LOADED_NOT_SERVED, "clip", "bert", "t5"):
        assert not any(lane.advertises(paradigm, name) for paradigm in ("autoregressive", "diffusion"))


def test_names_that_nobody_knows_here_are_found(file):
    assert architectures_in(file(table(*RELEASED, "fork-of-mine"))) == {*RELEASED, "fork-of-mine"}


def test_a_linker_may_have_put_names_elsewhere(file):
    """One that ends another string is stored with that; one of an earlier part of the program stands there."""
    run = [name for name in RELEASED if name not in ("bert", "qwen2", "gemma3")]
    assert "rwkv6qwen2" in run
    found = architectures_in(file(b"\0gemma3\0of the mtmd library\0" + bytes(5000) + table(*run)))
    assert {"qwen2", "gemma3"} <= found
    assert found == set(RELEASED)


def test_a_name_far_away_is_another_program_s(file):
    run = [name for name in RELEASED if name != "xverse"]
    assert "xverse" not in architectures_in(file(b"\0xverse\0" + bytes(5 << 20) + table(*run)))


def test_a_linker_that_keeps_no_order(file):
    names = list(RELEASED)
    random.Random(1).shuffle(names)
    scattered = b"".join(b"\0" + name.encode() + b"\0Some words between" for name in names)
    assert architectures_in(file(scattered + b"\0(unknown)\0")) == set(RELEASED)


@pytest.mark.parametrize(
    "data",
    [b"x", b"\0(unknown)\0" * 1000, table(), table("llama", "qwen2"), bytes(200_000), b"\0llama" * 50_000],
    ids=["a byte", "only ends", "an empty table", "two names", "zeros", "no end"],
)
def test_what_has_no_table(file, data):
    assert architectures_in(file(data)) == frozenset()


def test_words_before_the_table_are_none_of_it(file):
    assert architectures_in(file(b"\0unknown\0vulkan" + table(*RELEASED))) == set(RELEASED)
    run = b"".join(name.encode() + b"\0" for name in (*RELEASED, "(unknown)"))
    assert architectures_in(file(b"\0unknown\0token_embd.weighclip\0" + run)) == set(RELEASED)
    assert architectures_in(file(b"\0%s\0unknown\0" + run)) == set(RELEASED)


def test_another_table_before_it_is_passed_over(file):
    assert architectures_in(file(table("one", "two") + bytes(100) + table(*RELEASED))) == set(RELEASED)


def test_as_what_they_are_served():
    known = {*RELEASED, "llada2", "sdar-moe", "diffusion-gemma", "new-model", "nomic-bert", "clip"}
    tokens = advertised(known, "tokens")
    assert tokens == {"autoregressive": MAINLINE | {"new-model"}}
    for speaks in ("canvases", "logits"):
        assert advertised(known, speaks) == {"diffusion": {"diffusion-gemma"}}
        assert advertised(RELEASED, speaks) == {"diffusion": frozenset()}
