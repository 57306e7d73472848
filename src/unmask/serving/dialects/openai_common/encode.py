"""What every OpenAI response and chunk begins with, and how it becomes an HTTP response."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from unmask.answers.answer import Answer
from unmask.serving.extension import report_headers


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of one response; the same on all chunks of a stream."""

    id: str
    created: int
    model: str

    @classmethod
    def new(cls, prefix: str, model: str) -> Head:
        """A head with a fresh id and the present time."""
        return cls(f"{prefix}-{secrets.token_hex(12)}", int(time.time()), model)


async def respond(make: Callable[[], msgspec.Struct], answers: Sequence[Answer]) -> Response:
    """The body that ``make`` makes of ``answers`` as a successful HTTP response, with their cost in its headers.

    Log-probabilities can be very many, so that they are encoded in a thread: other requests must not wait for it.
    """

    def build() -> Response:
        return json_response(make(), report_headers(answers))

    return await asyncio.to_thread(build) if any(answer.logprobs for answer in answers) else build()


def json_response(body: msgspec.Struct, headers: Mapping[str, str] | None = None) -> Response:
    """``body`` as a successful HTTP response."""
    return Response(msgspec.json.encode(body), headers=headers, media_type="application/json")
