"""POST /v1/chat/completions."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.serving.body import JsonRoute
from unmask.serving.chat import admit_chat, encode_chat
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
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served, ServedModel
from unmask.serving.sse import EventStream, StreamEncoder
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import respond

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/chat/completions", responses=responses(ErrorEnvelope, ChatCompletion, EVENTS))
@needs("generate")
async def create_chat_completion(body: ChatRequest, request: Request, model: Served) -> Response:
    """Answer a conversation, streamed or at once."""
    name, variant = model.find(body.model)
    parsed = parse(body)
    with field_names(**parsed.names):
        prompt = await encode_chat(model, parsed.chat)
        admission = await unless_disconnected(
            request.receive, admit_chat(model, parsed.chat, prompt, variant, tenant_of(request, body.user))
        )
    head = Head.new("chatcmpl-", name)
    if body.stream or parsed.snapshots:
        encoder = _encoder(head, model, parsed)
        return EventStream(admission, encoder, request.app.state.settings.keep_alive_seconds)
    with admission.running():
        answers = await unless_disconnected(request.receive, admission.answers())
        return await respond(partial(encode, head, answers, model.cells), answers)


def _encoder(head: Head, model: ServedModel, parsed: ParsedChat) -> StreamEncoder:
    if parsed.snapshots:
        return MercuryStream(head, model.cells, include_usage=parsed.include_usage)
    return ChatStream(head, model.cells, include_usage=parsed.include_usage, copies=parsed.chat.copies)
