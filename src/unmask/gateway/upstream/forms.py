"""What an answer must look like, in the words of each kind of lane."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.params import CONSTRAINTS, GenerationParams

_ANY_OBJECT = {"type": "object"}


def form_fields(params: GenerationParams, endpoint: Endpoint, *, chat: bool) -> dict[str, Any]:
    """The fields of a request to ``endpoint`` that hold its answer to the form asked for, if there is one.

    What the kind of lane does not understand was refused before (``check_params``).
    """
    if params.json_schema is not None:
        return schema_fields(params.json_schema, endpoint, chat=chat)
    if params.regex is not None:
        return _expression(params.regex, endpoint)
    if params.choices is None:
        return {}
    if not params.choices or not all(params.choices):
        raise InvalidValueError("'choices' must hold texts of at least one character.", param="choices")
    if endpoint.kind == "llama.cpp":
        return {"grammar": f"root ::= {' | '.join(map(_literal, params.choices))}"}
    if endpoint.kind == "vllm":
        return {"structured_outputs": {"choice": list(params.choices)}}
    return _expression("|".join(map(re.escape, params.choices)), endpoint)


def schema_fields(schema: Any, endpoint: Endpoint, *, chat: bool) -> dict[str, Any]:
    """The same for a JSON schema. Only chats have a field for it in OpenAI's API; engines have one of their own."""
    if not isinstance(schema, dict):
        raise UnsupportedValueError(
            f"'json_schema' must be an object: lane '{endpoint.lane}' takes no other schema.", param="json_schema"
        )
    if not chat:
        return _text_schema(schema, endpoint)
    if endpoint.kind == "remote" and schema == _ANY_OBJECT:
        return {"response_format": {"type": "json_object"}}
    named = {"name": "answer", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _text_schema(schema: dict[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    match endpoint.kind:
        case "llama.cpp":
            return {"json_schema": schema}
        case "vllm":
            return {"structured_outputs": {"json": schema}}
        case "sglang":
            return {"json_schema": msgspec.json.encode(schema).decode()}
    raise UnsupportedValueError(
        f"'json_schema' is understood by lane '{endpoint.lane}' in chats only.",
        hint="Ask in a chat.",
        param="json_schema",
    )


def _expression(regex: str, endpoint: Endpoint) -> dict[str, Any]:
    return {"structured_outputs": {"regex": regex}} if endpoint.kind == "vllm" else {"regex": regex}


def _literal(text: str) -> str:
    """``text`` as a grammar of llama.cpp's writes it."""
    return f'"{"".join(_character(one) for one in text)}"'


def _character(one: str) -> str:
    if one in '"\\':
        return f"\\{one}"
    return one if one.isprintable() else f"\\x{ord(one):02x}" if ord(one) < 256 else f"\\U{ord(one):08x}"


def check_prefill(prefill: str, params: GenerationParams, endpoint: Endpoint) -> None:
    """Raises ``UnsupportedValueError`` where a form would count the beginning of the answer, which is given, too."""
    form = next((name for name in CONSTRAINTS if getattr(params, name) is not None), None)
    if prefill and form and endpoint.kind == "llama.cpp":
        raise UnsupportedValueError(
            f"'{form}' does not go with an answer that is begun: lane '{endpoint.lane}' holds the beginning to it too.",
            hint="End with a message of the user's.",
            param="messages",
        )
