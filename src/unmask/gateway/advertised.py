"""As what an engine serves the architectures that it knows: to know one is not to be able to write with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from unmask.checkpoints.paradigm import ENCODER_ARCHITECTURES, Paradigm, is_named_for_diffusion
from unmask.gateway.mainline import LOADED_NOT_SERVED

Speaks = Literal["tokens", "canvases", "logits"]  # what a program of llama.cpp gives: see ``program_speech``

# In llama.cpp's table, and no models that write one token after another: projectors, encoders, makers of sound, drafts,
# and clef, which decides.
_NOT_TEXT = ENCODER_ARCHITECTURES | {
    "clip", "gemma-embedding2", "t5", "wavtokenizer-dec", "gemma4-assistant", "dflash", "eagle3", "qwen3tts",
    "pockettts", "clef",
}  # fmt: skip
# What the programs for diffusion in llama.cpp's pull requests 24423 and 24427 decode; they take no other.
_DECODED_ON_CANVASES = frozenset({"diffusion-gemma", "diffusiongemma"})


def advertised(names: Collection[str], speaks: Speaks) -> Mapping[Paradigm, frozenset[str]]:
    """What a program of llama.cpp that knows ``names`` serves, by paradigm.

    Never is an architecture of diffusion among the autoregressive ones: llama-server loads some, and then fails every
    request.
    """
    known = frozenset(names)
    if speaks != "tokens":
        return {"diffusion": known & _DECODED_ON_CANVASES}
    not_served = _NOT_TEXT | LOADED_NOT_SERVED
    return {"autoregressive": frozenset(n for n in known - not_served if not is_named_for_diffusion(n))}
