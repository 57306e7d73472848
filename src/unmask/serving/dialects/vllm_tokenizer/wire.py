"""The schemas of /tokenize, /detokenize and /tokenizer_info."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from pydantic import ConfigDict, Field

from unmask.serving.dialects.openai_common.messages import Messages
from unmask.serving.dialects.openai_common.template_variables import TemplateVariables
from unmask.serving.wire import Only, WireModel


class TokenizeRequest(WireModel):
    """Either ``prompt`` (text) or ``messages`` (a conversation, through the chat template)."""

    foreign_names: ClassVar[dict[str, str]] = {"text": "prompt", "input": "prompt", "content": "prompt"}

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = None
    chat_template_kwargs: TemplateVariables | None = None
    add_generation_prompt: Annotated[Any, Only(True)] = None
    return_token_strs: bool = False


class Tokens(msgspec.Struct, frozen=True):
    """The response of /tokenize."""

    count: int
    max_model_len: int | None
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeRequest(WireModel):
    """Ids to turn into text; special tokens are shown."""

    foreign_names: ClassVar[dict[str, str]] = {"ids": "tokens", "token_ids": "tokens", "input_ids": "tokens"}

    model: str | None = None
    tokens: Annotated[list[int], Field(fail_fast=True)]


class InfoQuery(WireModel):
    """The query of /tokenizer_info: whose tokenizer."""

    model_config = ConfigDict(strict=False)

    model: str | None = None


class Text(msgspec.Struct, frozen=True):
    """The response of /detokenize."""

    prompt: str
