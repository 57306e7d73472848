"""POST /v1/responses, and what is kept of its answers under /v1/responses/{id}."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from unmask.errors import InvalidValueError
from unmask.serving.admission import Admission
from unmask.serving.body import JsonRoute, json_response
from unmask.serving.connection import unless_disconnected
from unmask.serving.description import EVENTS, responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_responses import response
from unmask.serving.dialects.openai_responses.draft import Draft
from unmask.serving.dialects.openai_responses.input import parse_input
from unmask.serving.dialects.openai_responses.kept import Deletion, ItemList, Kept, page
from unmask.serving.dialects.openai_responses.parse import names, parse, parse_prompt
from unmask.serving.dialects.openai_responses.stream import ResponseStream
from unmask.serving.dialects.openai_responses.wire import CountRequest, ItemsQuery, ResponseRequest, RetrieveQuery
from unmask.serving.fields import field_names
from unmask.serving.models import Models
from unmask.serving.security.needs import needs
from unmask.serving.sse import Begun, EventStream
from unmask.serving.tenant import tenant_of
from unmask.serving.whole import respond

router = APIRouter(route_class=JsonRoute)


def _of_sender(request: Request) -> Kept:
    return Kept(request.app.state.responses, request)


Own = Annotated[Kept, Depends(_of_sender)]


@router.post("/v1/responses", responses=responses(ErrorEnvelope, response.Response, EVENTS))
@needs("generate")
async def create_response(body: ResponseRequest, request: Request, models: Models, kept: Own) -> Response:
    """Answer, streamed or at once."""
    previous = await kept.conversation(body.previous_response_id)
    new = parse_input(body.input, previous)
    chat = parse(body, previous, new)

    async def admit() -> tuple[Draft, Admission]:
        tenant = tenant_of(request, body.user)
        model = await models.find_for(chat, tenant, body.model, body.keep_alive)
        with field_names(**names(body)):
            admitted = model.admit_chat(chat, tenant)
            admission = await unless_disconnected(request.receive, admitted)
        begun = response.begin(Head.new("resp_", model.name), body)
        return Draft(begun, [*previous, *new], admission.cells), admission

    async def begin() -> Begun:
        draft, admission = await admit()
        encoder = ResponseStream(draft, admission.cells)
        return Begun(admission, encoder, lambda: draft.keep(kept.store, kept.owner))

    if body.stream:
        return EventStream(request, ResponseStream, begin, models.waiting_for)
    draft, admission = await admit()
    with admission.running():
        answer = await unless_disconnected(request.receive, draft.read(admission))
    await draft.keep(kept.store, kept.owner)
    return await respond(lambda: draft.response, [answer])


@router.post("/v1/responses/input_tokens", responses=responses(ErrorEnvelope, response.InputTokens))
@needs("generate")
async def count_input_tokens(body: CountRequest, models: Models, kept: Own) -> Response:
    """Count the prompt that a request like this would have."""
    previous = await kept.conversation(body.previous_response_id)
    chat = parse_prompt(body, previous, parse_input(body.input, previous))
    model = await models.find(body.model, body.keep_alive)
    with field_names(**names(body)):
        return json_response(response.InputTokens(len((await model.tokenize(chat)).ids)))


@router.get("/v1/responses/{response_id}", responses=responses(ErrorEnvelope, response.Response))
@needs("generate")
async def retrieve_response(response_id: str, query: Annotated[RetrieveQuery, Query()], kept: Own) -> Response:
    """The response as it was made."""
    found = await kept.find(response_id)
    return Response(found.body, media_type="application/json")


@router.get("/v1/responses/{response_id}/input_items", responses=responses(ErrorEnvelope, ItemList))
@needs("generate")
async def list_input_items(response_id: str, query: Annotated[ItemsQuery, Query()], kept: Own) -> Response:
    """The items that it answers, those of previous responses included."""
    return json_response(page(await kept.find(response_id), query))


@router.delete("/v1/responses/{response_id}", responses=responses(ErrorEnvelope, Deletion))
@needs("generate")
async def delete_response(response_id: str, kept: Own) -> Response:
    """Forget it."""
    return json_response(await kept.delete(response_id))


@router.post("/v1/responses/{response_id}/cancel", responses=responses(ErrorEnvelope))
@needs("generate")
async def cancel_response(response_id: str, kept: Own) -> Response:
    """There is nothing to cancel: a response that can be found is finished."""
    await kept.find(response_id)
    raise InvalidValueError(
        "Only responses created with 'background': true can be cancelled, which is not supported.",
        hint="Close the connection to end a running one.",
        param="response_id",
    )
