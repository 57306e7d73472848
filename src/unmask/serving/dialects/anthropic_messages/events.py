"""The events of a streamed message."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from unmask.serving import sse
from unmask.serving.dialects.anthropic_messages.message import Block, Message, StopReason, Usage
from unmask.serving.extension import GenerationReport
from unmask.serving.frames import FrameExtension


class _Tagged(msgspec.Struct, frozen=True, tag_field="type"):
    """An object that says of what type it is."""


class MessageStart(_Tagged, frozen=True, tag="message_start"):
    """The message as it begins: empty."""

    message: Message


class BlockStart(_Tagged, frozen=True, tag="content_block_start"):
    """The next block begins, empty."""

    index: int
    content_block: Block


class TextDelta(_Tagged, frozen=True, tag="text_delta"):
    """More text."""

    text: str


class ThinkingDelta(_Tagged, frozen=True, tag="thinking_delta"):
    """More reasoning."""

    thinking: str


class SignatureDelta(_Tagged, frozen=True, tag="signature_delta"):
    """The signature of the reasoning, which is complete."""

    signature: str


class InputDelta(_Tagged, frozen=True, tag="input_json_delta"):
    """More of a call's input, which is JSON text."""

    partial_json: str


Delta = TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockDelta(_Tagged, frozen=True, tag="content_block_delta"):
    """What is added to the open block."""

    index: int
    delta: Delta


class BlockStop(_Tagged, frozen=True, tag="content_block_stop"):
    """The open block is complete."""

    index: int


class Ending(msgspec.Struct, frozen=True):
    """Why the message ends."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(_Tagged, frozen=True, tag="message_delta"):
    """What was not known when the message began. The counts of ``usage`` are those of the whole message."""

    delta: Ending
    usage: Usage
    unmask: GenerationReport | UnsetType = UNSET


class MessageStop(_Tagged, frozen=True, tag="message_stop"):
    """The message is complete."""


class Ping(_Tagged, frozen=True, tag="ping"):
    """Nothing new."""


class CanvasShown(_Tagged, frozen=True, tag="dllm_canvas"):
    """A canvas frame, for clients that asked for them; an event of a kind that others do not know."""

    unmask: FrameExtension


def event(payload: msgspec.Struct) -> bytes:
    """``payload`` as an event of its own type: without the name, clients would drop it."""
    return sse.data(payload, event=str(payload.__struct_config__.tag))
