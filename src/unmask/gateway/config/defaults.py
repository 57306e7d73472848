"""Request parameters of the server's own for a model: what a request gets that says nothing."""

from __future__ import annotations

from dataclasses import fields, replace

from unmask.params import ALL_RULE_OPTIONS, CONSTRAINTS, RULE_TRAITS, GenerationParams
from unmask.sampling import SAMPLING

# Named outside of the `unmask` object; those in SAMPLED are not our own engine's.
SAMPLED = (*SAMPLING, "repeat_last_n")
PLAIN = ("max_tokens", "min_tokens", "temperature", "top_p", "top_k", *SAMPLED, "seed", "stop")
# What an answer must look like, whether it is to have frames and so on is for a request alone to say.
_FOR_REQUESTS = ("frames", "ignore_eos", "logprobs", "logit_bias", *CONSTRAINTS, "holes")
DECODING = tuple(
    field.name for field in fields(GenerationParams) if field.name not in PLAIN and field.name not in _FOR_REQUESTS
)

# Each must suit the others of its group: from a request, or from the defaults, but not some from here, some from there.
_TIED = (
    ("max_tokens", "min_tokens"),
    ("block_length", "sub_block_length", "steps", "min_commits", "radius"),
    ("t_min", "t_max"),
    ("cache", "refresh_interval"),
    ("lookahead", "alg_temp"),
)
# Besides their own options, what not all rules go with.
_OF_RULES = ("cache", "refresh_interval", "end_tokens", "cfg_scale", "lookahead", "service_class")
_OF_ENDS = ("stop", "end_tokens", "min_tokens")  # which answers that must look like something do not go with


def filled(params: GenerationParams, defaults: GenerationParams) -> GenerationParams:
    """``params``, with those of ``defaults`` that it says nothing of.

    Defaults that do not go with what the request says are left out, so that it is not refused for what it did not say:
    a rule with its options, if the request chooses another one by its name or by its options, and what is tied to
    something that it says.
    """
    unsaid = [name for name in (*PLAIN, *DECODING) if _said(defaults, name) and not _said(params, name)]
    if not unsaid:
        return params
    barred = _barred(params, defaults)
    return replace(params, **{name: getattr(defaults, name) for name in unsaid if name not in barred})


def _barred(params: GenerationParams, defaults: GenerationParams) -> set[str]:
    tied = [group for group in _TIED if any(_said(params, name) for name in group)]
    barred = {name for group in tied for name in group}
    if any(_said(params, name) for name in (*CONSTRAINTS, "holes")):
        barred |= {*_OF_ENDS}
    if not _keeps_rule(params, defaults):
        barred |= {"rule", *ALL_RULE_OPTIONS, *_OF_RULES}
    return barred


def _keeps_rule(params: GenerationParams, defaults: GenerationParams) -> bool:
    """Whether the request goes with the rule of the defaults, named or implied by their options."""
    if params.rule is not None:
        return params.rule == defaults.rule
    given = {name for name in ALL_RULE_OPTIONS if _said(params, name)}
    if defaults.rule not in RULE_TRAITS:
        options = any(_said(defaults, name) for name in ALL_RULE_OPTIONS)
        return not given and not (options and any(_said(params, name) for name in _OF_RULES))
    traits = RULE_TRAITS[defaults.rule]
    clash = (
        (params.lookahead and not traits.foreseeable)
        or (params.end_tokens == "last" and not traits.ranked)
        or (params.cache == "delayed" and traits.revises)
        or (params.cfg_scale and traits.shadows)
        or (params.service_class is not None and "threshold" not in traits.options)
    )
    return given <= set(traits.options) and not clash


def _said(params: GenerationParams, name: str) -> bool:
    return getattr(params, name) not in (None, ())
