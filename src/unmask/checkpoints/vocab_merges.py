"""The tokenizer of a directory without ``tokenizer.json``: byte-level BPE from ``vocab.json`` and ``merges.txt``.

Every token keeps the id that the files give it, or the tokenizer is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from tokenizers import AddedToken, Tokenizer

from unmask.checkpoints.byte_level import WORD_RULES, byte_level_tokenizer
from unmask.checkpoints.json_file import read_fields, read_json
from unmask.checkpoints.tokenizer_files import (
    COPY_TOKENIZER,
    VOCABULARY_PAIR,
    SavedToken,
    TokenId,
    TokenizerFiles,
)
from unmask.errors import InvalidCheckpointError

# The largest vocabularies in use have 200,000 tokens; each of the files takes 4 MB.
_MOST_BYTES, _MOST_TOKENS = 32 * 2**20, 2**19

# Some vocabularies reserve names by the hundred that no merge makes; a merges.txt cut short leaves thousands.
_MOST_UNMADE = 1024


def vocab_merges_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of ``vocab.json``, ``merges.txt`` and the added tokens of ``directory``.

    Raises ``InvalidCheckpointError``.
    """
    missing = [name for name in VOCABULARY_PAIR if not (directory / name).is_file()]
    if missing:
        raise InvalidCheckpointError(
            f"'{directory}' has neither tokenizer.json nor {' and '.join(missing)}.", hint=COPY_TOKENIZER
        )
    files = TokenizerFiles(directory)
    rule = WORD_RULES[files.word_rule()]
    file = directory / "vocab.json"
    vocabulary = read_fields(file, dict[str, TokenId], most_bytes=_MOST_BYTES, most_values=_MOST_TOKENS)
    added = _added(files.saved_tokens(), _roles(directory), vocabulary)
    ids = _ids(directory, vocabulary, added)
    merges = _merges(directory / "merges.txt", vocabulary)
    _check_whole(directory, vocabulary, merges)
    tokenizer = byte_level_tokenizer(ids, merges, rule)
    tokenizer.add_special_tokens([_hugging_face(token) for token in added.values() if token.special])
    tokenizer.add_tokens([_hugging_face(token) for token in added.values() if not token.special])
    known = tokenizer.get_added_tokens_decoder()
    for index, token in added.items():
        if index not in known or known[index].content != token.content:
            raise _error(directory, f"{_shown(token.content)} cannot be an added token of the id {index}")
    return tokenizer


def _added(saved: dict[int, SavedToken], roles: set[str], vocabulary: dict[str, int]) -> dict[int, SavedToken]:
    """The added tokens by id. Those that have a role are special, and added even if they are in the vocabulary."""
    texts = {token.content for token in saved.values()}
    of_vocabulary = {vocabulary[text]: SavedToken(text) for text in roles - texts if text in vocabulary}
    return {
        index: msgspec.structs.replace(token, special=token.special or token.content in roles)
        for index, token in (of_vocabulary | saved).items()
    }


def _roles(directory: Path) -> set[str]:
    """The texts of ``eos_token``, ``additional_special_tokens`` and the like."""
    texts = set()
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        for key, value in read_json(directory / name, optional=True).items():
            if key.endswith(("_token", "_tokens")):
                entries = value if isinstance(value, list) else [value]
                texts |= {entry for entry in map(_text, entries) if isinstance(entry, str)}
    return texts


def _text(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _ids(directory: Path, vocabulary: dict[str, int], added: dict[int, SavedToken]) -> dict[str, int]:
    """The ids of all tokens by their text."""
    ids = vocabulary | {token.content: index for index, token in added.items()}
    texts: dict[int, str] = {}
    for text, index in ids.items():
        if vocabulary.get(text, index) != index:
            raise _error(directory, f"{_shown(text)} has the id {vocabulary[text]} in vocab.json, but also {index}")
        if texts.setdefault(index, text) != text:
            raise _error(directory, f"{_shown(texts[index])} and {_shown(text)} have the same id, {index}")
    return ids


def _merges(file: Path, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(_lines(file), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.rstrip("\r").partition(" ")
        for text in (left, right, left + right):
            if text not in vocabulary:
                raise _error(file, f"line {number} needs {_shown(text)}, which is not in vocab.json")
        merges.append((left, right))
    return merges


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES or content.count(b"\n") > _MOST_TOKENS:
            raise _error(file, f"it has over {_MOST_BYTES >> 20} MiB or {_MOST_TOKENS} lines")
        return content.decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _error(file, f"it cannot be read: {error}") from None


def _check_whole(directory: Path, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
    """Raise ``InvalidCheckpointError`` for files that were cut short and can be read all the same."""
    if not vocabulary:
        raise _error(directory / "vocab.json", "it has no tokens")
    unmade = {text for text in vocabulary if len(text) > 1}.difference(left + right for left, right in merges)
    if len(unmade) > _MOST_UNMADE:
        raise _error(directory / "merges.txt", f"it makes none of {len(unmade)} tokens, such as {_shown(min(unmade))}")


def _hugging_face(token: SavedToken) -> AddedToken:
    flags = msgspec.structs.asdict(token)
    if token.normalized is None:
        flags["normalized"] = not token.special
    return AddedToken(**flags)


def _shown(text: str) -> str:
    return repr(text[:50])


def _error(path: Path, fault: str) -> InvalidCheckpointError:
    return InvalidCheckpointError(f"The tokenizer in '{path}' cannot be used: {fault}.", hint=COPY_TOKENIZER)
