"""From deltas of an answer to output items, one after another, and the events that tell of them. Pure."""

from __future__ import annotations

from unmask.answers.answer import AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.parts import Content, Part, Reasoning
from unmask.events import TokenLogprob
from unmask.serving.dialects.openai_responses.events import Event
from unmask.serving.dialects.openai_responses.items import ItemStatus, OutputItem
from unmask.serving.dialects.openai_responses.open_items import OpenCall, OpenItem, OpenMessage, OpenReasoning
from unmask.serving.logprobs import Logprob, encode_entries


class OutputWriter:
    """Writes the items of one answer: a new one wherever parts of another kind, or another call, begin.

    Whole answers are written in the same way, without anybody looking at the events: items do not depend on how parts
    are split into deltas. ``key`` makes ids of its own kind, which no other response has.
    """

    def __init__(self, key: str, cells: Cells) -> None:
        self._key = key
        self._cells = cells
        self._done: list[OutputItem] = []
        self._open: OpenItem | None = None
        self._messages = 0  # begun so far: a message is a run of content
        self._entries: list[tuple[int, TokenLogprob]] = []  # that no message has taken yet, with their runs

    @property
    def output(self) -> list[OutputItem]:
        """All items; the one that is being written, too."""
        return self._done if self._open is None else [*self._done, self._open.item("incomplete")]

    def write(self, delta: AnswerDelta) -> list[Event]:
        """The events of ``delta``, up to the end of the last item if it is the answer's last."""
        self._entries += zip(delta.runs, delta.logprobs or (), strict=True)
        told: list[Event] = []
        for part in delta.parts:
            item = self._open
            if item is None or not item.takes(part):
                told += self._close("completed")
                item = self._open = self._next(part)
                told += item.begin()
            told += item.add(part, self._own_logprobs())
        told += self._late_logprobs()
        if delta.answer is not None:
            cut = delta.answer.finish == "length" or delta.answer.broken_off
            told += self._end("incomplete" if cut else "completed")
        return told

    def _next(self, part: Part) -> OpenItem:
        """The item that begins with ``part``."""
        index = len(self._done)
        own = f"{self._key}_{index}"
        match part:
            case Content():
                self._messages += 1
                return OpenMessage(f"msg_{own}", index)
            case Reasoning():
                return OpenReasoning(f"rs_{own}", index)
        return OpenCall(f"fc_{own}", index, f"call_{own}", part.index, part.name or "")

    def _close(self, status: ItemStatus) -> list[Event]:
        """End the open item, if there is one."""
        if self._open is None:
            return []
        told = self._late_logprobs()
        item = self._open.item(status)
        told += self._open.end(item)
        self._done.append(item)
        self._open = None
        return told

    def _end(self, status: ItemStatus) -> list[Event]:
        """An answer that says nothing is an empty message."""
        told: list[Event] = []
        if self._open is None:
            self._open = self._next(Content(""))
            told += self._open.begin()
        return told + self._close(status)

    def _own_logprobs(self) -> list[Logprob]:
        """Those of the entries so far that belong to the open message."""
        if not isinstance(self._open, OpenMessage):
            return []
        own = [entry for run, entry in self._entries if run < self._messages]
        self._entries = [(run, entry) for run, entry in self._entries if run >= self._messages]
        return encode_entries(own, self._cells)

    def _late_logprobs(self) -> list[Event]:
        """Those that came after the text that they belong to."""
        logprobs = self._own_logprobs()
        return self._open.add(Content(""), logprobs) if self._open is not None and logprobs else []
