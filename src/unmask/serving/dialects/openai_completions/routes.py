"""POST /v1/completions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from unmask.params import ModelInfo
from unmask.serving.admission import Admission
from unmask.serving.body import JsonRoute
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_completions.encode import encode
from unmask.serving.dialects.openai_completions.parse import ParsedCompletion, parse
from unmask.serving.dialects.openai_completions.stream import CompletionStream
from unmask.serving.dialects.openai_completions.wire import CompletionRequest, CompletionResponse
from unmask.serving.echo import EchoedPrompt, admit_echoed
from unmask.serving.fields import field_names
from unmask.serving.security.needs import needs
from unmask.serving.served_model import Served, ServedModel
from unmask.serving.sse import EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import respond

router = APIRouter(route_class=JsonRoute)


@router.post("/v1/completions", responses=responses(ErrorEnvelope, CompletionResponse, EVENTS))
@needs("generate")
async def create_completion(body: CompletionRequest, request: Request, model: Served) -> Response:
    """Continue each prompt, streamed or at once."""
    name, variant = model.find(body.model)
    parsed = parse(body)
    prompts_given = len(parsed.texts) + len(parsed.ids)
    with field_names(**parsed.names):
        model.places.check(prompts_given * parsed.answers_each, "prompt" if prompts_given > 1 else "n")
        for ids in parsed.ids:
            model.check_length(ids, "prompt")
        prompts = [model.tokenizer.check_ids(ids) for ids in parsed.ids] or await model.encode_texts(parsed.texts)
        tenant = tenant_of(request, body.user)
        admission = await unless_disconnected(request.receive, _admit(model, prompts, parsed, variant, tenant))
    head = Head.new("cmpl-", name)
    if body.stream:
        encoder = CompletionStream(head, model.cells, include_usage=parsed.include_usage, copies=parsed.copies)
        return EventStream(admission, encoder, request.app.state.settings.keep_alive_seconds)
    with admission.running():
        answers = await unless_disconnected(request.receive, admission.answers())
        return await respond(partial(encode, head, answers, parsed.copies, model.cells), answers)


async def _admit(
    model: ServedModel, prompts: list[list[int]], parsed: ParsedCompletion, variant: ModelInfo, tenant: str
) -> Admission:
    if not parsed.echo:
        requests = await model.requests(prompts, parsed.params, variant, tenant, copies=parsed.copies)
        return Admission(model, requests)
    texts: Sequence[str | None] = parsed.texts or [None] * len(prompts)
    shown = await asyncio.to_thread(
        lambda: [EchoedPrompt.of(model.tokenizer, ids, text) for ids, text in zip(prompts, texts, strict=True)]
    )
    return await admit_echoed(model, shown, parsed.params, variant, tenant, copies=parsed.copies)
