"""POST /api/chat and /api/generate."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.answers.chat import Chat
from unmask.serving.admission import Admission
from unmask.serving.body import UntypedJsonRoute, json_response
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import Json, responses, schema_of
from unmask.serving.dialects.ollama import wire
from unmask.serving.dialects.ollama.encode import Head, encode
from unmask.serving.dialects.ollama.envelope import ErrorEnvelope
from unmask.serving.dialects.ollama.keep_alive import unloads
from unmask.serving.dialects.ollama.lines import ChatLine, GenerateLine, Line, MakeLine, chat_line, generate_line
from unmask.serving.dialects.ollama.names import plain
from unmask.serving.dialects.ollama.parse import EXTENSION, names, parse_chat, parse_generate, parse_raw, streams
from unmask.serving.dialects.ollama.stream import LineStream
from unmask.serving.fields import field_names
from unmask.serving.models import Models, RequestModels
from unmask.serving.security.needs import needs
from unmask.serving.sse import EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import answer_whole

router = APIRouter(route_class=UntypedJsonRoute)


def _responses(line: type[Line]) -> dict[int | str, Json]:
    return responses(ErrorEnvelope, line, {LineStream.media_type: {"itemSchema": schema_of(line)}})


@router.post("/api/chat", responses=_responses(ChatLine))
@needs("generate")
async def chat(body: wire.ChatRequest, request: Request, models: Models) -> Response:
    """Answer a conversation, streamed or at once."""
    if not body.messages:
        return await _loaded(body, models, chat_line)
    asked = parse_chat(body)
    model = await models.find(plain(models.house, body.model))
    with field_names(EXTENSION, **names("messages")):
        admission = await unless_disconnected(request.receive, model.admit_chat(asked, tenant_of(request, None)))
    return await _answer(Head.new(body.model or model.name, chat_line), admission, body, request)


@router.post("/api/generate", responses=_responses(GenerateLine))
@needs("generate")
async def generate(body: wire.GenerateRequest, request: Request, models: Models) -> Response:
    """Answer one prompt, as a user's message or as it stands."""
    if not body.prompt:
        return await _loaded(body, models, generate_line)
    asked = parse_raw(body) if body.raw else parse_generate(body)
    model = await models.find(plain(models.house, body.model))
    tenant = tenant_of(request, None)
    with field_names(EXTENSION, **names("prompt")):
        if isinstance(asked, Chat) and model.has_template:
            admission = await unless_disconnected(request.receive, model.admit_chat(asked, tenant))
        else:
            admission = await unless_disconnected(request.receive, model.admit_texts(parse_raw(body), tenant))
    return await _answer(Head.new(body.model or model.name, generate_line), admission, body, request)


async def _answer(head: Head, admission: Admission, body: wire.AnswerRequest, request: Request) -> Response:
    if streams(body):
        return EventStream(request, admission, LineStream(head, admission.cells))
    return await answer_whole(request, admission, lambda answers: encode(head, answers[0], admission.cells))


async def _loaded(body: wire.AnswerRequest, models: RequestModels, line: MakeLine) -> Response:
    """What is answered to a request for nothing: the model is there, and stays, whatever ``keep_alive`` says.

    Raises ``EngineUnavailableError``.
    """
    model = await models.find(plain(models.house, body.model))
    models.house.check_ready()
    head = Head.new(body.model or model.name, line)
    return json_response(head.write(done=True, done_reason="unload" if unloads(body.keep_alive) else "load"))
