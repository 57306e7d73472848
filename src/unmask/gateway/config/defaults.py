"""Request parameters of the server's own for a model: what a request gets that says nothing."""

from __future__ import annotations

from dataclasses import fields, replace

from unmask.params import ALL_RULE_OPTIONS, RULE_TRAITS, GenerationParams

# Named outside of the `unmask` object.
PLAIN = ("max_tokens", "min_tokens", "temperature", "top_p", "top_k", "seed", "stop")
# What an answer must look like, whether it is to have frames and so on is for a request alone to say.
_FOR_REQUESTS = (
    "frames", "ignore_eos", "logprobs", "logit_bias", "regex", "choices", "json_schema", "template", "holes",
)  # fmt: skip
DECODING = tuple(
    field.name for field in fields(GenerationParams) if field.name not in PLAIN and field.name not in _FOR_REQUESTS
)


def filled(params: GenerationParams, defaults: GenerationParams) -> GenerationParams:
    """``params``, with those of ``defaults`` that it says nothing of.

    A rule and its options belong together: defaults that the rule which the request chose, by its name or by its
    options, does not read are left out, so that a request is never refused for what it did not say.
    """
    unsaid = [name for name in (*PLAIN, *DECODING) if _said(defaults, name) and not _said(params, name)]
    if not unsaid:
        return params
    barred = _barred(params, defaults)
    return replace(params, **{name: getattr(defaults, name) for name in unsaid if name not in barred})


def _barred(params: GenerationParams, defaults: GenerationParams) -> set[str]:
    """Of rule and options of rules, those whose defaults do not go with what the request says."""
    given = {name for name in ALL_RULE_OPTIONS if _said(params, name)}
    rule = params.rule
    if rule is None and given <= _read_by(defaults.rule):
        rule = defaults.rule
    if rule is None:
        return {"rule", *ALL_RULE_OPTIONS} if given else set()
    return set(ALL_RULE_OPTIONS) - _read_by(rule)


def _read_by(rule: str | None) -> set[str]:
    return set(RULE_TRAITS[rule].options) if rule in RULE_TRAITS else set()


def _said(params: GenerationParams, name: str) -> bool:
    return getattr(params, name) not in (None, ())
