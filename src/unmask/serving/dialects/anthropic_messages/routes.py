"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.params import GenerationParams
from unmask.serving.admission import Admission
from unmask.serving.body import JsonRoute
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.anthropic_messages.encode import Head, encode
from unmask.serving.dialects.anthropic_messages.envelope import ErrorEnvelope
from unmask.serving.dialects.anthropic_messages.message import Message
from unmask.serving.dialects.anthropic_messages.parse import names, parse, parse_chat
from unmask.serving.dialects.anthropic_messages.stream import MessageStream
from unmask.serving.dialects.anthropic_messages.tools import eager_tools
from unmask.serving.dialects.anthropic_messages.wire import CountRequest, MessagesRequest
from unmask.serving.fields import field_names
from unmask.serving.models import Models
from unmask.serving.security.needs import needs
from unmask.serving.sse import Begun, EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import answer_whole

_EAGER = "fine-grained-tool-streaming"  # the name of a beta, with a date

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/messages", responses=responses(ErrorEnvelope, Message, EVENTS))
@needs("generate")
async def create_message(body: MessagesRequest, request: Request, models: Models) -> Response:
    """Answer a conversation, streamed or at once."""
    chat = parse(body)
    user = None if body.metadata is None else body.metadata.user_id

    async def admit() -> tuple[Head, Admission]:
        tenant = tenant_of(request, user)
        model = await models.find_for(chat, tenant, body.model, body.keep_alive)
        with field_names(**names(body)):
            admitted = model.admit_chat(chat, tenant)
            return Head.new(model.name), await unless_disconnected(request.receive, admitted)

    async def begin() -> Begun:
        head, admission = await admit()
        betas = request.headers.get("anthropic-beta", "")
        eager = eager_tools(body.tools, chat.choice, default=_EAGER in betas)
        return Begun(admission, MessageStream(head, admission.cells, admission.prompt_tokens, eager))

    if body.stream:
        return EventStream(request, MessageStream, begin, models.waiting_for)
    head, admission = await admit()
    return await answer_whole(request, admission, lambda answers: encode(head, answers[0]))


@router.post("/v1/messages/count_tokens", responses=responses(ErrorEnvelope))
@needs("generate")
async def count_tokens(body: CountRequest, models: Models) -> dict[str, Any]:
    """How many tokens the prompt of such a conversation has."""
    chat = parse_chat(body, GenerationParams())
    model = await models.find(body.model, body.keep_alive)
    with field_names(**names(body)):
        return {"input_tokens": len((await model.tokenize(chat)).ids)}
