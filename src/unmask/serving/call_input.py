"""The arguments of a call, which are whatever text the model wrote, as the JSON object that clients expect."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json


def input_text(arguments: str) -> str:
    """JSON text that clients can read: of ``arguments`` that broke off, what there is.

    Line breaks within strings, which models write and JSON has not, are escaped. What is no JSON object even so, or is
    nested too deeply to be read, is the value of ``INVALID_JSON``, under which clients tell the model of it.
    """
    if _is_object(arguments):
        return arguments
    try:
        repaired = json.dumps(json.loads(arguments, strict=False), ensure_ascii=False)
    except (ValueError, RecursionError):
        repaired = "null"
    return repaired if _is_object(repaired) else json.dumps({"INVALID_JSON": arguments}, ensure_ascii=False)


def parse_input(text: str) -> Any:
    """What client libraries read in such text: where it broke off, the values that are complete.

    Raises ``ValueError`` for what is no JSON, and for half of a surrogate pair.
    """
    return from_json((text or "{}").encode(), allow_partial=True, allow_inf_nan=False)


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_input(text), dict)
    except ValueError:
        return False
