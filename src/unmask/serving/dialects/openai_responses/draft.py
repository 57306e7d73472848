"""A response on its way, streamed or not: from its first to its last state, and into the store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog
from msgspec.structs import replace

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.cells import Cells
from unmask.errors import StoreError
from unmask.serving.admission import Admission
from unmask.serving.dialects.openai_responses.events import Event
from unmask.serving.dialects.openai_responses.items import Item, OutputItem
from unmask.serving.dialects.openai_responses.response import Response, finish
from unmask.serving.dialects.openai_responses.writer import OutputWriter
from unmask.serving.response_store import KeptResponse, ResponseStore
from unmask.serving.trace import current_trace

_log = structlog.get_logger()


class Draft:
    """``response``, once all deltas are written with its answer. ``conversation``: the items that it answers."""

    def __init__(self, response: Response, conversation: Sequence[Item], cells: Cells) -> None:
        self.response = response
        self.answer: Answer | None = None
        self._conversation = conversation
        self._writer = OutputWriter(response.id.removeprefix("resp_"), cells)

    @property
    def output(self) -> list[OutputItem]:
        """The output so far."""
        return self._writer.output

    def write(self, delta: AnswerDelta) -> list[Event]:
        """Add ``delta``; gives the events that tell of it."""
        told = self._writer.write(delta)
        if delta.answer is not None:
            self.answer = delta.answer
            self.response = finish(self.response, delta.answer, self._writer.output)
        return told

    async def read(self, admission: Admission) -> Answer:
        """Write all that comes of ``admission``: one answer."""
        while self.answer is None:
            _, delta = await admission.next()
            current_trace().heard(delta)
            self.write(delta)
        return self.answer

    async def keep(self, store: ResponseStore, owner: str) -> None:
        """Keep the finished response for ``owner``, if it shall be kept.

        An answer is not withheld because a disk is full: its ``store`` then says that it is not kept.
        """
        if not self.response.store:
            return
        conversation = msgspec.json.encode(self._conversation)
        row = KeptResponse(self.response.id, conversation, msgspec.json.encode(self.response))
        try:
            kept = await store.keep(owner, row)
        except StoreError as error:
            _log.error("response not kept", reason=str(error))
            kept = False
        if not kept:
            self.response = replace(self.response, store=False)
