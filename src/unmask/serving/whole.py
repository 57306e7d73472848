"""Answers that are not streamed, as one HTTP response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from unmask.answers.answer import Answer
from unmask.serving.admission import Admission
from unmask.serving.body import json_response
from unmask.serving.connection import unless_disconnected
from unmask.serving.extension import report_headers


async def answer_whole(
    request: Request, admission: Admission, encode: Callable[[list[Answer]], msgspec.Struct]
) -> Response:
    """Run ``admission`` and respond with what ``encode`` makes of its answers. Raises ``ClientDisconnect``."""
    with admission.running():
        answers = await unless_disconnected(request.receive, admission.answers())
        return await respond(lambda: encode(answers), answers)


async def respond(make: Callable[[], msgspec.Struct], answers: Sequence[Answer]) -> Response:
    """The body that ``make`` makes of ``answers``, with their cost in its headers.

    Log-probabilities can be very many, so that they are encoded in a thread: other requests must not wait for it.
    """

    def build() -> Response:
        return json_response(make(), report_headers(answers))

    return await asyncio.to_thread(build) if any(answer.logprobs for answer in answers) else build()
