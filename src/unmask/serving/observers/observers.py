"""Models with what looks on while they answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog

from unmask.answers.chat import Chat, Continuation
from unmask.answers.sentinels import Expected
from unmask.answers.tokenized import Tokenized
from unmask.errors import InsufficientScopeError
from unmask.serving.admission import Admission
from unmask.serving.entry import Entry
from unmask.serving.model import Answering, Model
from unmask.serving.observers.observed_admission import ObservedAdmission
from unmask.serving.observers.response_cache import KeptAnswers, ResponseCache, key_of
from unmask.serving.server_metrics import ServerMetrics
from unmask.serving.settings import ServerSettings

_log = structlog.get_logger()


class Observers:
    """Those of a server: sentinels, and the response cache if there is one."""

    def __init__(self, metrics: ServerMetrics, settings: ServerSettings) -> None:
        self._metrics = metrics
        self._silence_seconds = settings.silence_seconds
        self._cache = ResponseCache(settings.response_cache) if settings.response_cache else None

    def around(self, model: Model, weights: str) -> Model:
        """``model``, which has these ``weights``, watched."""
        return ObservedModel(model, weights, self)

    async def kept(self, entry: Entry, name: str, asked: Chat | Continuation, tenant: str) -> Answering | None:
        """What answers ``asked`` in place of ``entry``, the model called ``name``, that need not be loaded for it: its
        answers were kept, and its files have not changed since.
        """
        if self._cache is None:
            return None
        weights = await entry.weights_there()
        try:
            key = None if weights is None else key_of(name, weights, asked, tenant)
        except InsufficientScopeError:  # is told when the request is checked
            return None
        kept = None if key is None else self._cache.find(key)
        if kept is None:
            return None
        self._metrics.looked_up(name, found=True)
        return KeptAnswers(name, kept)

    async def admission(self, model: Model, weights: str, asked: Chat | Continuation, tenant: str) -> Admission:
        """What ``model`` makes of ``asked``, or the answers that were kept of it. Raises what the model raises."""
        key = None if self._cache is None else key_of(model.name, weights, asked, tenant)
        if self._cache is None or key is None:
            return self._watched(model, asked, await _admit(model, asked, tenant))
        kept = self._cache.find(key)
        self._metrics.looked_up(model.name, found=kept is not None)
        if kept is not None:
            return kept
        return self._cache.keeping(key, self._watched(model, asked, await _admit(model, asked, tenant)))

    def _watched(self, model: Model, asked: Chat | Continuation, admission: Admission) -> Admission:
        if isinstance(asked, Continuation) and asked.echo:  # the prompt would be judged with the answer
            return admission
        try:
            expected = Expected.by(asked)
        except Exception:
            _log.exception("an observer of answers failed")
            return admission
        warn = partial(self._warn, model.name)
        return ObservedAdmission(admission, expected, warn=warn, silence_seconds=self._silence_seconds)

    def _warn(self, model: str, kind: str) -> None:
        self._metrics.warned(model, kind)
        _log.warning("answer", model=model, kind=kind)


async def _admit(model: Model, asked: Chat | Continuation, tenant: str) -> Admission:
    if isinstance(asked, Chat):
        return await model.admit_chat(asked, tenant)
    return await model.admit_texts(asked, tenant)


class ObservedModel:
    """A model whose requests pass the ``observers``."""

    def __init__(self, model: Model, weights: str, observers: Observers) -> None:
        self._model = model
        self._weights = weights
        self._observers = observers

    @property
    def name(self) -> str:
        """Its name on the wire."""
        return self._model.name

    @property
    def has_template(self) -> bool:
        """Whether it takes conversations."""
        return self._model.has_template

    async def admit_chat(self, chat: Chat, tenant: str) -> Admission:
        """``chat``, checked, and watched."""
        return await self._observers.admission(self._model, self._weights, chat, tenant)

    async def admit_texts(self, asked: Continuation, tenant: str) -> Admission:
        """``asked``, checked, and watched."""
        return await self._observers.admission(self._model, self._weights, asked, tenant)

    async def tokenize(self, asked: Chat | str, *, special: bool = True, pieces: bool = False) -> Tokenized:
        """The tokens of ``asked``."""
        return await self._model.tokenize(asked, special=special, pieces=pieces)

    async def detokenize(self, ids: list[int]) -> str:
        """The text of ``ids``."""
        return await self._model.detokenize(ids)

    async def tokenizer_info(self) -> dict[str, Any]:
        """The tokenizer's configuration."""
        return await self._model.tokenizer_info()
