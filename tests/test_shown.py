"""Messages stay short, and a terminal obeys nothing in them."""

from __future__ import annotations

import json

import pytest

from tests.engines import make_loop
from tests.foreign_models import tiny_copy
from tests.infos import model_info
from unmask.checkpoints.prompts import PromptEncoder
from unmask.cli.inspect import _table
from unmask.errors import InvalidValueError, UnmaskError
from unmask.models.card import inspect_model
from unmask.models.load import load_model
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.shown import printable, shown

HUGE = [
    "x" * 10**7,
    ["y" * 1000] * 1000,
    {str(n): [n] * 100 for n in range(1000)},
    10**10_000,
    [10**10_000],
    [[[[[[[["deep"]]]]]]]],
    b"z" * 10**6,
]


@pytest.mark.parametrize("value", HUGE, ids=lambda value: type(value).__name__)
def test_whatever_is_given_the_message_is_short(value):
    assert len(shown(value)) <= 203


@pytest.mark.parametrize("value", [0, -1.5, True, None, "a 'quoted' \n text", [1, "b"], {"k": (1,)}])
def test_what_is_short_is_shown_as_it_is(value):
    assert shown(value) == repr(value)


@pytest.mark.parametrize("value", [HUGE[0], *HUGE[2:]], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["max_tokens", "temperature", "rule", "cache", "ignore_eos", "stop", "end_tokens"])
def test_no_parameter_is_repeated_at_length(name, value):
    with pytest.raises(InvalidValueError) as caught:
        resolve(GenerationParams(**{name: value}), model_info("full"), 1)
    assert caught.value.param == name
    assert len(str(caught.value)) < 600


def test_no_model_or_configuration_is_repeated_at_length(tmp_path):
    assert len(inspect_model("no such model" * 10_000).refusal.message) < 300
    for key in ("architectures", "n_heads", "rope_scaling", "eos_token_id"):
        path = tiny_copy(tmp_path / key, **{key: ["a" * 10_000] * 20})
        with pytest.raises(UnmaskError) as caught:
            load_model(str(path), device="cpu")
        assert len(str(caught.value)) < 600, key


def test_a_conversation_that_is_refused_is_not_repeated_at_length(tmp_path):
    path = tiny_copy(tmp_path / "model")
    template = "{{ raise_exception('no: ' + messages[0].content) }}"
    (path / "chat_template.jinja").write_text(template)
    prompts = PromptEncoder(str(path), make_loop(path).model)
    with pytest.raises(InvalidValueError, match="refuses this conversation: no: x") as caught:
        prompts.encode([{"role": "user", "content": "x" * 10_000}])
    assert len(str(caught.value)) < 300


def test_control_characters_of_a_path_are_escaped(tmp_path):
    assert printable("a\x1b[31mb\nc\udcff\u202e é") == "a\\x1b[31mb\\nc\\udcff\\u202e é"
    path = tiny_copy(tmp_path / "red\x1b[31m\nrows")
    card = inspect_model(str(path))
    shown_path = next(line for line in _table(card).splitlines() if line.startswith("path"))
    assert shown_path.endswith("red\\x1b[31m\\nrows")
    assert json.loads(json.dumps(card.path)).endswith("red\x1b[31m\nrows"), "JSON has its own escapes"
