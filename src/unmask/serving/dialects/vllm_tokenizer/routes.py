"""POST /tokenize, POST /detokenize, GET /tokenizer_info."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from unmask.answers.chat import Chat
from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.serving.body import JsonRoute, json_response
from unmask.serving.description import responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_common.messages import parse_messages
from unmask.serving.dialects.openai_common.template_variables import parse_variables, variable_names
from unmask.serving.dialects.vllm_tokenizer.wire import DetokenizeRequest, InfoQuery, Text, TokenizeRequest, Tokens
from unmask.serving.fields import field_names
from unmask.serving.models import Models
from unmask.serving.security.needs import needs

router = APIRouter(route_class=JsonRoute)


@router.post("/tokenize", responses=responses(ErrorEnvelope, Tokens))
@needs("generate")
async def tokenize(body: TokenizeRequest, models: Models) -> Response:
    """The ids of a text, or of a conversation as the chat endpoint would see it."""
    _check(body)
    asked = _chat(body) if body.prompt is None else body.prompt
    model = await models.find(body.model)
    with field_names(**variable_names(body.chat_template_kwargs)):
        found = await model.tokenize(asked, special=body.add_special_tokens is not False, pieces=body.return_token_strs)
    return json_response(Tokens(len(found.ids), found.context, found.ids, found.pieces))


def _check(body: TokenizeRequest) -> None:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidValueError("Give either 'prompt' or 'messages'.", param="prompt")
    if body.prompt is None and body.add_special_tokens:
        raise InvalidValueError("The chat template sets special tokens itself.", param="add_special_tokens")
    if body.prompt is not None and body.chat_template_kwargs:
        raise InvalidValueError("A text goes through no chat template.", param="chat_template_kwargs")


def _chat(body: TokenizeRequest) -> Chat:
    variables = parse_variables(body.chat_template_kwargs)
    return Chat(messages=parse_messages(body.messages or []), params=GenerationParams(), **variables)


@router.post("/detokenize", responses=responses(ErrorEnvelope, Text))
@needs("generate")
async def detokenize(body: DetokenizeRequest, models: Models) -> Response:
    """The text of ids, special tokens shown."""
    model = await models.find(body.model)
    return json_response(Text(await model.detokenize(body.tokens)))


@router.get("/tokenizer_info", responses=responses(ErrorEnvelope))
@needs("generate")
async def tokenizer_info(query: Annotated[InfoQuery, Query()], models: Models) -> dict[str, Any]:
    """The tokenizer's configuration, chat template included."""
    return await (await models.find(query.model)).tokenizer_info()
