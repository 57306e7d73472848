"""What a request may ask for, what a model offers, and what is really in force.

``GenerationParams`` is what a user wrote (``None`` means "not said"); ``resolve.py`` checks it against the model and
gives ``DecodingParams``: every value concrete, fixed for the life of the request, and echoed to the user as
``applied``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

END_TOKENS = ("free", "last", "never")
CACHES = ("exact", "none", "prefix", "dual")

Attention = Literal["full", "block_causal", "causal_prompt"]
DenoiserKind = Literal["full", "block_causal", "sub_block", "renoise"]
Anchor = Literal["prompt_end", "start"]

MAX_SEED = 2**63


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine tells its clients about the model it has loaded.

    ``denoiser`` and ``anchor`` (where block 0 starts) say how its canvas is worked on, ``shifted`` that the logits of
    a position predict the next one. ``rules`` and ``caches`` are those a request may choose, the default first;
    ``block_length``, ``max_tokens`` and ``defaults`` are what a request gets that says nothing else.
    ``context_length`` counts prompt and canvas tokens. ``mask_id`` is None for a model without a mask token.
    ``precision`` says in which number types the model is computed, and why.
    ``adapter`` names the adapter that makes this model of the loaded one; "" for the loaded model itself.
    """

    name: str
    adapter: str = ""
    family: str
    attention: Attention
    denoiser: DenoiserKind
    anchor: Anchor
    shifted: bool
    rules: tuple[str, ...]
    caches: tuple[str, ...]
    defaults: dict[str, float | int | str | bool]
    block_length: int
    max_tokens: int
    context_length: int
    vocab_size: int
    mask_id: int | None
    end_ids: tuple[int, ...]
    parameters: int
    precision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParams:
    """What the user asked for. ``None`` is "not said": ``resolve`` fills in the default it documents.

    ``early_exit`` ends a request as soon as all up to its end token is decided, instead of with that token's block.
    ``end_tokens``: "last" gives end tokens a confidence of 0, "never" does not propose them (LLaDA's
    ``confidence_eos_eot_inf`` and ``logits_eos_inf``); ``min_tokens`` forbids them at the first positions.
    ``cfg_scale`` is LLaDA's classifier-free guidance: each forward also runs the canvas with its prompt masked.
    ``lookahead``: most coming steps that a forward may compute ahead, as drafts (``engine/lookahead.py``).
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    rule: str | None = None
    steps: int | None = None
    block_length: int | None = None
    sub_block_length: int | None = None
    threshold: float | None = None
    factor: float | None = None
    alg_temp: float | None = None
    add_threshold: float | None = None
    activate_threshold: float | None = None
    max_live_blocks: int | None = None
    edit_threshold: float | None = None
    max_edit_steps: int | None = None
    min_commits: int | None = None
    entropy_bound: float | None = None
    t_min: float | None = None
    t_max: float | None = None
    stability_threshold: int | None = None
    confidence_threshold: float | None = None
    cache: str | None = None
    early_exit: bool | None = None
    min_tokens: int | None = None
    end_tokens: str | None = None
    cfg_scale: float | None = None
    lookahead: int | None = None
    frames: bool = False


class DecodingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Every decoding parameter of one request, concrete. Units: tokens, probabilities, forwards per block.

    The D2F fields govern block creation for every block-causal request; for rules other than ``d2f`` they are
    set so that one block is denoised at a time. ``sub_block_length`` is 0 for models that have no sub-blocks.
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    ignore_eos: bool
    rule: str
    steps: int
    block_length: int
    sub_block_length: int
    threshold: float
    factor: float
    alg_temp: float
    add_threshold: float
    activate_threshold: float
    max_live_blocks: int
    edit_threshold: float
    max_edit_steps: int
    min_commits: int
    entropy_bound: float
    t_min: float
    t_max: float
    stability_threshold: int
    confidence_threshold: float
    cache: str
    early_exit: bool
    min_tokens: int
    end_tokens: str
    cfg_scale: float
    lookahead: int
    frames: bool
    adapter: str = ""

    def applied(self) -> dict[str, Any]:
        """What is really in force, as told to the user: all but the options that nothing reads."""
        unread = {name for name in ALL_RULE_OPTIONS if name not in RULE_TRAITS[self.rule].options} | {"frames"}
        unread |= {name for name in ("sub_block_length", "adapter") if not getattr(self, name)}
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name not in unread}


@dataclass(frozen=True, slots=True)
class RuleTraits:
    """What is to be known of a commit rule besides how it commits.

    ``options``: those that it reads; any other one given with it would be silently ignored, so it is refused. ``pace``:
    how fast it decides a block (``decoding/pace.py``). ``ranked``: it goes by how sure the model is of each position.
    ``pipelined``: several blocks may be live at once. ``edits``: committed tokens may be replaced. ``renoises``: what
    it does not accept becomes noise, and ``steps`` counts the forwards of a canvas. ``foreseeable``: what it decides
    can be guessed from the proposals of the forward before, and follows from nothing but canvas and proposals.
    """

    options: tuple[str, ...]
    pace: Literal["free", "even", "owed", "annealed", "fixed"] = "free"
    ranked: bool = True
    pipelined: bool = False
    edits: bool = False
    renoises: bool = False
    foreseeable: bool = True


_D2F = ("threshold", "add_threshold", "activate_threshold", "max_live_blocks")
_RENOISE = ("steps", "entropy_bound", "t_min", "t_max", "stability_threshold", "confidence_threshold")

RULE_TRAITS: dict[str, RuleTraits] = {
    "low_confidence": RuleTraits(("steps",), "even"),
    "threshold": RuleTraits(("threshold",)),
    "factor": RuleTraits(("factor",)),
    "dynamic": RuleTraits(("threshold", "steps"), "even"),
    "sequential": RuleTraits(("steps",), "even", ranked=False),
    "paced_threshold": RuleTraits(("threshold", "steps"), "owed"),
    "maskgit_plus": RuleTraits(("steps", "alg_temp"), "annealed"),
    "topk_margin": RuleTraits(("steps", "alg_temp"), "annealed"),
    "entropy": RuleTraits(("steps", "alg_temp"), "annealed"),
    "origin": RuleTraits(("steps",), "annealed", ranked=False, foreseeable=False),
    "d2f": RuleTraits(_D2F, pipelined=True),
    "joint_threshold": RuleTraits(
        ("threshold", "edit_threshold", "max_edit_steps", "min_commits"), "fixed", edits=True
    ),
    # Its canvas's text is the likeliest tokens, whatever was accepted on the way there.
    "entropy_bound": RuleTraits(_RENOISE, ranked=False, renoises=True, foreseeable=False),
}
ALL_RULE_OPTIONS = tuple(dict.fromkeys(option for traits in RULE_TRAITS.values() for option in traits.options))
