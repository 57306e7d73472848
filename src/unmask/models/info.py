"""What a spec says of a model, as the engine tells it to its clients. No tensors here: nothing need be loaded."""

from __future__ import annotations

from unmask.errors import InvalidValueError
from unmask.models.spec import ModelSpec
from unmask.params import OWN_LANE, ModelInfo
from unmask.service_class import ServiceClass


def model_info(
    spec: ModelSpec,
    name: str,
    *,
    max_context: int = 0,
    adapter: str = "",
    parameters: int = 0,
    precision: str = "",
    lane: str = OWN_LANE,
    service_classes: dict[str, ServiceClass] | None = None,
) -> ModelInfo:
    """All that requests are checked against. Raises ``InvalidValueError`` as ``context_length`` does."""
    return ModelInfo(
        name=name,
        adapter=adapter,
        family=spec.family,
        attention=spec.attention,
        denoiser=spec.denoiser,
        anchor=spec.anchor,
        shifted=spec.shifted,
        rules=spec.rules,
        caches=spec.caches,
        defaults=spec.defaults,
        block_length=spec.block_length,
        max_tokens=spec.max_tokens,
        context_length=context_length(spec, max_context),
        vocab_size=spec.shape.vocab,
        mask_id=spec.mask_id,
        end_ids=spec.end_ids,
        parameters=parameters,
        precision=precision,
        lane=lane,
        remembers_raw=spec.remembers_raw,
        service_classes=service_classes or {},
    )


def context_length(spec: ModelSpec, max_context: int) -> int:
    """Prompt and canvas tokens of a request: ``max_context``, or the model's own limit if that is 0.

    Raises ``InvalidValueError`` for more than the limit.
    """
    most = spec.shape.context_length
    if max_context > most:
        raise InvalidValueError(
            f"A context of {max_context} was asked for; the model's own limit is {most}.",
            hint="Give at most that, or 0 for all of it.",
            param="max_context",
        )
    return max_context or most
