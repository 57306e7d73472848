"""Messages between a client and the engine: MessagePack, each in a frame with its length in front."""

from __future__ import annotations

import struct

import msgspec

from unmask.events import StepReport
from unmask.params import DecodingParams, ModelInfo
from unmask.terms import PLAIN, Terms

HEADER = struct.Struct("!I")


class Submit(msgspec.Struct, array_like=True, tag="submit"):
    """Start a request. ``prompt_ids`` hold no mask id; ``params`` are resolved."""

    request_id: str
    prompt_ids: list[int]
    params: DecodingParams
    terms: Terms = PLAIN


class Cancel(msgspec.Struct, array_like=True, tag="cancel"):
    """Drop a request, wherever it stands; unknown ids are ignored (it may have ended just now)."""

    request_id: str


class Shutdown(msgspec.Struct, array_like=True, tag="shutdown"):
    """End the engine after the running step."""


class Loading(msgspec.Struct, array_like=True, tag="loading"):
    """The share of weights read so far, 0 to 1."""

    share: float


class Ready(msgspec.Struct, array_like=True, tag="ready"):
    """The engine takes requests for the loaded model, which comes first, and for what its adapters make of it."""

    models: list[ModelInfo]


class LoadFailed(msgspec.Struct, array_like=True, tag="failed"):
    """Loading failed; the engine process exits after this message."""

    code: str
    message: str
    hint: str


class Session(msgspec.Struct, array_like=True, tag="session"):
    """So many tokens of conversations were "saved" to the session store, or "restored" from it. ``reason``: why it was
    not all of them; "" if it was.
    """

    action: str
    tokens: int = 0
    reason: str = ""


Command = Submit | Cancel | Shutdown
Message = Loading | Ready | LoadFailed | Session | StepReport

_encoder = msgspec.msgpack.Encoder()
_command_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def pack(message: Command | Message) -> bytes:
    """One framed message."""
    body = _encoder.encode(message)
    return HEADER.pack(len(body)) + body


def unpack_command(body: bytes) -> Command:
    """The command in ``body`` (without its header)."""
    return _command_decoder.decode(body)


def unpack_message(body: bytes) -> Message:
    """The engine's message in ``body`` (without its header)."""
    return _message_decoder.decode(body)
