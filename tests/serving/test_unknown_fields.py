"""A field that is not there is refused with the one that was meant, if any; never with one that is not there either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args, get_origin

import pytest

from unmask.serving.app import create_app
from unmask.serving.extension import UnmaskOptions
from unmask.serving.unknown_field import advice
from unmask.serving.wire import Only, WireModel, names_of

assert create_app  # imports every dialect


def kinds(model: type[WireModel] = WireModel) -> Iterator[type[WireModel]]:
    for kind in model.__subclasses__():
        yield kind
        yield from kinds(kind)


MODELS = sorted({kind for kind in kinds() if kind.__module__.startswith("unmask.")}, key=str)


def takes(model: type[WireModel], path: str) -> bool:
    """Whether an object of ``model`` has a field at ``path``, in objects only, that is there to be used."""
    name, _, rest = path.partition(".")
    field = next((one for own, one in model.model_fields.items() if (one.alias or own) == name), None)
    if field is None or (name != "think" and not field.is_required() and any(map(gate, field.metadata))):
        return False
    if not rest:
        return True
    lists = get_origin(field.annotation) is list
    kinds = [] if lists else [kind for kind in (field.annotation, *get_args(field.annotation)) if is_object(kind)]
    return any(takes(kind, rest) for kind in kinds)


def gate(mark: object) -> bool:
    """Whether a field passes only with certain values: of optional ones, those that ask for nothing."""
    return isinstance(mark, Only)


def is_object(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, WireModel)


def meant(model: type[WireModel], name: str) -> str | None:
    hint = advice(model, name, "")
    return None if hint is None else hint.split("'")[1]


def test_all_requests_are_looked_at():
    assert len(MODELS) > 50
    assert sum(len(model.foreign_names) for model in MODELS) > 90


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_every_hint_names_a_field_that_is_taken(model):
    for name, path in model.foreign_names.items():
        assert name not in names_of(model), "it has such a field itself"
        assert takes(model, path), path
        assert meant(model, name) == path
    asked = {name for other in MODELS for name in (*names_of(other), *other.foreign_names)}
    asked |= {f"{name[:-1]}" for name in asked} | {f"{name}s" for name in asked} | {name.upper() for name in asked}
    for name in asked - names_of(model):
        path = meant(model, name)
        assert path is None or takes(model, path), (name, path)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_a_field_that_is_spelled_nearly_right_is_named(model):
    for name in names_of(model):
        slip = name[:4] + name[5:]
        known = takes(model, name) and len(name) > 6 and slip not in names_of(model)
        if known and not any(name in other.foreign_names for other in MODELS):
            assert meant(model, slip) == name


CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
TEXT = {"prompt": "hi", "max_tokens": 2}
RESPONSE = {"input": "hi", "max_output_tokens": 2}
HINTS = [
    ("/v1/chat/completions", CHAT, {"max_token": 9}, "Did you mean 'max_tokens'?"),
    ("/v1/chat/completions", CHAT, {"unmask": {"rul": "d2f"}}, "Did you mean 'unmask.rule'?"),
    ("/v1/chat/completions", CHAT, {"maxTokens": 9}, "Did you mean 'max_tokens'?"),
    ("/v1/chat/completions", CHAT, {"max_output_tokens": 9}, "Use 'max_completion_tokens'."),
    ("/v1/chat/completions", {}, {"input": "hi"}, "Use 'messages'."),
    ("/v1/chat/completions", CHAT, {"rule": "d2f"}, 'Use \'unmask.rule\': {"unmask": {"rule": ...}}.'),
    ("/v1/chat/completions", CHAT, {"unmask.rule": "d2f"}, 'Use \'unmask.rule\': {"unmask": {"rule": ...}}.'),
    ("/v1/chat/completions", CHAT, {"guided_choice": ["a"]}, 'Use \'unmask.choices\': {"unmask": {"choices": ...}}.'),
    ("/v1/chat/completions", CHAT, {"guided_grammar": "x"}, "Leave it out."),
    ("/v1/chat/completions", CHAT, {"remasking": "random"}, 'Use \'unmask.rule\': {"unmask": {"rule": ...}}.'),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "contents": "hi"}]},
        {},
        "Did you mean 'messages[0].content'?",
    ),
    (
        "/v1/chat/completions",
        CHAT | {"tools": [{"type": "function", "name": "f"}]},
        {},
        "Use 'tools[0].function.name'.",
    ),
    ("/v1/completions", {}, {"messages": []}, "Use 'prompt'."),
    ("/v1/completions", TEXT, {"guided_regex": "a"}, 'Use \'unmask.regex\': {"unmask": {"regex": ...}}.'),
    ("/v1/responses", RESPONSE, {"max_tokens": 9}, "Use 'max_output_tokens'."),
    ("/v1/responses", RESPONSE, {"max_completion_tokens": 9}, "Use 'max_output_tokens'."),
    ("/v1/responses", {}, {"messages": []}, "Use 'input'."),
    ("/v1/responses", RESPONSE, {"response_format": {}}, 'Use \'text.format\': {"text": {"format": ...}}.'),
    ("/v1/responses/input_tokens", {"input": "hi"}, {"max_tokens": 9}, "Leave it out."),
    ("/v1/messages", CHAT, {"stop": ["a"]}, "Use 'stop_sequences'."),
    ("/v1/messages", CHAT, {"max_token": 9}, "Did you mean 'max_tokens'?"),
    ("/v1/messages", CHAT, {"threads": 1}, "Leave it out."),
    ("/v1/messages", CHAT, {"seed": 1}, "Leave it out."),
    ("/v1/chat/completions", CHAT, {"role": "user"}, "Leave it out."),
    ("/api/chat", {}, {"temprature": 1}, "Did you mean 'options.temperature'?"),
    (
        "/v1/messages",
        CHAT,
        {"response_format": {}},
        'Use \'output_config.format\': {"output_config": {"format": ...}}.',
    ),
    ("/v1/messages/count_tokens", {"messages": CHAT["messages"]}, {"stop": ["a"]}, "Leave it out."),
    ("/v1/chat/completions", {}, {"input": "hi", "nonsense": 1}, "Use 'messages'."),
    ("/tokenize", {}, {"text": "hi"}, "Use 'prompt'."),
    ("/detokenize", {}, {"ids": [1]}, "Use 'tokens'."),
]
OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "num_predict": "num_predict",
    "max_tokens": "num_predict",
    "unmask": "unmask",
}


async def hint(http, path, body):
    """What is said after naming the field."""
    async with http.post(path, json=body) as response:
        assert response.status == 400, await response.text()
        told = await response.json()
    error = told if path.startswith("/api/") else told["error"]
    message = error["error"] if path.startswith("/api/") else error["message"]
    assert error["code"] == "unknown_field"
    start = f"Unknown field '{error['param']}'. "
    assert message.startswith(start)
    return message.removeprefix(start)


@pytest.mark.parametrize(("path", "body", "more", "told"), HINTS)
async def test_the_field_that_was_meant_is_told(http, path, body, more, told):
    assert await hint(http, path, body | more) == told


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_ollamas_options_stand_in_an_object(http, path):
    body = {"messages": CHAT["messages"]} if path == "/api/chat" else {"prompt": "hi"}
    for name, option in OPTIONS.items():
        told = f'Use \'options.{option}\': {{"options": {{"{option}": ...}}}}.'
        assert await hint(http, path, body | {name: 1}) == told
    assert await hint(http, path, body | {"options": {"max_tokens": 9}}) == "Use 'options.num_predict'."
    assert await hint(http, path, body | {"options": {"rule": "d2f"}}) == "Use 'options.unmask.rule'."
    assert await hint(http, path, body | {"guided_json": {}}) == "Use 'format'."


async def test_what_is_missing_goes_before_a_field_that_means_nothing(http):
    for fields, told in (({"nonsense": 1}, "'messages': field required."), ({"nonsense": 1, "max_tokens": "x"}, "")):
        async with http.post("/v1/chat/completions", json=fields) as response:
            assert response.status == 400
            error = (await response.json())["error"]
        assert error["code"] == "invalid_value"
        assert error["message"].startswith(told)


async def test_a_field_without_a_name_is_refused_as_one(http):
    assert await hint(http, "/v1/chat/completions", CHAT | {"": 1}) == "Leave it out."


def test_hints_of_long_names_are_quick_and_quiet():
    assert advice(UnmaskOptions, "rule" * 10**6, "unmask") is None
