"""The events of a stream. Their numbers are given when they are sent."""

from __future__ import annotations

import msgspec

from unmask.serving.dialects.openai_responses.items import OutputItem, OutputText, ReasoningText
from unmask.serving.dialects.openai_responses.response import Response
from unmask.serving.frames import FrameExtension
from unmask.serving.logprobs import Logprob


class Event(msgspec.Struct, kw_only=True, tag_field="type"):
    """What all events have. ``sequence_number`` counts them from 0."""

    sequence_number: int = -1

    @property
    def type(self) -> str:
        """The name that it also has outside of its data."""
        return str(self.__struct_config__.tag)


class ItemEvent(Event, kw_only=True):
    """What happens within an item."""

    item_id: str
    output_index: int


class PartEvent(ItemEvent, kw_only=True):
    """What happens within an item's one part."""

    content_index: int = 0


class Created(Event, tag="response.created"):
    """The first event."""

    response: Response


class InProgress(Event, tag="response.in_progress"):
    """The second."""

    response: Response


class Completed(Event, tag="response.completed"):
    """The last event, of an answer that is whole."""

    response: Response


class Incomplete(Event, tag="response.incomplete"):
    """The last event, of one that is cut short."""

    response: Response


class Failed(Event, tag="response.failed"):
    """The last event, instead of an answer."""

    response: Response


class ErrorEvent(Event, tag="error"):
    """What went wrong, in the catalogue's words; ``Failed`` follows if there is a response."""

    code: str
    message: str
    param: str | None


class ItemAdded(Event, tag="response.output_item.added"):
    """An item begins, without content."""

    output_index: int
    item: OutputItem


class ItemDone(Event, tag="response.output_item.done"):
    """An item as it stays."""

    output_index: int
    item: OutputItem


class PartAdded(PartEvent, tag="response.content_part.added"):
    """An item's part begins, without text."""

    part: OutputText | ReasoningText


class PartDone(PartEvent, tag="response.content_part.done"):
    """A part as it stays."""

    part: OutputText | ReasoningText


class TextDelta(PartEvent, tag="response.output_text.delta"):
    """Text of a message, and the log-probabilities of the tokens whose text it completes."""

    delta: str
    logprobs: list[Logprob] = []


class TextDone(PartEvent, tag="response.output_text.done"):
    """All of it."""

    text: str
    logprobs: list[Logprob] = []


class ReasoningDelta(PartEvent, tag="response.reasoning_text.delta"):
    """Text of a reasoning item."""

    delta: str


class ReasoningDone(PartEvent, tag="response.reasoning_text.done"):
    """All of it."""

    text: str


class ArgumentsDelta(ItemEvent, tag="response.function_call_arguments.delta"):
    """A fragment of a call's arguments."""

    delta: str


class ArgumentsDone(ItemEvent, tag="response.function_call_arguments.done"):
    """All of them."""

    name: str
    arguments: str


class CanvasShown(Event, tag="keepalive"):
    """The whole canvas after a step: no part of the answer.

    Of the types that OpenAI's libraries know, this is the one that means nothing; at one that it does not know, its
    JavaScript accumulator breaks off (measured, 6.49).
    """

    unmask: FrameExtension
