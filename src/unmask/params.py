"""What a request may ask for, what a model offers, and what is really in force.

``GenerationParams`` is what a user wrote (``None`` means "not said"); ``resolve.py`` checks it against the model and
gives ``DecodingParams``: every value concrete, fixed for the life of the request, and echoed to the user as
``applied``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from unmask.service_class import ServiceClass

END_TOKENS = ("free", "last", "never")
CACHES = ("exact", "none", "prefix", "dual", "delayed")
SCORES = ("probability", "margin", "entropy")

Attention = Literal["full", "block_causal", "causal_prompt"]
DenoiserKind = Literal["full", "block_causal", "sub_block", "renoise"]
Anchor = Literal["prompt_end", "start"]

MAX_SEED = 2**63
MAX_LOGPROBS = 20  # alternatives per token
MAX_BIASES = 1024  # tokens

# Options that say what the answer looks like; a request may give one of them.
CONSTRAINTS = ("regex", "choices", "json_schema", "template")


class Constraint(msgspec.Struct, frozen=True):
    """What the answer must look like.

    ``kind``: which of ``CONSTRAINTS`` said it. ``automaton``: that of ``constraints/``, in bytes.
    """

    kind: str
    automaton: bytes


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine tells its clients about the model it has loaded.

    ``denoiser`` and ``anchor`` (where block 0 starts) say how its canvas is worked on, ``shifted`` that the logits of
    a position predict the next one. ``rules`` and ``caches`` are those a request may choose, the default first;
    ``block_length``, ``max_tokens`` and ``defaults`` are what a request gets that says nothing else.
    ``context_length`` counts prompt and canvas tokens. ``mask_id`` is None for a model without a mask token.
    ``precision`` says in which number types the model is computed, and why.
    ``adapter`` names the adapter that makes this model of the loaded one; "" for the loaded model itself.
    ``service_classes`` by name are those that a request may choose.
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
    service_classes: dict[str, ServiceClass] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParams:
    """What the user asked for. ``None`` is "not said": ``resolve`` fills in the default it documents.

    What ``sampling.py`` has, and how many of the latest tokens its penalties look at (``repeat_last_n``, -1 for all),
    is for other engines than ours. ``early_exit`` ends a request as soon as all up to its end token is decided, instead
    of with that token's block.
    ``end_tokens``: "last" gives end tokens a confidence of 0, "never" does not propose them (LLaDA's
    ``confidence_eos_eot_inf`` and ``logits_eos_inf``); ``min_tokens`` forbids them at the first positions.
    ``cfg_scale`` is LLaDA's classifier-free guidance: each forward also runs the canvas with its prompt masked.
    ``logprobs`` asks for the log-probability of every token, and of so many alternatives (0 to 20). ``logit_bias``, by
    token id, is added to the logits before anything looks at them. ``lookahead``: most coming steps that a forward may
    compute ahead, as drafts (``engine/lookahead.py``). ``priority``, ``deadline_ms``, ``timeout_ms`` and
    ``service_class`` are checked by ``terms.py``. ``regex``, ``choices``, ``json_schema`` or ``template`` (with
    ``holes``) say what the answer must look like.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    repeat_last_n: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = ()
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
    score: str | None = None
    anchor_threshold: float | None = None
    radius: int | None = None
    low_threshold: float | None = None
    credit_weight: float | None = None
    credit_power: float | None = None
    credit_decay: float | None = None
    kl_threshold: float | None = None
    gap_threshold: float | None = None
    verify_threshold: float | None = None
    entropy_bound: float | None = None
    t_min: float | None = None
    t_max: float | None = None
    stability_threshold: int | None = None
    confidence_threshold: float | None = None
    cache: str | None = None
    refresh_interval: int | None = None
    early_exit: bool | None = None
    min_tokens: int | None = None
    end_tokens: str | None = None
    cfg_scale: float | None = None
    logprobs: int | None = None
    logit_bias: dict[int, float] | None = None
    lookahead: int | None = None
    frames: bool = False
    priority: str | None = None
    deadline_ms: int | None = None
    timeout_ms: int | None = None
    service_class: str | None = None
    regex: str | None = None
    choices: tuple[str, ...] | None = None
    json_schema: Any = None
    template: str | None = None
    holes: dict[str, Any] | None = None

    @property
    def constrained(self) -> bool:
        """Whether anything is said of what the answer must look like."""
        return any(getattr(self, name) is not None for name in (*CONSTRAINTS, "holes"))


class DecodingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Every decoding parameter of one request, concrete. Units: tokens, probabilities, forwards per block.

    The D2F fields govern block creation for every block-causal request; for rules other than ``d2f`` they are
    set so that one block is denoised at a time. ``sub_block_length`` is 0 for models that have no sub-blocks, and
    ``refresh_interval`` for caches that are not refreshed by count. ``answer``: the tokens of an answer that is known
    already and is only to be scored (``scoring.py``); none for one that is to be found.
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
    score: str
    anchor_threshold: float
    radius: int
    low_threshold: float
    credit_weight: float
    credit_power: float
    credit_decay: float
    kl_threshold: float
    gap_threshold: float
    verify_threshold: float
    entropy_bound: float
    t_min: float
    t_max: float
    stability_threshold: int
    confidence_threshold: float
    cache: str
    refresh_interval: int
    early_exit: bool
    min_tokens: int
    end_tokens: str
    cfg_scale: float
    lookahead: int
    frames: bool
    logprobs: int | None = None
    logit_bias: dict[int, float] = {}
    adapter: str = ""
    constraint: Constraint | None = None
    answer: tuple[int, ...] = ()

    @property
    def shadow_rows(self) -> int:
        """The most shadows that a window of the request may have."""
        return self.block_length * RULE_TRAITS[self.rule].shadows

    def applied(self) -> dict[str, Any]:
        """What is really in force, as told to the user: all but the options that nothing reads."""
        unread = {name for name in ALL_RULE_OPTIONS if name not in RULE_TRAITS[self.rule].options}
        unread |= {"frames", "answer"}
        optional = ("sub_block_length", "refresh_interval", "adapter", "logit_bias", "constraint")
        unread |= {name for name in optional if not getattr(self, name)}
        unread |= {"logprobs"} if self.logprobs is None else set()
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if name not in unread}
        return said if self.constraint is None else said | {"constraint": self.constraint.kind}


@dataclass(frozen=True, slots=True)
class RuleTraits:
    """What is to be known of a commit rule besides how it commits.

    ``options``: those that it reads; any other one given with it would be silently ignored, so it is refused. ``pace``:
    how fast it decides a block (``decoding/pace.py``). ``ranked``: it goes by how sure the model is of each position.
    ``pipelined``: several blocks may be live at once. ``edits``: committed tokens may be replaced; ``remasks``: masked
    again, with ``shadows`` by how sure the model is of them where it cannot see them. ``looks_ahead``: it may commit
    the masks beyond the block too. ``renoises``: what it does not accept becomes noise, and ``steps`` counts the
    forwards of a canvas. ``foreseeable``: what it decides can be guessed from the proposals of the forward before, and
    follows from nothing but canvas and proposals. ``defaults`` go before those of the model's family, which are meant
    for its own rules.
    """

    options: tuple[str, ...]
    pace: Literal["free", "even", "owed", "annealed", "fixed"] = "free"
    ranked: bool = True
    pipelined: bool = False
    edits: bool = False
    remasks: bool = False
    shadows: bool = False
    looks_ahead: bool = False
    renoises: bool = False
    foreseeable: bool = True
    defaults: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def revises(self) -> bool:
        """Whether a committed token may change as long as its block is live."""
        return self.edits or self.remasks


_D2F = ("threshold", "score", "add_threshold", "activate_threshold", "max_live_blocks")
_CREDIT = ("threshold", "credit_weight", "credit_power", "credit_decay")
_RENOISE = ("steps", "entropy_bound", "t_min", "t_max", "stability_threshold", "confidence_threshold")

RULE_TRAITS: dict[str, RuleTraits] = {
    "low_confidence": RuleTraits(("steps", "score"), "even"),
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
    "eb": RuleTraits(("entropy_bound", "score"), defaults={"score": "entropy"}),
    "local_leap": RuleTraits(("threshold", "anchor_threshold", "radius"), defaults={"threshold": 0.75}),
    "hierarchy": RuleTraits(("threshold", "low_threshold"), defaults={"threshold": 0.9}),
    "credit": RuleTraits(_CREDIT, foreseeable=False, defaults={"threshold": 0.9}),
    "klass": RuleTraits(("threshold", "kl_threshold", "steps"), "even", foreseeable=False, defaults={"threshold": 0.9}),
    "prophet": RuleTraits(("gap_threshold", "steps"), "even", looks_ahead=True, foreseeable=False),
    "saber": RuleTraits(("min_commits",), "fixed", remasks=True, foreseeable=False, defaults={"min_commits": 2}),
    "wino": RuleTraits(
        ("threshold", "verify_threshold"), remasks=True, shadows=True, foreseeable=False, defaults={"threshold": 0.6}
    ),
}
ALL_RULE_OPTIONS = tuple(dict.fromkeys(option for traits in RULE_TRAITS.values() for option in traits.options))
