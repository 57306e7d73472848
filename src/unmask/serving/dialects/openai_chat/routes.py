"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.answers.cells import Cells
from unmask.serving.admission import Admission
from unmask.serving.body import JsonRoute
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.openai_chat.encode import encode
from unmask.serving.dialects.openai_chat.mercury import MercuryStream
from unmask.serving.dialects.openai_chat.parse import ParsedChat, parse
from unmask.serving.dialects.openai_chat.stream import ChatStream
from unmask.serving.dialects.openai_chat.wire import ChatCompletion, ChatRequest
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.fields import field_names
from unmask.serving.models import Models
from unmask.serving.security.needs import needs
from unmask.serving.sse import Begun, EventStream, StreamEncoder
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import answer_whole

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/chat/completions", responses=responses(ErrorEnvelope, ChatCompletion, EVENTS))
@needs("generate")
async def create_chat_completion(body: ChatRequest, request: Request, models: Models) -> Response:
    """Answer a conversation, streamed or at once."""
    parsed = parse(body)

    async def admit() -> tuple[Head, Admission]:
        tenant = tenant_of(request, body.user)
        model = await models.find_for(parsed.chat, tenant, body.model, body.keep_alive)
        with field_names(**parsed.names):
            admitted = model.admit_chat(parsed.chat, tenant)
            return Head.new("chatcmpl-", model.name), await unless_disconnected(request.receive, admitted)

    async def begin() -> Begun:
        head, admission = await admit()
        return Begun(admission, _encoder(head, admission.cells, parsed))

    if body.stream or parsed.snapshots:
        return EventStream(request, MercuryStream if parsed.snapshots else ChatStream, begin, models.waiting_for)
    head, admission = await admit()
    return await answer_whole(request, admission, lambda answers: encode(head, answers, admission.cells))


def _encoder(head: Head, cells: Cells, parsed: ParsedChat) -> StreamEncoder:
    if parsed.snapshots:
        return MercuryStream(head, cells, include_usage=parsed.include_usage)
    return ChatStream(head, cells, include_usage=parsed.include_usage, copies=parsed.chat.copies)
