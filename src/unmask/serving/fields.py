"""Fields of a request under their own names: two for one thing, and errors that name the one that was sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from unmask.errors import InvalidValueError, UnmaskError
from unmask.serving.extension import UnmaskOptions

T = TypeVar("T")


def agree(name: str, value: T | None, other_name: str, other: T | None) -> T | None:
    """The value of a field that has two names. Raises ``InvalidValueError`` if they contradict each other."""
    if value is not None and other is not None and value != other:
        raise InvalidValueError(f"'{name}' and '{other_name}' differ.", hint="Send one of them.", param=other_name)
    return other if value is None else value


@contextmanager
def field_names(extension: str = "unmask", **names: str) -> Iterator[None]:
    """Errors from inside name parameters; let them name request fields, those in ``names`` first.

    ``extension``: where the dialect keeps the options that are the same in all dialects.
    """
    try:
        yield
    except UnmaskError as error:
        for name in names.keys() & {error.param, error.beside}:
            error.message = error.message.replace(f"'{name}'", f"'{names[name]}'")
            error.hint = error.hint.replace(f"'{name}'", f"'{names[name]}'")
        if error.param in names:
            error.param = names[error.param]
        elif error.param in UnmaskOptions.model_fields:
            error.param = f"{extension}.{error.param}"
        raise
