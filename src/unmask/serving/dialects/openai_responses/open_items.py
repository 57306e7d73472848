"""Output items while they are written, and the events that tell of each step."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from unmask.answers.parts import Content, Part, Reasoning, ToolPiece
from unmask.serving.dialects.openai_responses import events
from unmask.serving.dialects.openai_responses.events import Event
from unmask.serving.dialects.openai_responses.items import (
    FunctionCall,
    ItemStatus,
    Message,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from unmask.serving.logprobs import Logprob


class OpenItem(abc.ABC):
    """The ``index``-th item of the output."""

    def __init__(self, own_id: str, index: int) -> None:
        self.id = own_id
        self._index = index
        self._pieces: list[str] = []

    @property
    def _text(self) -> str:
        return "".join(self._pieces)

    @abc.abstractmethod
    def takes(self, part: Part) -> bool:
        """Whether ``part`` goes on with it."""

    @abc.abstractmethod
    def item(self, status: ItemStatus) -> OutputItem:
        """The item as far as it is written."""

    @abc.abstractmethod
    def begin(self) -> list[Event]:
        """The events before its first text."""

    @abc.abstractmethod
    def add(self, part: Part, logprobs: Sequence[Logprob] = ()) -> list[Event]:
        """Write ``part``, which it takes; ``logprobs`` come with content."""

    @abc.abstractmethod
    def end(self, item: OutputItem) -> list[Event]:
        """The events after its last text, which has made it ``item``."""


class OpenMessage(OpenItem):
    """A message of one part."""

    def __init__(self, own_id: str, index: int) -> None:
        super().__init__(own_id, index)
        self._logprobs: list[Logprob] = []

    def takes(self, part: Part) -> bool:
        """Content."""
        return isinstance(part, Content)

    def item(self, status: ItemStatus) -> Message:
        """The message."""
        return Message(id=self.id, role="assistant", content=[self._part()], status=status)

    def _part(self) -> OutputText:
        return OutputText(self._text, logprobs=list(self._logprobs))

    def begin(self) -> list[Event]:
        """The item, then its part."""
        empty = Message(id=self.id, role="assistant", content=[], status="in_progress")
        return [
            events.ItemAdded(output_index=self._index, item=empty),
            events.PartAdded(item_id=self.id, output_index=self._index, part=OutputText("")),
        ]

    def add(self, part: Part, logprobs: Sequence[Logprob] = ()) -> list[Event]:
        """Its text."""
        assert isinstance(part, Content)
        self._pieces.append(part.text)
        self._logprobs += logprobs
        return [events.TextDelta(item_id=self.id, output_index=self._index, delta=part.text, logprobs=list(logprobs))]

    def end(self, item: OutputItem) -> list[Event]:
        """The text, the part, the item."""
        part = self._part()
        return [
            events.TextDone(item_id=self.id, output_index=self._index, text=part.text, logprobs=part.logprobs),
            events.PartDone(item_id=self.id, output_index=self._index, part=part),
            events.ItemDone(output_index=self._index, item=item),
        ]


class OpenReasoning(OpenItem):
    """A reasoning item of one part, without a summary."""

    def takes(self, part: Part) -> bool:
        """Reasoning."""
        return isinstance(part, Reasoning)

    def item(self, status: ItemStatus) -> ReasoningItem:
        """The reasoning."""
        return ReasoningItem(id=self.id, content=[ReasoningText(self._text)], status=status)

    def begin(self) -> list[Event]:
        """The item, then its part."""
        return [
            events.ItemAdded(output_index=self._index, item=ReasoningItem(id=self.id, status="in_progress")),
            events.PartAdded(item_id=self.id, output_index=self._index, part=ReasoningText("")),
        ]

    def add(self, part: Part, logprobs: Sequence[Logprob] = ()) -> list[Event]:
        """Its text."""
        assert isinstance(part, Reasoning)
        self._pieces.append(part.text)
        return [events.ReasoningDelta(item_id=self.id, output_index=self._index, delta=part.text)]

    def end(self, item: OutputItem) -> list[Event]:
        """The text, the part, the item."""
        text = self._text
        return [
            events.ReasoningDone(item_id=self.id, output_index=self._index, text=text),
            events.PartDone(item_id=self.id, output_index=self._index, part=ReasoningText(text)),
            events.ItemDone(output_index=self._index, item=item),
        ]


class OpenCall(OpenItem):
    """The ``number``-th call of the answer, of the tool ``name``."""

    def __init__(self, own_id: str, index: int, call_id: str, number: int, name: str) -> None:
        super().__init__(own_id, index)
        self._call_id = call_id
        self._number = number
        self._name = name

    def takes(self, part: Part) -> bool:
        """More of its arguments."""
        return isinstance(part, ToolPiece) and part.index == self._number

    def item(self, status: ItemStatus) -> FunctionCall:
        """The call."""
        return FunctionCall(id=self.id, call_id=self._call_id, name=self._name, arguments=self._text, status=status)

    def begin(self) -> list[Event]:
        """The item, which has no parts."""
        return [events.ItemAdded(output_index=self._index, item=self.item("in_progress"))]

    def add(self, part: Part, logprobs: Sequence[Logprob] = ()) -> list[Event]:
        """A fragment of its arguments; the piece that names the tool may have none."""
        assert isinstance(part, ToolPiece)
        if not part.arguments:
            return []
        self._pieces.append(part.arguments)
        return [events.ArgumentsDelta(item_id=self.id, output_index=self._index, delta=part.arguments)]

    def end(self, item: OutputItem) -> list[Event]:
        """All arguments, then the item."""
        return [
            events.ArgumentsDone(item_id=self.id, output_index=self._index, name=self._name, arguments=self._text),
            events.ItemDone(output_index=self._index, item=item),
        ]
