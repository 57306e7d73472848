"""Trace files: one request a line, as JSON objects (``.jsonl``) or as CSV with a head (``.csv``)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from unmask.bench.files import reading
from unmask.errors import InvalidValueError

_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class TraceRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One request that arrives at ``time``, in seconds from any zero.

    ``output_tokens``: as the server's usage counts them. ``max_tokens``: what the request allowed; if it is not said,
    what it got. ``forwards``: what it took; if it is not said, it is drawn. ``priority`` and ``deadline_ms`` (from the
    arrival on) are for the policies that look at them.
    """

    time: _Time
    prompt_tokens: _Count
    output_tokens: _Count
    max_tokens: _Count | None = None
    forwards: _Count | None = None
    priority: Literal["interactive", "batch"] = "interactive"
    deadline_ms: Annotated[float, msgspec.Meta(gt=0, le=1e12)] | None = None


def read_trace(path: str) -> list[TraceRow]:
    """The requests of a trace file in the order of their times.

    Raises ``InvalidValueError`` that names line and field, or for a file without requests.
    """
    file = Path(path)
    if file.suffix not in (".jsonl", ".csv"):
        raise InvalidValueError(f"{path} is no trace file.", hint="Its name must end in .jsonl or .csv.")
    with reading(path), file.open(encoding="utf-8-sig", newline="") as lines:
        try:
            rows = list((_csv if file.suffix == ".csv" else _jsonl)(path, lines))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InvalidValueError(f"{path} is no text file: {error}.", hint="Write it in UTF-8.") from None
    if not rows:
        raise InvalidValueError(f"{path} holds no requests.", hint="Give one request a line.")
    return sorted(rows, key=lambda row: row.time)


def _jsonl(path: str, lines: Iterable[str]) -> Iterator[TraceRow]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _checked(path, number, msgspec.json.decode(line))
            except msgspec.DecodeError as error:
                if isinstance(error, msgspec.ValidationError):
                    raise
                raise InvalidValueError(
                    f"{path}, line {number}: {error}.", hint="Each line must be one JSON object."
                ) from None


def _csv(path: str, lines: Iterable[str]) -> Iterator[TraceRow]:
    reader = csv.DictReader(lines, restkey="(more than the head has)", strict=True)
    for record in reader:
        said = {name: value for name, value in record.items() if value not in (None, "")}
        yield _checked(path, reader.line_num, said, strict=False)


def _checked(path: str, line: int, record: Any, *, strict: bool = True) -> TraceRow:
    try:
        row = msgspec.convert(record, TraceRow, strict=strict)
    except msgspec.ValidationError as error:
        raise _invalid(path, line, str(error)) from None
    if row.max_tokens is not None and row.output_tokens > row.max_tokens:
        raise _invalid(path, line, f"More than `max_tokens` {row.max_tokens} - at `$.output_tokens`")
    return row


def _invalid(path: str, line: int, what: str) -> InvalidValueError:
    """``what`` is said as msgspec says it: the field's name stands at the end, or is what the sentence is about."""
    message, _, place = what.partition(" - at ")
    named = re.search(r"\$\.(\w+)", place) or re.search(r"field `(\w+)`", message)
    param = named.group(1) if named else None
    where = f"'{param}': " if param and place else ""
    fields = ", ".join(TraceRow.__struct_fields__)
    return InvalidValueError(
        f"{path}, line {line}: {where}{message}.", hint=f"A request has the fields {fields}.", param=param
    )
