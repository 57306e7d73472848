"""Fixture checkpoints as a server needs them: some do not say which token is the mask, and none has a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

MASK_ID = 255


def served_copy(
    checkpoint: Path, folder: Path, *, end_id: int | None = None, tokenizer: bool = False, **changes: Any
) -> Path:
    """A directory in ``folder`` with the weights of ``checkpoint`` and its config, which now names the mask.

    ``end_id``, if given, is its only end token; ``tokenizer`` adds one of single bytes; ``changes`` are further keys of
    the config.
    """
    copied = folder / checkpoint.parent.name / checkpoint.name
    copied.mkdir(parents=True)
    for file in checkpoint.iterdir():
        if file.name != "config.json":
            (copied / file.name).symlink_to(file)
    config = {"mask_token_id": MASK_ID} | json.loads((checkpoint / "config.json").read_text()) | changes
    if end_id is not None:
        config["eos_token_id"] = end_id
        config.get("text_config", {})["eos_token_id"] = end_id
    (copied / "config.json").write_text(json.dumps(config))
    if tokenizer:
        _byte_tokenizer(masked="canvas_length" not in config).save(str(copied / "tokenizer.json"))
    return copied


def _byte_tokenizer(masked: bool) -> Tokenizer:
    """256 tokens, each a byte; the last one is the mask where there is one."""
    vocabulary = {byte: index for index, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    if masked:
        vocabulary = {byte: index for byte, index in vocabulary.items() if index != MASK_ID} | {"<|mask|>": MASK_ID}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if masked:
        tokenizer.add_special_tokens([AddedToken("<|mask|>", special=True)])
    return tokenizer
