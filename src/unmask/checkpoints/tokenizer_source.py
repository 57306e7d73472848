"""What a checkpoint says about text, wherever it says it: beside the weights, or inside a GGUF file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tokenizers

from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.gguf_tokenizer import gguf_tokenizer
from unmask.checkpoints.json_file import read_json
from unmask.checkpoints.vocab_merges import vocab_merges_tokenizer
from unmask.errors import InvalidCheckpointError
from unmask.shown import cut

_MAX_TEMPLATE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """A tokenizer, what a ``tokenizer_config.json`` says of it, and the chat template if that has a file of its own.

    ``origin`` is the path to name in messages.
    """

    tokenizer: tokenizers.Tokenizer
    config: dict[str, Any]
    template_file: str | None
    origin: Path

    @classmethod
    def from_directory(cls, path: Path) -> Self:
        """From ``tokenizer.json``, or else ``vocab.json`` and ``merges.txt``, and their companions in ``path``.

        Raises ``InvalidCheckpointError``.
        """
        file = path / "tokenizer.json"
        tokenizer = _read_tokenizer(file) if os.path.lexists(file) else vocab_merges_tokenizer(path)
        config = read_json(path / "tokenizer_config.json", optional=True)
        template = path / "chat_template.jinja"
        return cls(tokenizer, config, _read_text(template) if template.is_file() else None, path)

    @classmethod
    def from_gguf(cls, header: GgufHeader) -> Self:
        """From the metadata of a GGUF file. Raises ``InvalidCheckpointError``."""
        tokenizer, config = gguf_tokenizer(header)
        return cls(tokenizer, config, None, header.path)


def _read_tokenizer(file: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library knows no narrower one
        raise InvalidCheckpointError(
            f"'{file}' cannot be read: {cut(error)}.", hint="Copy the model's tokenizer.json again."
        ) from None


def _read_text(file: Path) -> str:
    with file.open("rb") as stream:
        content = stream.read(_MAX_TEMPLATE_BYTES)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidCheckpointError(f"'{file}' is not UTF-8 text.", hint="Copy the template again.") from None
