"""The ``unmask`` object of a request beside the dialect's own fields."""

from __future__ import annotations

from typing import Any

from unmask.errors import InvalidValueError
from unmask.serving.extension import UnmaskOptions


def decoding_options(
    options: UnmaskOptions, *, stream: bool, schema: Any = None, schema_name: str = "", at: str = "unmask"
) -> dict[str, Any]:
    """What ``GenerationParams`` take of ``options``, which stand at ``at``, but for ``ignore_eos`` and frames.

    ``schema``: what the dialect's own field ``schema_name`` says the answer looks like. Raises ``InvalidValueError``
    for canvas frames without a ``stream``, and for two schemas.
    """
    if options.canvas is not None and not stream:
        raise InvalidValueError(f"'{at}.canvas' needs 'stream': true.", param=f"{at}.canvas")
    decoding = options.decoding()
    if schema is None:
        return decoding
    if decoding["json_schema"] is not None:
        raise InvalidValueError(
            f"'{schema_name}' and '{at}.json_schema' both say what the answer looks like.",
            hint="Give one of them.",
            param=f"{at}.json_schema",
        )
    return decoding | {"json_schema": schema}
