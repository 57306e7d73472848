"""The automata of one model, built off the step loop and remembered."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import msgspec

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.constraints.request import Form, form_of
from unmask.constraints.token_bytes import TokenBytes
from unmask.constraints.worker import MAX_SECONDS, Job, Result
from unmask.errors import InvalidValueError, NotInstalledError, QueueFullError, ShuttingDownError
from unmask.params import Constraint, GenerationParams, ModelInfo

_MOST_KEPT = 128
_MOST_KEPT_BYTES = 64 * 2**20
_MOST_WAITING = 32  # forms to be built, the one at work among them


class ConstraintCompiler:
    """Makes constraints of what requests say. Safe to use from several threads; builds one automaton at a time.

    Refusals are remembered too, so that a form that takes all the time it may have takes it once.
    """

    def __init__(self, tokenizer: Tokenizer, model: ModelInfo) -> None:
        self._tokenizer, self._model = tokenizer, model
        self._tokens: TokenBytes | None = None
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], bytes] = OrderedDict()
        self._refused: OrderedDict[tuple[str, tuple[str, ...]], str] = OrderedDict()
        self._waiting = 0
        self._building: Form | None = None
        self._worker: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()
        # One thread: requests that wait for an automaton must not take the threads that others need.
        self._thread = ThreadPoolExecutor(1, "unmask-constraints")

    def compile(self, params: GenerationParams) -> Constraint | None:
        """The constraint that ``params`` ask for, None if they do not. A new one takes up to ``MAX_SECONDS``.

        Raises errors that name the option; ``NotInstalledError`` without the package that it takes.
        """
        form = form_of(params)
        return None if form is None else self._constraint(form)

    async def compile_beside(self, params: GenerationParams) -> Constraint | None:
        """The same, while the event loop goes on. Raises ``QueueFullError`` when too many forms wait to be built."""
        if not params.constrained:
            return None
        form = await asyncio.to_thread(form_of, params)
        if form is None:
            return None
        known = self._kept.get(form.key)
        if known is not None:
            return Constraint(kind=form.kind, automaton=known)
        if self._waiting >= _MOST_WAITING:
            raise QueueFullError(
                f"{self._waiting} forms are waiting to be built.",
                hint="Try again later.",
                retry_after=round(MAX_SECONDS),
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._constraint, form)
        except asyncio.CancelledError:
            self._end(form)
            raise
        finally:
            self._waiting -= 1

    def _constraint(self, form: Form) -> Constraint:
        if importlib.util.find_spec("outlines_core") is None:
            raise NotInstalledError(
                f"'{form.kind}' takes the package outlines-core, which is not installed.",
                hint="Install it where Unmask is: python -m pip install outlines-core.",
                param=form.kind,
            )
        automaton = self._kept.get(form.key)
        if automaton is None:
            with self._lock:
                automaton = self._kept.get(form.key) or self._build(form)
                self._keep(form.key, automaton)
        return Constraint(kind=form.kind, automaton=automaton)

    def close(self) -> None:
        """End what is being built. Who waits for it, or asks for more, gets ``ShuttingDownError``."""
        self._closed = True
        self._end(self._building)

    def _end(self, form: Form | None) -> None:
        """End the worker of ``form``, one request's own object, if it is at work: others wait for their turn."""
        worker = self._worker
        if worker is not None and self._building is form:
            worker.kill()

    def _keep(self, key: tuple[str, tuple[str, ...]], automaton: bytes) -> None:
        """Remember ``automaton`` as the newest, and forget the oldest ones that there is no room for."""
        self._kept[key] = automaton
        while len(self._kept) > 1 and (
            len(self._kept) > _MOST_KEPT or sum(map(len, self._kept.values())) > _MOST_KEPT_BYTES
        ):
            self._kept.popitem(last=False)

    def _build(self, form: Form) -> bytes:
        model = self._model
        if self._tokens is None:
            excluded = frozenset({*model.end_ids, *(() if model.mask_id is None else (model.mask_id,))})
            self._tokens = TokenBytes(self._tokenizer.backend, excluded)
        begin = self._tokens.begin
        pattern = f"{begin}(?:{form.pattern})" if begin else form.pattern
        job = Job(pattern, self._tokens.ids, model.vocab_size, model.end_ids, form.own)
        reason = self._refused.get(form.key)
        if reason is None:
            result = self._run(job, form)
            if not result.reason:
                return result.automaton
            reason = result.reason
        self._refused[form.key] = reason
        while len(self._refused) > _MOST_KEPT:
            self._refused.popitem(last=False)
        raise _refusal(form, reason)

    def _run(self, job: Job, form: Form) -> Result:
        """What a worker makes of ``job``. Raises ``InvalidValueError`` if it ends before that."""
        command = [sys.executable, "-m", "unmask.constraints.worker"]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, start_new_session=True
        ) as worker:  # Ctrl-C is not for it
            self._building, self._worker = form, worker
            try:
                if self._closed:
                    worker.kill()
                answer, _ = worker.communicate(msgspec.msgpack.encode(job), MAX_SECONDS)
            except subprocess.TimeoutExpired:
                return Result(reason=f"its automaton is not there after {MAX_SECONDS:g} seconds")
            finally:
                self._building = self._worker = None
                worker.kill()
        if self._closed:
            raise ShuttingDownError
        if worker.returncode or not answer:
            raise _refusal(form, "its automaton could not be built, most likely for lack of memory")
        return msgspec.msgpack.decode(answer, type=Result)


def _refusal(form: Form, reason: str) -> InvalidValueError:
    return InvalidValueError(
        f"'{form.kind}' cannot be enforced: {reason}.",
        hint="Make it simpler, or bound fewer repetitions.",
        param=form.kind,
    )
