"""OpenAI's published schemas of what its servers send, as far as these tests need them.

`python -m tests.conformance.vendor_schemas OPENAPI.json` takes them anew from a description of the API
(github.com/openai/openai-openapi, MIT licence); what is in the repository came from commit f85dbe2 of 2026-08-21.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).parents[1] / "data" / "openai-schemas.json"
WANTED = (
    "CreateChatCompletionResponse",
    "CreateChatCompletionStreamResponse",
    "CreateCompletionResponse",
    "ErrorResponse",
    "ListModelsResponse",
    "Model",
    "Response",
    "ResponseItemList",
    "ResponseStreamEvent",
    "TokenCountsResource",
)
_PROSE = ("description", "example", "examples", "title", "deprecated", "externalDocs")


def check(body: object, name: str) -> None:
    """Raises ``jsonschema.ValidationError`` unless ``body`` is what OpenAI calls a ``name``."""
    _validator(name).validate(body)


def check_event(event: dict[str, Any]) -> None:
    """Raises ``jsonschema.ValidationError`` unless ``event`` is what a stream of a response has under its type."""
    check(event, _events()[event["type"]])


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schemas = _schemas()
    return jsonschema.Draft202012Validator({"components": {"schemas": schemas}, "$ref": f"#/components/schemas/{name}"})


@cache
def _events() -> dict[str, str]:
    """Names of schemas, by the type of the event that they describe."""
    schemas = _schemas()
    choices = [choice["$ref"].rpartition("/")[2] for choice in schemas["ResponseStreamEvent"]["anyOf"]]
    return {schemas[name]["properties"]["type"]["enum"][0]: name for name in choices}


@cache
def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = json.loads(SCHEMAS.read_text())
    return schemas


def extract(description: dict[str, Any]) -> dict[str, Any]:
    """The ``WANTED`` schemas and those that they refer to, without prose and in JSON Schema's own words."""
    schemas = description["components"]["schemas"]
    found: dict[str, Any] = {}
    missing = list(WANTED)
    while missing:
        name = missing.pop()
        if name not in found:
            found[name] = _plain(schemas[name])
            missing += re.findall(r"#/components/schemas/([\w.-]+)", json.dumps(found[name]))
    return dict(sorted(found.items()))


def _plain(node: Any) -> Any:
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {
        name: _plain(value)
        for name, value in node.items()
        if not name.startswith("x-") and (name not in _PROSE or isinstance(value, dict))
    }
    if kept.get("nullable") is True:  # OpenAPI 3.0's word for it, which JSON Schema does not know
        del kept["nullable"]
        return {"anyOf": [kept, {"type": "null"}]}
    return kept


if __name__ == "__main__":
    extracted = extract(json.loads(Path(sys.argv[1]).read_text()))
    lines = [f"{json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in extracted.items()]
    SCHEMAS.parent.mkdir(exist_ok=True)
    SCHEMAS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
