"""What the OpenAPI document says of responses: bodies, streams and errors, each as its dialect sends it."""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]

_EVENT: Json = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
_LEFT_OUT = ("title", "$defs", "discriminator")  # a discriminator refers to parts by their names
EVENTS: Json = {"text/event-stream": {"itemSchema": _EVENT}}  # OpenAPI 3.2's word for each of many


def responses(
    error: type[msgspec.Struct], answer: type[msgspec.Struct] | None = None, stream: Json | None = None
) -> dict[int | str, Json]:
    """The ``responses`` of a route: an ``answer`` in JSON (None: as the route's own type says), or a ``stream`` by its
    media type, or an ``error``.
    """
    told = {"description": "An error", "content": {"application/json": {"schema": schema_of(error)}}}
    whole = {} if answer is None else {"application/json": {"schema": schema_of(answer)}}
    return {200: {"description": "The answer", "content": whole | (stream or {})}, "4XX": told, "5XX": told}


def schema_of(kind: type[msgspec.Struct]) -> Json:
    """The JSON schema of ``kind``, with all that it refers to in its place: a document knows no other one's parts."""
    schema = msgspec.json.schema(kind)
    inlined: Json = _inline(schema, schema["$defs"])
    return inlined


def _inline(node: Any, parts: Json) -> Any:
    if isinstance(node, list):
        return [_inline(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(parts[node["$ref"].removeprefix("#/$defs/")], parts)
    return {name: _inline(value, parts) for name, value in node.items() if name not in _LEFT_OUT}
