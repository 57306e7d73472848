"""The pages on commands and HTTP name all there is."""

from __future__ import annotations

import re

import pytest
import typer.main

from tests.conftest import ROOT
from unmask.cli.app import app
from unmask.events import EngineStats
from unmask.metrics import Metrics
from unmask.serving.dialects.openai_common.wire import OpenAIRequest
from unmask.serving.dialects.openai_responses.input_wire import MAX_ITEMS
from unmask.serving.dialects.openai_responses.wire import ResponseRequest
from unmask.serving.extension import GenerationReport, UnmaskOptions
from unmask.serving.response_store import StoreLimits
from unmask.serving.server_metrics import ServerMetrics
from unmask.serving.wire import Only

COMMANDS = typer.main.get_command(app).commands


def parameters(command) -> list:
    """Those of a command and of its subcommands."""
    return [*command.params, *(one for sub in getattr(command, "commands", {}).values() for one in parameters(sub))]


HTTP_API = (ROOT / "docs" / "http-api.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_every_option_and_its_variable_are_described(verb):
    assert f"## `unmask {verb}" in CLI
    for parameter in parameters(COMMANDS[verb]):
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert f"| `{parameter.opts[0]}` | `{parameter.envvar}` |" in CLI


def test_every_field_is_described():
    honoured = [
        name
        for name, field in OpenAIRequest.model_fields.items()
        if not any(isinstance(mark, Only) for mark in field.metadata)
    ]
    names = [*honoured, *UnmaskOptions.model_fields, *GenerationReport.__struct_fields__]
    assert [name for name in names if f"`{name}" not in HTTP_API] == []


def test_every_metric_is_described_and_no_other():
    text = ServerMetrics(lambda: [({"model": "m"}, Metrics("m", "llada", "diffusion", EngineStats))]).render().decode()
    families = re.findall(r"^# TYPE (\S+) (?!gauge\n.*_created)", text, re.MULTILINE)
    exposed = {name for name in families if not name.endswith("_created")}
    described = set(re.findall(r"`(unmask_\w+)`", HTTP_API))
    assert described == exposed


def test_every_field_of_a_response_is_described():
    page = (ROOT / "docs" / "responses.md").read_text()
    assert [
        name for name in ResponseRequest.model_fields if f"`{name}" not in page and "prompt_cache_" not in name
    ] == []
    limits = StoreLimits()
    days = limits.age / 86_400
    assert f"{limits.rows:,} responses, {limits.size >> 20} MiB of them in all, and each for {days:.0f} days" in page
    assert f"up to {MAX_ITEMS} items" in page
