"""A model as the engine steps it, whose logits other processes give."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from unmask.checkpoints.directory import Checkpoint
from unmask.errors import UnmaskError
from unmask.logits_workers import LOGIT_BYTES, LogitsWorkers
from unmask.models.base import KeyValueCache, Model, StepContext
from unmask.models.device import choose_device
from unmask.models.footprint import stored, sums
from unmask.models.linear import Linear
from unmask.models.logits_worker.call import CanvasCall
from unmask.models.logits_worker.exchange import Exchange
from unmask.models.logits_worker.pool import WorkerPool
from unmask.models.logits_worker.process import WorkerProcess
from unmask.models.logits_worker.seat import Logits
from unmask.models.spec import ModelSpec


class LogitsWorkerModel(Model):
    """Its hidden rows are the numbers of the step's rows, whose logits are there since ``forward`` asked for them."""

    elsewhere = True

    def __init__(
        self, spec: ModelSpec, pool: WorkerPool, *, parameters: int, device: torch.device, most_running: int, words: str
    ) -> None:
        super().__init__(spec)
        self.most_running = most_running
        self.precision = words
        self._pool = pool
        self._parameters = parameters
        self._device = device
        self._calls: list[CanvasCall] = []
        self._answers: list[Logits | UnmaskError] = []

    @property
    def device(self) -> torch.device:
        """Where the logits go."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        """That of the logits."""
        return torch.float32

    @property
    def parameters(self) -> int:
        """Number of weights, which each process has of its own."""
        return self._parameters

    @property
    def token_bytes(self) -> int:
        """Keys and values are the processes' own affair."""
        return 0

    def linears(self) -> Iterator[Linear]:
        """None is here."""
        return iter(())

    def new_cache(self, slots: int) -> KeyValueCache:
        """Nothing to keep."""
        return KeyValueCache([])

    def forward(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """The number of each row [R], once all canvases of the step have their logits, or have none."""
        self._calls, self._answers = step.canvases, []  # lets go of what the step before had
        self._answers = self._pool.answers(step.canvases)
        for call, answer in zip(self._calls, self._answers, strict=True):
            if isinstance(answer, UnmaskError):
                call.fault = answer
            elif call.trail is not None:
                call.trail.add(call.question)
        return torch.arange(len(step.token_ids), device=self._device)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] of the rows numbered ``hidden`` [M]; NaN for those of canvases that have none."""
        rows = hidden.tolist()
        firsts = [call.first_row for call in self._calls]  # ascending, as spans are laid out
        logits = np.empty((len(rows), self.spec.shape.vocab), dtype=np.float32)
        for place, row in enumerate(rows):
            number = bisect(firsts, row) - 1
            answer = self._answers[number]
            logits[place] = np.nan if isinstance(answer, UnmaskError) else answer[row - firsts[number]]
        return torch.from_numpy(logits).to(self._device)

    def close(self) -> None:
        """End the processes."""
        self._pool.close()


def load_elsewhere(
    checkpoint: Checkpoint, spec: ModelSpec, workers: LogitsWorkers, *, context_length: int, device: str
) -> LogitsWorkerModel:
    """``checkpoint`` in processes that are told to take ``context_length`` tokens. ``spec`` is that of ``worker_spec``.

    Raises ``InsufficientMemoryError`` where logits have no room, ``ModelLoadFailedError``, ``ModelLoadTimeoutError``.
    """
    vocabulary = spec.shape.vocab
    exchange = Exchange(workers.count * spec.block_length * vocabulary * LOGIT_BYTES)
    start = partial(_start, workers, checkpoint, context_length, vocabulary)
    pool = WorkerPool(start, workers.count, exchange, vocabulary, workers.step_seconds)
    return LogitsWorkerModel(
        spec,
        pool,
        parameters=sums(stored(checkpoint))["parameters"],
        device=choose_device(device),
        most_running=workers.count if spec.remembers_raw else Model.most_running,
        words=f"what {os.path.basename(workers.program)} computes in",
    )


def _start(workers: LogitsWorkers, checkpoint: Checkpoint, context_length: int, vocabulary: int) -> WorkerProcess:
    environment = {"MAXTOK": str(context_length), "DG_KVCACHE": os.environ.get("DG_KVCACHE", "1")}
    if workers.gpu_layers is not None:
        environment["NGL"] = str(workers.gpu_layers)
    process = WorkerProcess([workers.program, os.path.abspath(checkpoint.path)], environment)
    try:
        process.await_ready(vocabulary, workers.start_seconds)
    except BaseException:
        process.close()
        raise
    return process
