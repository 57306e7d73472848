"""POST /tokenize, POST /detokenize, GET /tokenizer_info."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from unmask.errors import InvalidValueError
from unmask.serving.body import JsonRoute, json_response
from unmask.serving.description import responses
from unmask.serving.dialects.openai_common.envelope import ErrorEnvelope
from unmask.serving.dialects.openai_common.messages import parse_messages
from unmask.serving.dialects.vllm_tokenizer.wire import DetokenizeRequest, Text, TokenizeRequest, Tokens
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.models import Models, RequestModels
from unmask.serving.security.needs import needs

router = APIRouter(route_class=JsonRoute)


@router.post("/tokenize", responses=responses(ErrorEnvelope, Tokens))
@needs("generate")
async def tokenize(body: TokenizeRequest, models: Models) -> Response:
    """The ids of a text, or of a conversation as the chat endpoint would see it."""
    _check(body)
    model = await _ours(models, body.model, "/tokenize")
    ids = await _encode(body, model)
    pieces = await asyncio.to_thread(model.tokenizer.pieces, ids) if body.return_token_strs else None
    return json_response(Tokens(len(ids), model.engine.model.context_length, ids, pieces))


async def _ours(models: RequestModels, name: str | None, what: str) -> DiffusionModel:
    """The model called ``name``, which is not loaded where another engine than ours would have to say ``what``."""
    models.house.check_ours(name, what)
    return (await models.find(name)).ours(what)


def _check(body: TokenizeRequest) -> None:
    if (body.prompt is None) == (body.messages is None):
        raise InvalidValueError("Give either 'prompt' or 'messages'.", param="prompt")
    if body.prompt is None and body.add_special_tokens:
        raise InvalidValueError("The chat template sets special tokens itself.", param="add_special_tokens")


async def _encode(body: TokenizeRequest, model: DiffusionModel) -> list[int]:
    if body.prompt is not None:
        return (await model.encode_texts([body.prompt], add_begin=body.add_special_tokens is not False))[0]
    return await model.encode_messages(parse_messages(body.messages or []))


@router.post("/detokenize", responses=responses(ErrorEnvelope, Text))
@needs("generate")
async def detokenize(body: DetokenizeRequest, models: Models) -> Response:
    """The text of ids, special tokens shown."""
    model = await _ours(models, body.model, "/detokenize")
    model.check_length(body.tokens, "tokens")
    size = model.tokenizer.size
    for position, index in enumerate(body.tokens):
        if not 0 <= index < size:
            raise InvalidValueError(f"Token id {index} is outside 0 to {size - 1}.", param=f"tokens[{position}]")
    return json_response(Text(model.tokenizer.decode(body.tokens, keep_special=True)))


@router.get("/tokenizer_info", responses=responses(ErrorEnvelope))
@needs("generate")
async def tokenizer_info(models: Models) -> dict[str, Any]:
    """The checkpoint's tokenizer configuration, chat template included."""
    model = await _ours(models, None, "/tokenizer_info")
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **model.tokenizer.config,
        "chat_template": model.template.source,
    }
