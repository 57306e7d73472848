"""What rules keep of each position between forwards: names, widths and types. No tensors, so that all can count it."""

from __future__ import annotations

import numpy as np

VOCABULARY = 0  # as a width: one number for each token of the vocabulary
CREDIT_PAIRS = 16  # with a decay of 0.8, what is dropped beyond them weighs less than 0.03

KEPT: dict[str, dict[str, tuple[int, str]]] = {
    "credit": {"tokens": (CREDIT_PAIRS, "int64"), "credits": (CREDIT_PAIRS, "float32")},
    "klass": {"probability": (VOCABULARY, "float32"), "calm": (1, "float32")},
    "saber": {"confidence": (1, "float64")},
}


def kept_bytes(rule: str, lines: int, vocab: int) -> int:
    """What a request under ``rule`` keeps at most, in bytes, for ``lines`` positions at a time."""
    fields = KEPT.get(rule, {}).values()
    return lines * sum((width or vocab) * np.dtype(kind).itemsize for width, kind in fields)
