"""The lanes that are known here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import gguf
import pytest

from tests.foreign_models import gguf_file
from tests.gateway.known import LLAMA_CPP, OWN
from unmask.checkpoints.paradigm import judge_gguf
from unmask.gateway.advertised import advertised
from unmask.gateway.lanes import known_lanes
from unmask.gateway.mainline import LOADED_NOT_SERVED, MAINLINE
from unmask.gateway.routing import route
from unmask.models.card import inspect_model

NO_PACKAGE = {"missing": "the package xllamacpp is not installed", "remedy": 'pip install "unmask[llamacpp]"'}


@pytest.fixture(params=[True, False], ids=["installed", "not installed"])
def installed(request, tmp_path, monkeypatch):
    """Whether the package that brings llama.cpp is there."""
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    if request.param:
        (tmp_path / "xllamacpp").mkdir()
        (tmp_path / "xllamacpp" / "__init__.py").write_text("raise SystemExit('imported')")
        monkeypatch.syspath_prepend(tmp_path)
    else:
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
    return request.param


def test_our_own_engine_and_llama_cpp(installed):
    own, llama_cpp = known_lanes()
    assert own == OWN
    assert llama_cpp == replace(
        LLAMA_CPP, missing="" if installed else NO_PACKAGE["missing"], remedy=NO_PACKAGE["remedy"]
    )


def test_a_decoder_without_llama_cpp(installed, tmp_path):
    found = route(inspect_model(str(gguf_file("llama")(tmp_path / "model"))), known_lanes())
    if installed:
        assert found.lane.name == "llama.cpp"
    else:
        assert found.code == "lane_missing"
        assert NO_PACKAGE["missing"] in found.message
        assert NO_PACKAGE["remedy"] in found.remedy


def test_the_names_of_llama_cpp():
    """None is missing that its converters know, who are older."""
    known = set(gguf.MODEL_ARCH_NAMES.values())
    assert advertised(known, "tokens")["autoregressive"] <= MAINLINE
    assert known >= LOADED_NOT_SERVED
    assert not MAINLINE & LOADED_NOT_SERVED


@pytest.mark.parametrize("name", sorted(MAINLINE | LOADED_NOT_SERVED))
def test_each_name_is_told_for_what_it_is(tmp_path, name):
    card = inspect_model(str(gguf_file(name)(tmp_path / "model")))
    assert card.paradigm == ("diffusion" if name in LOADED_NOT_SERVED else "autoregressive")


def test_no_encoder_is_taken_for_a_decoder(tmp_path):
    """What the converters make vectors with, by name."""
    from unmask.checkpoints.gguf_split import read_gguf

    names = [name for name in gguf.MODEL_ARCH_NAMES.values() if "bert" in name or "embed" in name.split("-")]
    assert len(names) > 6
    for name in [*names, "gemma-embedding", "t5encoder"]:
        file = gguf_file(name)(tmp_path / name)
        assert judge_gguf(read_gguf(file)).paradigm == "encoder", name


def test_neither_torch_nor_a_web_framework():
    code = (
        "import sys; import unmask.gateway.lanes, unmask.gateway.routing;"
        "print({'torch', 'numpy', 'fastapi', 'starlette'} & set(sys.modules) or '')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
