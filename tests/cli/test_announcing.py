"""What `unmask serve` says once it listens: a request to try, and what is not served and why."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.gateway.house.files import write_config
from unmask.cli.serve import _announce
from unmask.engine.options import EngineOptions
from unmask.gateway.config.reading import read_config
from unmask.serving.opening import HousePlan
from unmask.serving.settings import ServerSettings

TINY = {"path": "unmask-tiny"}


@pytest.fixture
def announced(tmp_path, capsys):
    """What is said of these models, line by line."""

    def call(models: dict) -> list[str]:
        config = read_config(write_config(tmp_path / "x.yaml", models))
        engine = EngineOptions(model="unmask-tiny", threads=1)
        house = HousePlan(models=[], engine=engine, settings=ServerSettings(), config=config).open()
        capsys.readouterr()
        _announce(house, "http://127.0.0.1:1", secured=False)
        return capsys.readouterr().err.splitlines()

    return call


@pytest.mark.parametrize(
    ("models", "named"), [({"mine": TINY}, None), ({"mine": TINY, "other": TINY | {"context": 64}}, "mine")]
)
def test_the_request_to_try_is_one_that_works(announced, models, named):
    words = shlex.split(announced(models)[-1])
    assert words[:3] == ["Try:", "curl", "http://127.0.0.1:1/v1/chat/completions"]
    body = json.loads(words[-1])
    assert body.get("model") == named
    assert body["messages"]


def test_what_is_not_served_comes_with_what_to_do_and_a_count_of_the_rest(announced):
    missing = {f"gone{number}": {"path": f"nowhere{number}"} for number in range(11)}
    said = announced({"tiny": TINY, "lost": TINY | {"lane": "llama.cpp"}} | missing)
    first = next(place for place, line in enumerate(said) if line.startswith("warning: 'lost' is not served: "))
    assert said[first + 1].startswith("hint: Take 'lane' out of the configuration, or --lane out of the command: ")
    warnings = [line for line in said if line.startswith("warning: ")]
    assert len(warnings) == 9
    assert warnings[-1] == "warning: and 4 more are not served; see 'unmask ps'."
