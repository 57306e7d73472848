"""Which models can be decoded by the logits of a canvas alone, and what of them. No tensors here."""

from __future__ import annotations

from dataclasses import replace

from unmask.errors import UnsupportedValueError
from unmask.models.spec import ModelSpec
from unmask.params import RULE_TRAITS


def worker_spec(spec: ModelSpec) -> ModelSpec:
    """``spec`` with what remains of it where all that is asked of the model is logits of the canvas behind a prefix.

    Raises ``UnsupportedValueError`` for families that need more: hidden rows left of the canvas (shifted logits), or
    to say which block sees which.
    """
    if spec.denoiser == "renoise":
        return replace(spec, remembers_raw=True)
    if spec.denoiser != "full" or spec.shifted:
        why = "its logits are shifted" if spec.shifted else f"its attention is {spec.attention.replace('_', '-')}"
        raise UnsupportedValueError(
            f"A model of the {spec.family} family is not decoded by the logits of its canvas alone: {why}.",
            hint="Serve it with Unmask's own engine, or one that decodes by itself.",
            param="lane",
        )
    rules = tuple(rule for rule in spec.rules if not RULE_TRAITS[rule].shadows)
    return replace(spec, rules=rules, caches=("none",))
