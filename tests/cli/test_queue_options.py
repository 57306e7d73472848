"""Options of the queue: what is no time and no class is refused before anything is loaded."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from unmask.cli.app import app
from unmask.cli.options import named_service_classes
from unmask.service_class import ServiceClass


@pytest.mark.parametrize("option", ["--queue-timeout", "--request-timeout"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
def test_a_timeout_is_seconds(option, value):
    done = CliRunner().invoke(app, ["serve", option, value])
    assert done.exit_code == 2
    assert option in done.output


@pytest.mark.parametrize("bad", ["economy", "=0.5@0.5", "a=x@0.5", "a=0.5", "a=0.5@", "a=.@.", "a=0.5@0.5@0.5"])
def test_a_service_class_is_a_name_a_floor_and_a_load(bad):
    done = CliRunner().invoke(app, ["serve", "--service-class", bad])
    assert done.exit_code == 2
    assert "is not NAME=FLOOR@LOAD" in " ".join(done.output.split())


def test_service_classes_have_different_names():
    done = CliRunner().invoke(app, ["serve", "--service-class", "a=0.5@0.5", "--service-class", "a=0.6@0.5"])
    assert done.exit_code == 2
    assert named_service_classes(["a=0.5@0.8", "b=1@0"]) == {"a": ServiceClass(0.5, 0.8), "b": ServiceClass(1.0, 0.0)}
