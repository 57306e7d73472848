"""POST /v1/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.serving.admission import Admission
from unmask.serving.body import JsonRoute
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_completions.encode import encode
from unmask.serving.dialects.openai_completions.parse import parse
from unmask.serving.dialects.openai_completions.stream import CompletionStream
from unmask.serving.dialects.openai_completions.wire import CompletionRequest, CompletionResponse
from unmask.serving.fields import field_names
from unmask.serving.models import Models
from unmask.serving.security.needs import needs
from unmask.serving.sse import Begun, EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import answer_whole

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/completions", responses=responses(ErrorEnvelope, CompletionResponse, EVENTS))
@needs("generate")
async def create_completion(body: CompletionRequest, request: Request, models: Models) -> Response:
    """Continue each prompt, streamed or at once."""
    parsed = parse(body)
    copies = parsed.asked.copies

    async def admit() -> tuple[Head, Admission]:
        tenant = tenant_of(request, body.user)
        model = await models.find_for(parsed.asked, tenant, body.model, body.keep_alive)
        with field_names(**parsed.names):
            admitted = model.admit_texts(parsed.asked, tenant)
            return Head.new("cmpl-", model.name), await unless_disconnected(request.receive, admitted)

    async def begin() -> Begun:
        head, admission = await admit()
        encoder = CompletionStream(head, admission.cells, include_usage=parsed.include_usage, copies=copies)
        return Begun(admission, encoder)

    if body.stream:
        return EventStream(request, CompletionStream, begin, models.waiting_for)
    head, admission = await admit()
    return await answer_whole(request, admission, lambda answers: encode(head, answers, copies, admission.cells))
