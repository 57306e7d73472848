"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.params import GenerationParams
from unmask.serving.body import JsonRoute
from unmask.serving.chat import admit_chat, encode_chat
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.anthropic_messages.encode import Head, encode
from unmask.serving.dialects.anthropic_messages.envelope import ErrorEnvelope
from unmask.serving.dialects.anthropic_messages.message import Message
from unmask.serving.dialects.anthropic_messages.parse import fit, names, parse, parse_chat
from unmask.serving.dialects.anthropic_messages.stream import MessageStream
from unmask.serving.dialects.anthropic_messages.tools import eager_tools
from unmask.serving.dialects.anthropic_messages.wire import CountRequest, MessagesRequest
from unmask.serving.fields import field_names
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served
from unmask.serving.sse import EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import respond

_EAGER = "fine-grained-tool-streaming"  # the name of a beta, with a date

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/messages", responses=responses(ErrorEnvelope, Message, EVENTS))
@needs("generate")
async def create_message(body: MessagesRequest, request: Request, model: Served) -> Response:
    """Answer a conversation, streamed or at once."""
    name, variant = model.find(body.model)
    chat = parse(body)
    user = None if body.metadata is None else body.metadata.user_id
    with field_names(**names(body)):
        prompt = await encode_chat(model, chat)
        chat = fit(chat, variant.context_length - len(prompt))
        admission = await unless_disconnected(
            request.receive, admit_chat(model, chat, prompt, variant, tenant_of(request, user))
        )
    head = Head.new(name)
    if body.stream:
        betas = request.headers.get("anthropic-beta", "")
        eager = eager_tools(body.tools, chat.choice, default=_EAGER in betas)
        encoder = MessageStream(head, model.cells, len(prompt), eager)
        return EventStream(admission, encoder, request.app.state.settings.keep_alive_seconds)
    with admission.running():
        (answer,) = await unless_disconnected(request.receive, admission.answers())
        return await respond(partial(encode, head, answer), [answer])


@router.post("/v1/messages/count_tokens", responses=responses(ErrorEnvelope))
@needs("models")
async def count_tokens(body: CountRequest, model: Served) -> dict[str, Any]:
    """How many tokens the prompt of such a conversation has."""
    model.find(body.model)
    with field_names(**names(body)):
        prompt = await encode_chat(model, parse_chat(body, GenerationParams()))
    return {"input_tokens": len(prompt)}
