"""Mask tokens that stand in a text as if they were words."""

from __future__ import annotations

from collections.abc import Collection

# Those of the families that Unmask knows, and of models that fill single gaps.
MASK_TEXTS = ("<|mask|>", "<|mdm_mask|>", "|<MASK>|", "<|MASK|>", "<mask>", "<MASK>", "[MASK]")


def mask_text(text: str, own: Collection[str] = ()) -> str:
    """The mask token that ``text`` holds, of those known and the model's ``own``; "" if it holds none."""
    return next((mask for mask in (*own, *MASK_TEXTS) if mask and mask in text), "")
