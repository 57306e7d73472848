"""The page on the configuration names all that there is, and its examples are right."""

from __future__ import annotations

import re
import typing
from dataclasses import fields

import pytest

from tests.conftest import ROOT
from tests.test_docs import cells_under, quoted
from unmask.gateway.config.amounts import idle_time
from unmask.gateway.config.budget import MemoryBudget
from unmask.gateway.config.config import Config
from unmask.gateway.config.defaults import PLAIN
from unmask.gateway.config.document import MOST_DEPTH, MOST_VALUES
from unmask.gateway.config.effect import _TAKEN
from unmask.gateway.config.folder import MOST_MODELS
from unmask.gateway.config.reading import MOST_BYTES, read_config
from unmask.gateway.config.schema import ConfigTable, ModelTable, ServiceClassTable
from unmask.gateway.config.wanted import WantedModel
from unmask.gateway.lane import LaneKind

PAGE = (ROOT / "docs" / "config.md").read_text()


def test_every_key_is_described_and_no_other():
    whole, model = (cells_under(part, "key | default | meaning") for part in PAGE.split("## A model\n"))
    assert [key for keys, *_ in whole for key in quoted(keys)] == [*ConfigTable.model_fields]
    assert {key for keys, *_ in model for key in quoted(keys)} == {*ModelTable.model_fields}
    classes = next(meaning for keys, _, meaning in model if "`service_classes`" in keys)
    assert [key for key in ServiceClassTable.model_fields if f"`{key}`" not in classes] == []
    assert [name for name in PLAIN if f"`{name}`" not in PAGE.split("### Defaults")[1]] == []


def test_the_examples_are_right_and_the_same(tmp_path):
    found = {}
    for form, text in re.findall(r"```(yaml|toml)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / f"unmask.{form}").write_text(text)
        found[form] = read_config(tmp_path / f"unmask.{form}")
    assert [entry.name for entry in found["yaml"].models] == ["assistant", "small", "mercury"]
    assert found["yaml"].memory_budget == found["toml"].memory_budget == MemoryBudget(share=0.8)
    assert found["toml"].models[0].defaults == found["yaml"].models[0].defaults


def test_documented_defaults_are_in_force(tmp_path):
    _, model = (cells_under(part, "key | default | meaning") for part in PAGE.split("## A model\n"))
    (tmp_path / "x.yaml").write_text("models: {a: {path: unmask-tiny}}")
    (entry,) = read_config(tmp_path / "x.yaml").models
    for keys, default, _ in model:
        for name in quoted(keys):
            if default in ("true", "false") and name in {field.name for field in fields(WantedModel)}:
                assert getattr(entry, name) is (default == "true"), name
    assert f"| `slots` | {entry.llama_cpp().slots} |" in PAGE
    assert f"{entry.llama_cpp().context} for llama.cpp" in PAGE
    assert Config().idle_seconds is None
    assert "| `idle_seconds` | -1 |" in PAGE
    assert idle_time(-1) == float("inf")


def test_bounds_are_those_of_the_code():
    assert f"{MOST_BYTES >> 10} KiB, {MOST_VALUES:,} values and {MOST_DEPTH} levels" in PAGE
    assert f"Over {MOST_MODELS} models" in PAGE


def test_every_kind_of_engine_says_what_it_takes():
    assert {*_TAKEN} == {*typing.get_args(LaneKind)}


@pytest.mark.parametrize("name", sorted({field.name for field in fields(Config)} - {"path"}))
def test_every_field_of_a_configuration_has_a_key(name):
    assert name in ConfigTable.model_fields
