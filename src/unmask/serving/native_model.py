"""A model that our own engine runs, or what one of its adapters makes of it, as the dialects see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unmask.answers.chat import Chat, Continuation
from unmask.answers.tokenized import Tokenized, check_ids
from unmask.gateway.config.defaults import filled
from unmask.gateway.config.wanted import NOTHING_SAID
from unmask.params import GenerationParams, ModelInfo
from unmask.serving.admission import Admission
from unmask.serving.chat import admit_chat, encode_chat
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.echo import EchoedPrompt, admit_echoed
from unmask.serving.engine_admission import EngineAdmission
from unmask.serving.length import fit


class NativeModel:
    """``loaded`` under the ``name`` of one of its variants, which ``info`` is about. ``defaults`` are for requests
    that say nothing.
    """

    def __init__(
        self, loaded: DiffusionModel, name: str, info: ModelInfo, defaults: GenerationParams = NOTHING_SAID
    ) -> None:
        self.name = name
        self._loaded = loaded
        self._info = info
        self._defaults = defaults

    @property
    def has_template(self) -> bool:
        """Whether the checkpoint has one."""
        return self._loaded.template.exists

    async def admit_chat(self, chat: Chat, tenant: str) -> Admission:
        """``chat``, checked. Raises what ``encode_chat`` and ``DiffusionModel.requests`` raise."""
        prompt = await encode_chat(self._loaded, chat)
        params = filled(chat.params, self._defaults)
        chat = replace(chat, params=fit(params, chat.length, len(prompt), self._info))
        return await admit_chat(self._loaded, chat, prompt, self._info, tenant)

    async def admit_texts(self, asked: Continuation, tenant: str) -> Admission:
        """``asked``, checked. Raises what ``DiffusionModel.requests`` and ``admit_echoed`` raise."""
        model, params = self._loaded, filled(asked.params, self._defaults)
        model.places.check(asked.prompts * asked.answers_each, "prompt" if asked.prompts > 1 else "n")
        for ids in asked.ids:
            model.check_length(ids, "prompt")
        prompts = [model.tokenizer.check_ids(ids) for ids in asked.ids] or await model.encode_texts(asked.texts)
        if asked.echo:
            shown = await self._echoed(prompts, asked.texts or [None] * len(prompts))
            return await admit_echoed(model, shown, params, self._info, tenant, copies=asked.copies)
        params = fit(params, asked.length, max(map(len, prompts)), self._info)
        return EngineAdmission(model, await model.requests(prompts, params, self._info, tenant, copies=asked.copies))

    async def _echoed(self, prompts: list[list[int]], texts: Sequence[str | None]) -> list[EchoedPrompt]:
        tokenizer = self._loaded.tokenizer
        return await asyncio.to_thread(
            lambda: [EchoedPrompt.of(tokenizer, ids, text) for ids, text in zip(prompts, texts, strict=True)]
        )

    async def tokenize(self, asked: Chat | str, *, special: bool = True, pieces: bool = False) -> Tokenized:
        """The tokens of ``asked``. Raises what ``encode_chat`` raises."""
        model = self._loaded
        if isinstance(asked, str):
            (ids,) = await model.encode_texts([asked], add_begin=special)
        else:
            ids = await encode_chat(model, asked)
        texts = await asyncio.to_thread(model.tokenizer.pieces, ids) if pieces else None
        return Tokenized(ids, texts, self._info.context_length)

    async def detokenize(self, ids: list[int]) -> str:
        """The text of ``ids``. Raises ``ContextLengthError`` for too many, ``InvalidValueError`` for what is none."""
        self._loaded.check_length(ids, "tokens")
        tokenizer = self._loaded.tokenizer
        check_ids(ids, tokenizer.size)
        return tokenizer.decode(ids, keep_special=True)

    async def tokenizer_info(self) -> dict[str, Any]:
        """The checkpoint's own."""
        own = {"tokenizer_class": "PreTrainedTokenizerFast", **self._loaded.tokenizer.config}
        return own | {"chat_template": self._loaded.template.source}
