"""POST /v1/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.serving.body import JsonRoute
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.openai_common.encode import Head, json_response
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_completions.encode import encode
from unmask.serving.dialects.openai_completions.parse import parse
from unmask.serving.dialects.openai_completions.stream import CompletionStream
from unmask.serving.dialects.openai_completions.wire import CompletionRequest, CompletionResponse
from unmask.serving.extension import report_headers
from unmask.serving.fields import field_names
from unmask.serving.served_model import Served
from unmask.serving.sse import EventStream
from unmask.serving.tenant import tenant_of

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/completions", responses=responses(ErrorEnvelope, CompletionResponse, EVENTS))
async def create_completion(body: CompletionRequest, request: Request, model: Served) -> Response:
    """Continue each prompt, streamed or at once."""
    name, variant = model.find(body.model)
    parsed = parse(body)
    prompts_given = len(parsed.texts) + len(parsed.ids)
    with field_names(**parsed.names):
        model.check_count(prompts_given * parsed.copies, "prompt" if prompts_given > 1 else "n")
        for ids in parsed.ids:
            model.check_length(ids, "prompt")
        prompts = [model.tokenizer.check_ids(ids) for ids in parsed.ids] or await model.encode_texts(parsed.texts)
        admission = await unless_disconnected(
            request.receive,
            model.admit(prompts, parsed.params, variant, tenant_of(request, body.user), copies=parsed.copies),
        )
    head = Head.new("cmpl", name)
    if body.stream:
        encoder = CompletionStream(head, model.cells, include_usage=parsed.include_usage, copies=parsed.copies)
        return EventStream(admission, encoder, request.app.state.settings.keep_alive_seconds)
    with admission.running():
        answers = await unless_disconnected(request.receive, admission.answers())
        return json_response(encode(head, answers, parsed.copies, model.cells), report_headers(answers))
