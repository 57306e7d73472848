"""What the tokenizer's files in a model directory say, without building a tokenizer. Bounded in time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from unmask.checkpoints.json_file import read_fields
from unmask.errors import InvalidCheckpointError

# The largest vocabulary in use takes 33 MB and 2 million values, of which 6,400 added tokens take 1 MB.
_MOST_TOKENIZER = {"most_bytes": 48 * 2**20, "most_values": 2**22}
_MOST_ADDED_BYTES, _MOST_ADDED_TOKENS = 4 * 2**20, 2**15
_MOST_CONFIG = {"most_bytes": 4 * 2**20, "most_values": 2**16}


class _AddedToken(msgspec.Struct):
    content: str
    id: int


class _Tokenizer(msgspec.Struct):
    added_tokens: msgspec.Raw = msgspec.Raw(b"[]")


class _Token(msgspec.Struct):
    content: str = ""


class _Config(msgspec.Struct):
    mask_token: str | _Token | None = None
    chat_template: str | list[Any] | None = None


def added_tokens(directory: Path) -> dict[str, int]:
    """Ids of the tokens that the tokenizer has beside its vocabulary, by their text; none without a tokenizer.

    Raises ``InvalidCheckpointError`` for a ``tokenizer.json`` that is too large or malformed.
    """
    file = directory / "tokenizer.json"
    tokens = read_fields(file, _Tokenizer, **_MOST_TOKENIZER).added_tokens
    size = memoryview(tokens).nbytes
    if size > _MOST_ADDED_BYTES or bytes(tokens).count(b"{") > _MOST_ADDED_TOKENS:
        raise InvalidCheckpointError(
            f"'{file}' adds over {_MOST_ADDED_TOKENS} tokens.", hint="Is it what its name says?"
        )
    try:
        entries = msgspec.json.decode(tokens, type=list[_AddedToken])
    except ValueError as error:
        raise InvalidCheckpointError(
            f"'{file}': its added_tokens are malformed: {error}.", hint="Copy the file again."
        ) from None
    return {token.content: token.id for token in entries}


def mask_token(directory: Path) -> str:
    """The text of the tokenizer's mask token; '' if ``tokenizer_config.json`` names none."""
    token = _config(directory).mask_token
    return (token.content if isinstance(token, _Token) else token) or ""


def has_chat_template(directory: Path) -> bool:
    """Whether there is a chat template, in a file of its own or in ``tokenizer_config.json``."""
    return (directory / "chat_template.jinja").is_file() or bool(_config(directory).chat_template)


def _config(directory: Path) -> _Config:
    return read_fields(directory / "tokenizer_config.json", _Config, **_MOST_CONFIG)
