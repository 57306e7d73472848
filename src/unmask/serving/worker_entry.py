"""A model that our own engine decodes, and whose logits programs of another kind give."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Self

from unmask.checkpoints.directory import Checkpoint
from unmask.engine.client import Progress
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.gateway.child_log import ChildLog
from unmask.gateway.log_file import LogFile
from unmask.models.card import ModelCard
from unmask.serving.native_entry import NativeEntry

_LOG_SECONDS = 2.0  # for the last lines of an engine that has ended


class LoggedEngine(ProcessEngine):
    """An engine process with a log of its own, which the programs that it starts write to as well."""

    _log: ChildLog | None = None

    @classmethod
    async def launch_logged(cls, options: EngineOptions, progress: Progress, path: Path, name: str) -> Self:
        """As ``launch``, for the model ``name``, whose log is at ``path``."""
        source, sink = os.pipe()
        log = ChildLog(source, LogFile(path))
        log.note(f"{time.strftime('%Y-%m-%d %H:%M:%S')} starting the engine of model '{name}'")
        try:
            self = await cls.launch(options, progress, words=sink)
        except BaseException:
            os.close(sink)
            await asyncio.to_thread(log.close, _LOG_SECONDS)
            raise
        os.close(sink)
        self._log = log
        return self

    async def close(self) -> None:
        """Ask the process to end, then make sure that it does."""
        await super().close()
        if self._log is not None:
            await asyncio.to_thread(self._log.close, _LOG_SECONDS)


class WorkerEntry(NativeEntry):
    """Loaded in processes of ``options.logits_workers``, beside an engine process that steps them. ``more`` is
    ``NativeEntry``'s.
    """

    def __init__(
        self, name: str, options: EngineOptions, checkpoint: Checkpoint, card: ModelCard, *, log: Path, **more: Any
    ) -> None:
        super().__init__(name, options, checkpoint, card, **more)
        self.log = log

    async def _engine(self, progress: Progress) -> ProcessEngine:
        assert self.log is not None
        return await LoggedEngine.launch_logged(self._options, progress, self.log, self.name)
