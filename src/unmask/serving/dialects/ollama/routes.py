"""POST /api/chat and /api/generate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

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
from unmask.serving.dialects.ollama.lines import ChatLine, GenerateLine, Line, MakeLine, chat_line, generate_line
from unmask.serving.dialects.ollama.names import plain
from unmask.serving.dialects.ollama.parse import EXTENSION, names, parse_chat, parse_generate, parse_raw, streams
from unmask.serving.dialects.ollama.stream import LineStream
from unmask.serving.fields import field_names
from unmask.serving.model_request import seconds
from unmask.serving.models import Models, RequestModels
from unmask.serving.security.needs import needs
from unmask.serving.sse import Begun, EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import answer_whole

router = APIRouter(route_class=UntypedJsonRoute)

Admit = Callable[[], Awaitable[tuple[Head, Admission]]]


def _responses(line: type[Line]) -> dict[int | str, Json]:
    return responses(ErrorEnvelope, line, {LineStream.media_type: {"itemSchema": schema_of(line)}})


@router.post("/api/chat", responses=_responses(ChatLine))
@needs("generate")
async def chat(body: wire.ChatRequest, request: Request, models: Models) -> Response:
    """Answer a conversation, streamed or at once."""
    if not body.messages:
        return await _nothing(body, models, chat_line)
    asked = parse_chat(body)

    async def admit() -> tuple[Head, Admission]:
        tenant = tenant_of(request, None)
        model = await models.find_for(asked, tenant, plain(models.house, body.model), body.keep_alive)
        with field_names(EXTENSION, **names("messages")):
            admitted = model.admit_chat(asked, tenant)
            admission = await unless_disconnected(request.receive, admitted)
        return Head.new(body.model or model.name, chat_line), admission

    return await _answer(admit, body, request, models)


@router.post("/api/generate", responses=_responses(GenerateLine))
@needs("generate")
async def generate(body: wire.GenerateRequest, request: Request, models: Models) -> Response:
    """Answer one prompt, as a user's message or as it stands."""
    if not body.prompt:
        return await _nothing(body, models, generate_line)
    asked = parse_raw(body) if body.raw else parse_generate(body)
    tenant = tenant_of(request, None)

    async def admit() -> tuple[Head, Admission]:
        model = await models.find_for(asked, tenant, plain(models.house, body.model), body.keep_alive)
        with field_names(EXTENSION, **names("prompt")):
            if isinstance(asked, Chat) and model.has_template:
                admission = await unless_disconnected(request.receive, model.admit_chat(asked, tenant))
            else:
                admission = await unless_disconnected(request.receive, model.admit_texts(parse_raw(body), tenant))
        return Head.new(body.model or model.name, generate_line), admission

    return await _answer(admit, body, request, models)


async def _answer(admit: Admit, body: wire.AnswerRequest, request: Request, models: RequestModels) -> Response:
    async def begin() -> Begun:
        head, admission = await admit()
        return Begun(admission, LineStream(head, admission.cells))

    if streams(body):
        return EventStream(request, LineStream, begin, models.waiting_for)
    head, admission = await admit()
    return await answer_whole(request, admission, lambda answers: encode(head, answers[0], admission.cells))


async def _nothing(body: wire.AnswerRequest, models: RequestModels, line: MakeLine) -> Response:
    """What is answered to a request for nothing: it loads the model, or with a ``keep_alive`` of 0 lets it go.

    Raises what ``RequestModels.find`` raises.
    """
    house = models.house
    if body.keep_alive is not None and seconds(body.keep_alive) == 0:
        name = house.show(house.meant(plain(house, body.model))).name
        house.keep(name, 0)
        return json_response(Head.new(body.model or name, line).write(done=True, done_reason="unload"))
    model = await models.find(plain(house, body.model), body.keep_alive)
    return json_response(Head.new(body.model or model.name, line).write(done=True, done_reason="load"))
