"""The arguments of a call, which are whatever text the model wrote, as the JSON object that clients expect."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json


def input_text(arguments: str) -> str:
    """JSON text that clients can read: of ``arguments`` that broke off, what there is.

    Line breaks within strings, which models write and JSON has not, are escaped. What is no JSON object even so is the
    value of ``INVALID_JSON``, under which clients tell the model of it.
    """
    if _is_object(arguments):
        return arguments
    try:
        value = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        value = None
    return json.dumps(value if isinstance(value, dict) else {"INVALID_JSON": arguments}, ensure_ascii=False)


def parse_input(text: str) -> Any:
    """What client libraries read in such text: where it broke off, the values that are complete."""
    return from_json(text or "{}", allow_partial=True)


def is_whole(arguments: str) -> bool:
    """Whether ``arguments`` are a JSON object that did not break off."""
    try:
        return isinstance(json.loads(arguments, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_input(text), dict)
    except ValueError:
        return False
