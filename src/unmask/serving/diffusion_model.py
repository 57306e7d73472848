"""A diffusion model that our own engine has loaded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from unmask.answers.syntax import syntax_of
from unmask.checkpoints.prompts import PromptEncoder
from unmask.constraints.compiler import ConstraintCompiler
from unmask.engine.client import EngineClient
from unmask.engine.completion import TextRequest
from unmask.engine.text import CellDecoder
from unmask.errors import (
    EngineUnavailableError,
    InvalidValueError,
    QueueTimeoutError,
    UnmaskError,
)
from unmask.metrics import Metrics
from unmask.params import Constraint, GenerationParams, ModelInfo
from unmask.resolve import resolve
from unmask.serving.extension import OWN_LANE
from unmask.serving.ledger import current_ledger
from unmask.serving.length import check_count
from unmask.serving.listing import Listing
from unmask.serving.places import Places
from unmask.terms import NO_TIMEOUTS, Timeouts, resolve_terms

_TAIL = 16  # tokens at the end of a prompt, among which a marker that ends it lies


class DiffusionModel:
    """Engine, tokenizer and chat template under one name, behind a queue of bounded length.

    ``variants`` by their names on the wire: the model itself, then ``name:adapter`` for what its adapters make of it.
    ``capacity`` bounds the requests in the engine, running and waiting together; ``timeouts`` how long they take.
    """

    def __init__(
        self,
        engine: EngineClient,
        prompts: PromptEncoder,
        *,
        name: str,
        metrics: Metrics,
        capacity: int,
        timeouts: Timeouts = NO_TIMEOUTS,
    ) -> None:
        self.engine = engine
        self.name = name
        self.variants = {f"{name}:{adapter}" if adapter else name: model for adapter, model in engine.models.items()}
        self.created = int(time.time())
        self.tokenizer = prompts.tokenizer
        self.template = prompts.template
        self.syntax = syntax_of(prompts.template.source, prompts.tokenizer.specials, engine.model.family)
        self.constraints = ConstraintCompiler(prompts.tokenizer, engine.model)
        self.cells = CellDecoder(prompts.tokenizer)
        self.metrics = metrics
        self.places = Places(capacity, metrics)
        self._timeouts = timeouts
        engine.on_step = self.metrics.step

    def listings(self) -> Iterator[Listing]:
        """What catalogues tell of it and its variants."""
        tools = ("tools",) if self.template.exists else ()
        thinking = ("thinking",) if self.syntax.reasoning is not None else ()
        for name, info in self.variants.items():
            yield Listing(
                name=name,
                created=self.created,
                lane=OWN_LANE,
                paradigm="diffusion",
                family=info.family,
                parent=self.name if info.adapter else None,
                context_length=info.context_length,
                parameters=info.parameters,
                precision=info.precision,
                template=self.template.source,
                capabilities=("completion", *tools, *thinking),
                info=info,
            )

    def check_alive(self) -> None:
        """Raises ``EngineUnavailableError`` unless requests are taken."""
        if not self.engine.alive:
            raise EngineUnavailableError("The engine has died.", hint="See the server's log, then restart it.")

    def check_length(self, ids: list[int], param: str) -> None:
        """Raises ``ContextLengthError`` for more ids than the context. To be asked before each is looked at."""
        check_count(ids, self.engine.model.context_length, self.name, param)

    async def encode_messages(
        self, messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]] = (), **variables: Any
    ) -> list[int]:
        """Prompt ids of a conversation. Runs in a thread: long prompts must not hold up other requests."""
        return await asyncio.to_thread(self.template.encode, messages, tools, **variables)

    def opens_reasoning(self, prompt: list[int]) -> bool:
        """Whether ``prompt`` ends inside a reasoning block, which its template opened for the answer."""
        return self.syntax.opened_by(self.tokenizer.decode(prompt[-_TAIL:], keep_special=True))

    async def encode_texts(self, texts: list[str], *, add_begin: bool = True) -> list[list[int]]:
        """Prompt ids of plain texts, in a thread like ``encode_messages``."""
        encode = partial(self.tokenizer.encode_text, add_begin=add_begin)
        return await asyncio.to_thread(lambda: [encode(text) for text in texts])

    async def requests(
        self,
        prompts: list[list[int]],
        params: GenerationParams,
        variant: ModelInfo,
        tenant: str = "",
        *,
        markers: tuple[str, ...] = (),
        copies: int = 1,
    ) -> list[TextRequest]:
        """Check ``params`` for each prompt of ``tenant``, to be answered ``copies`` times; ``markers`` are part of the
        text even if they are special tokens. Raises what ``resolve`` and ``resolve_terms`` raise,
        ``InsufficientScopeError``, or what ``check_alive`` raises. What the answer must look like is compiled in a
        thread of its own.

        A prompt's copies stand next to each other; each has a seed of its own, counted on from the one that was given.
        """
        try:
            self.check_alive()
        except UnmaskError as error:
            self.metrics.rejected(error.code)
            raise
        params = current_ledger().bound(params)
        constraint = await self._constraint(params)
        seeds = [_seed(params.seed, copy) for copy in range(copies)]
        return [
            self._request(prompt, replace(params, seed=seed), variant, tenant, constraint, markers)
            for prompt in prompts
            for seed in seeds
        ]

    async def _constraint(self, params: GenerationParams) -> Constraint | None:
        """What ``params`` say the answer must look like. Raises ``QueueTimeoutError`` if that takes all its time."""
        own = max(0, min(params.timeout_ms or 0, 86_400_000))  # one out of range is refused afterwards
        limits = [limit for limit in (self._timeouts.queue, self._timeouts.request, own / 1000) if limit]
        try:
            async with asyncio.timeout(min(limits, default=None)):
                return await self.constraints.compile_beside(params)
        except TimeoutError:
            self.metrics.expired()
            raise QueueTimeoutError(
                "The request has waited too long for the automaton of its answer's form.",
                hint="Try again later, or ask for something simpler.",
                retry_after=self.places.retry_after(),
            ) from None

    def _request(
        self,
        prompt: list[int],
        params: GenerationParams,
        variant: ModelInfo,
        tenant: str,
        constraint: Constraint | None,
        markers: tuple[str, ...],
    ) -> TextRequest:
        if not prompt:
            raise InvalidValueError("The prompt is empty.", hint="Give at least one token.", param="prompt")
        decoding = resolve(params, variant, len(prompt), constraint)
        terms = resolve_terms(params, variant, decoding, self._timeouts, tenant)
        return TextRequest(prompt, decoding, params.stop or (), terms, markers)


def _seed(first: int | None, copy: int) -> int | None:
    """The seed of a ``copy``; the largest one is followed by the smallest."""
    if first is None or not copy:
        return first
    return (first + copy + 2**63) % 2**64 - 2**63
