"""How tokens that are there already are scored: each one's probability given those before it.

A masked diffusion model has no such number by itself. Here it is the chain rule in reading order: position i is judged
in a forward in which all before it is known, and it and all after it are masked, up to the end of the tokens under
full attention, and of the position's block under block-causal attention, where blocks are counted as they are for a
prompt of one token. That is what decoding these tokens one at a time, left to right, would report.
"""

from __future__ import annotations

import msgspec

from unmask.errors import UnsupportedValueError
from unmask.params import DecodingParams, GenerationParams, ModelInfo
from unmask.resolve import resolve


def check_scorable(model: ModelInfo) -> None:
    """Raises ``UnsupportedValueError`` for a model whose canvases cannot be decided position by position."""
    if model.denoiser == "renoise":
        raise UnsupportedValueError(
            f"{model.name} ({model.family}) cannot score a prompt: its canvas has no masks and becomes final as a "
            "whole, so that no token is judged by those before it alone.",
            hint="Leave out 'echo' or 'logprobs'.",
            param="logprobs",
        )


def scoring_params(ids: list[int], model: ModelInfo, alternatives: int, block_length: int) -> DecodingParams:
    """What scores ``ids``, at least two, behind a prompt of the first of them, with so many ``alternatives`` each.

    ``block_length`` is that of the model's blocks; under full attention nothing depends on it.
    """
    check_scorable(model)
    params = GenerationParams(
        max_tokens=len(ids) - 1,
        temperature=0.0,
        rule="sequential",
        block_length=1 if model.denoiser == "full" else block_length,
        cache=model.caches[0],
        ignore_eos=True,
        logprobs=alternatives,
    )
    answer = tuple(ids[1:])
    return msgspec.structs.replace(resolve(params, model, 1), answer=answer, lookahead=len(answer) - 1)
