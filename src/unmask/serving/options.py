"""What requests of several dialects say in the same way: the ``unmask`` object, beside fields of a dialect's own."""

from __future__ import annotations

from typing import Any

from unmask.errors import InvalidValueError
from unmask.serving.extension import UnmaskOptions


def decoding_options(
    options: UnmaskOptions | None, *, stream: bool, schema: Any = None, schema_name: str = "", at: str = "unmask"
) -> dict[str, Any]:
    """What ``GenerationParams`` take of ``options``, which stand at ``at``.

    ``schema``: what the dialect's own field ``schema_name`` says the answer looks like. Raises ``InvalidValueError``
    for canvas frames without a ``stream``, and for two schemas.
    """
    options = options or UnmaskOptions()
    if options.canvas is not None and not stream:
        raise InvalidValueError(f"'{at}.canvas' needs 'stream': true.", param=f"{at}.canvas")
    decoding = options.decoding()
    if schema is None:
        return decoding
    if options.json_schema is not None:
        raise InvalidValueError(
            f"'{schema_name}' and '{at}.json_schema' both say what the answer looks like.",
            hint="Give one of them.",
            param=f"{at}.json_schema",
        )
    return decoding | {"json_schema": schema}


def alternatives(top_logprobs: int | None, *, asked: bool, by: str) -> int | None:
    """How many alternatives are asked for with each token; None if no log-probabilities are ``asked`` for, ``by`` what
    the dialect has for that. Raises ``InvalidValueError`` for alternatives alone.
    """
    if asked:
        return top_logprobs or 0
    if top_logprobs:
        raise InvalidValueError(f"'top_logprobs' needs {by}.", param="top_logprobs")
    return None
