"""POST /api/chat and /api/generate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.params import ModelInfo
from unmask.serving.admission import Admission
from unmask.serving.body import UntypedJsonRoute, json_response
from unmask.serving.chat import Chat, admit_chat, encode_chat
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import Json, responses, schema_of
from unmask.serving.dialects.ollama import wire
from unmask.serving.dialects.ollama.encode import Head, encode
from unmask.serving.dialects.ollama.envelope import ErrorEnvelope
from unmask.serving.dialects.ollama.keep_alive import unloads
from unmask.serving.dialects.ollama.lines import ChatLine, GenerateLine, Line, chat_line, generate_line
from unmask.serving.dialects.ollama.names import find
from unmask.serving.dialects.ollama.parse import (
    EXTENSION,
    check_raw,
    fit,
    names,
    parse_chat,
    parse_generate,
    parse_params,
    streams,
)
from unmask.serving.dialects.ollama.stream import LineStream
from unmask.serving.fields import field_names
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served, ServedModel
from unmask.serving.sse import EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import respond

router = APIRouter(route_class=UntypedJsonRoute)


def _responses(line: type[Line]) -> dict[int | str, Json]:
    return responses(ErrorEnvelope, line, {LineStream.media_type: {"itemSchema": schema_of(line)}})


@router.post("/api/chat", responses=_responses(ChatLine))
@needs("generate")
async def chat(body: wire.ChatRequest, request: Request, model: Served) -> Response:
    """Answer a conversation, streamed or at once."""
    name, variant = find(model, body.model)
    head = Head.new(name, chat_line)
    if not body.messages:
        return _loaded(head, body, model)
    with field_names(EXTENSION, **names("messages")):
        admission = await _admit_chat(model, parse_chat(body), body, variant, request)
    return await _answer(head, admission, body, request, model)


@router.post("/api/generate", responses=_responses(GenerateLine))
@needs("generate")
async def generate(body: wire.GenerateRequest, request: Request, model: Served) -> Response:
    """Answer one prompt, as a user's message or as it stands."""
    name, variant = find(model, body.model)
    head = Head.new(name, generate_line)
    if not body.prompt:
        return _loaded(head, body, model)
    with field_names(EXTENSION, **names("prompt")):
        if body.raw or not model.template.exists:
            admission = await _admit_raw(model, body.prompt, body, variant, request)
        else:
            admission = await _admit_chat(model, parse_generate(body), body, variant, request)
    return await _answer(head, admission, body, request, model)


async def _admit_chat(
    model: ServedModel, chat: Chat, body: wire.AnswerRequest, variant: ModelInfo, request: Request
) -> Admission:
    prompt = await encode_chat(model, chat)
    chat = replace(chat, params=fit(chat.params, body.options, prompt, variant))
    admitted = admit_chat(model, chat, prompt, variant, tenant_of(request, None))
    return await unless_disconnected(request.receive, admitted)


async def _admit_raw(
    model: ServedModel, text: str, body: wire.GenerateRequest, variant: ModelInfo, request: Request
) -> Admission:
    check_raw(body)
    (prompt,) = await model.encode_texts([text])
    params = fit(parse_params(body), body.options, prompt, variant)
    checked = model.requests([prompt], params, variant, tenant_of(request, None))
    return Admission(model, await unless_disconnected(request.receive, checked))


async def _answer(
    head: Head, admission: Admission, body: wire.AnswerRequest, request: Request, model: ServedModel
) -> Response:
    if streams(body):
        return EventStream(admission, LineStream(head, model.cells), request.app.state.settings.keep_alive_seconds)
    with admission.running():
        (answer,) = await unless_disconnected(request.receive, admission.answers())
        return await respond(partial(encode, head, answer, model.cells), [answer])


def _loaded(head: Head, body: wire.AnswerRequest, model: ServedModel) -> Response:
    """What is answered to a request for nothing: the model is there, and stays, whatever ``keep_alive`` says.

    Raises what ``check_alive`` raises.
    """
    model.check_alive()
    return json_response(head.write(done=True, done_reason="unload" if unloads(body.keep_alive) else "load"))
