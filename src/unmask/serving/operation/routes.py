"""GET /unmask/models and /unmask/requests, and what is done to a model. A model's name may hold slashes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from unmask.errors import InvalidValueError, LogNotFoundError, RequestNotFoundError
from unmask.gateway.log_tail import LogPiece, read_since, read_tail
from unmask.serving.body import json_response
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.journal import Journal, RequestRecord
from unmask.serving.models import Served
from unmask.serving.operation.told import tell, tell_all
from unmask.serving.operation.wire import (
    LogQuery,
    LogTold,
    ModelList,
    ModelTold,
    RequestList,
    RequestsQuery,
    Stopped,
)
from unmask.serving.security.needs import needs
from unmask.shown import shown

_USUAL_LINES = 200

router = APIRouter()


@router.get("/unmask/models", responses=responses(ErrorEnvelope, ModelList))
@needs("manage")
async def list_models(house: Served) -> Response:
    """Where each model is in its life, who uses it, and why others are not served."""
    return json_response(ModelList([*tell_all(house)]))


@router.post("/unmask/models/{name:path}/load", responses=responses(ErrorEnvelope, ModelTold))
@needs("manage")
async def load_model(name: str, request: Request, house: Served) -> Response:
    """Load a model, and answer once it is there. It stays as if it had been used now."""

    async def load() -> None:
        async with house.hold(name):
            pass

    await unless_disconnected(request.receive, load())
    return json_response(tell(house, name))


@router.post("/unmask/models/{name:path}/stop", responses=responses(ErrorEnvelope, Stopped))
@needs("manage")
async def stop_model(name: str, house: Served) -> Response:
    """Stop a model, or its load, whoever uses it, and answer once its memory is free. The next request loads it."""
    before = await house.stop(name)
    told = tell(house, name)
    return json_response(
        Stopped(name=told.name, was=before.state, users=before.users, waiting=before.waiting, model=told)
    )


@router.get("/unmask/models/{name:path}/log", responses=responses(ErrorEnvelope, LogTold))
@needs("manage")
async def read_log(name: str, query: Annotated[LogQuery, Query()], house: Served) -> Response:
    """What the child that serves a model has written, be it of a life that has ended."""
    if query.lines is not None and query.after is not None:
        raise InvalidValueError("'lines' does not go with 'after'.", hint="Send one of them.", param="lines")
    entry, _ = house.resident(name)
    if entry.log is None:
        raise LogNotFoundError(
            f"The model {shown(entry.name)} has no log of its own: it runs on lane '{entry.labels['lane']}'.",
            hint="Unmask's own engine writes to the server's log, and a remote one to its own.",
        )
    piece = await asyncio.to_thread(_read, entry.log, query)
    holder = house.loaded(entry.name)
    lost = 0 if holder is None else holder.lost_lines
    return json_response(
        LogTold(name=entry.name, log=str(entry.log), lines=piece.lines, position=piece.position, lost=lost)
    )


@router.get("/unmask/requests", responses=responses(ErrorEnvelope, RequestList))
@needs("manage")
async def list_requests(query: Annotated[RequestsQuery, Query()], request: Request) -> Response:
    """What happened to the latest requests."""
    return json_response(RequestList(_journal(request).newest(query.limit)))


@router.get("/unmask/requests/{request_id:path}", responses=responses(ErrorEnvelope, RequestRecord))
@needs("manage")
async def explain_request(request_id: str, request: Request) -> Response:
    """What happened to one, by the id that its response has as ``x-request-id``."""
    found = _journal(request).find(request_id)
    if found is None:
        raise RequestNotFoundError(
            f"No request has the id {shown(request_id)}.",
            hint="The latest are remembered, as long as the server runs; /unmask/requests lists them.",
        )
    return json_response(found)


def _journal(request: Request) -> Journal:
    journal: Journal = request.app.state.journal
    return journal


def _read(path: Path, query: LogQuery) -> LogPiece:
    return read_tail(path, query.lines or _USUAL_LINES) if query.after is None else read_since(path, query.after)
