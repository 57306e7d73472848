"""Load control by service classes: decided once, when a request is admitted, and told in its response. Pure."""

from __future__ import annotations

import msgspec

from unmask.params import DecodingParams
from unmask.service_class import ServiceClass


def relaxed(params: DecodingParams, service_class: ServiceClass, load: float) -> DecodingParams:
    """``params`` as they are in force under ``service_class`` at ``load`` (0 to 1)."""
    threshold = service_class.threshold(params.threshold, load)
    return msgspec.structs.replace(params, threshold=threshold) if threshold != params.threshold else params
