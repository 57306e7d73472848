"""Answers kept for requests that come again, word for word, and must be answered alike."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec
import structlog

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.chat import Chat, Continuation
from unmask.answers.parts import Part, ToolPiece
from unmask.serving.admission import Admission
from unmask.serving.ledger import current_ledger
from unmask.serving.observers.wrapped_admission import WrappedAdmission

_log = structlog.get_logger()

Told = tuple[int, AnswerDelta]

_SHARE = 4  # an answer may take one part in so many of all there is
_LOGPROB, _DELTA, _CHARACTER = 400, 600, 2  # bytes in memory, about


def key_of(name: str, weights: str, asked: Chat | Continuation, tenant: str) -> bytes | None:
    """What a request is known by: the model's name and its weights, who asks, and all that is asked. None for one whose
    answer may differ each time, being neither at temperature 0 nor with a seed, and for frames, which are of now.

    Raises ``InsufficientScopeError`` for what the key may not ask.
    """
    params = current_ledger().bound(asked.params)
    if params.frames or (params.temperature != 0 and params.seed is None):
        return None
    biases = sorted((params.logit_bias or {}).items())  # keys that are numbers have no order to the encoder
    said = replace(asked, params=replace(params, logit_bias=None))
    whole = (type(asked).__name__, tenant, name, weights, said, biases)
    try:
        return hashlib.sha256(msgspec.msgpack.encode(whole, order="deterministic")).digest()
    except (TypeError, ValueError):  # half a character, for one, which is refused elsewhere
        return None


@dataclass(frozen=True, slots=True)
class Kept:
    """What was ``told``, whose tokens ``cells`` write, and the ``size`` in bytes, about."""

    told: tuple[Told, ...]
    cells: Cells
    size: int


class ResponseCache:
    """Answers of about ``size`` bytes in all; those that were not asked for longest go first."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.most = size // _SHARE
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()

    def find(self, key: bytes) -> Admission | None:
        """The answers kept under ``key``."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return ReplayedAdmission(kept)

    def keeping(self, key: bytes, admission: Admission) -> Admission:
        """``admission``, whose answers are kept under ``key`` once all are finished."""
        return RecordedAdmission(admission, self, key)

    def keep(self, key: bytes, kept: Kept) -> None:
        """Keep it, unless it is large."""
        if kept.size > self.most:
            return
        before = self._kept.pop(key, None)
        self._left += (0 if before is None else before.size) - kept.size
        self._kept[key] = kept
        while self._left < 0:
            self._left += self._kept.popitem(last=False)[1].size


class RecordedAdmission(WrappedAdmission):
    """``inner``, with all that it tells written down."""

    def __init__(self, inner: Admission, cache: ResponseCache, key: bytes) -> None:
        super().__init__(inner)
        self._cache, self._key = cache, key
        self._told: list[Told] = []
        self._size = 0
        self._fit = True

    async def next(self) -> Told:
        """The next delta of ``inner``."""
        number, delta = await self._inner.next()
        try:
            self._record(number, delta)
        except Exception:
            self._fit = False
            _log.exception("an answer could not be kept")
        return number, delta

    def _record(self, number: int, delta: AnswerDelta) -> None:
        self._size += _DELTA + sum(map(_size, delta.parts)) + _LOGPROB * len(delta.logprobs or ())
        if delta.answer is not None:  # which has all of it once more
            self._size += sum(map(_size, delta.answer.parts)) + _LOGPROB * len(delta.answer.logprobs or ())
        fits = self._size <= self._cache.most
        self._fit = self._fit and fits and (delta.answer is None or _may_be_kept(delta.answer))
        if not self._fit:
            self._told.clear()
        elif delta.parts or delta.logprobs or delta.answer is not None:
            self._told.append((number, replace(delta, frame=None)))
            if self._inner.finished:
                self._cache.keep(self._key, Kept(tuple(self._told), self.cells, self._size))


class ReplayedAdmission(Admission):
    """Answers told again, delta by delta as they first were. They take no place in the queue and cost no tokens."""

    def __init__(self, kept: Kept) -> None:
        self._told = deque(kept.told)
        self._cells = kept.cells
        self._prompt_tokens = next(
            delta.answer.completion.prompt_tokens
            for number, delta in kept.told
            if delta.answer is not None and not number
        )

    @property
    def cells(self) -> Cells:
        """Those of the first answer."""
        return self._cells

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the first prompt."""
        return self._prompt_tokens

    @contextmanager
    def running(self) -> Iterator[None]:
        """There is nothing to run; answers that nobody waits for are forgotten."""
        try:
            yield
        finally:
            self._told.clear()

    @property
    def finished(self) -> bool:
        """Whether every request has its answer."""
        return not self._told

    async def next(self) -> Told:
        """The next delta, marked as told again if it is an answer's last."""
        await asyncio.sleep(0)  # they come all at once: others have their turn between them
        number, delta = self._told.popleft()
        if delta.answer is None:
            return number, delta
        current_ledger().ended("cached")
        completion = replace(delta.answer.completion, replayed=True)
        return number, replace(delta, answer=replace(delta.answer, completion=completion))


class KeptAnswers:
    """Stands for the model called ``name``, for the one request whose answers ``admission`` tells again."""

    has_template = True

    def __init__(self, name: str, admission: Admission) -> None:
        self.name = name
        self._admission = admission

    async def admit_chat(self, chat: Chat, tenant: str) -> Admission:
        """The answers."""
        return self._admission

    async def admit_texts(self, asked: Continuation, tenant: str) -> Admission:
        """The answers."""
        return self._admission


def _size(part: Part) -> int:
    text = part.arguments if isinstance(part, ToolPiece) else part.text
    return _DELTA + _CHARACTER * len(text)


def _may_be_kept(answer: Answer) -> bool:
    """Whether it came to its own end, under the parameters that were asked for, and at its usual pace."""
    done = answer.completion
    relaxed = done.stats.relaxed or "stalled_stream" in done.warnings
    return done.finish_reason in ("stop", "length") and not relaxed
