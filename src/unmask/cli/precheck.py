"""What is wrong with a request can be told before the weights are read: the model's headers suffice."""

from __future__ import annotations

from unmask.checkpoints.directory import find_checkpoint, refuse_foreign
from unmask.checkpoints.hub import HubModel
from unmask.engine.options import EngineOptions
from unmask.errors import CheckpointNotFoundError, UnmaskError
from unmask.gateway.lanes import known_lanes
from unmask.gateway.routing import Route, route
from unmask.models.card import inspect_model
from unmask.models.info import model_info
from unmask.models.registry import describe
from unmask.params import GenerationParams
from unmask.resolve import resolve


def check_request(engine: EngineOptions, params: GenerationParams) -> None:
    """Raise the error that ``params``, for a prompt of one token, would meet in an engine started with ``engine``.

    Of a model of the hub that would have to be downloaded first nothing is known yet.
    """
    try:
        checkpoint = find_checkpoint(engine.model, download=False)
    except CheckpointNotFoundError:
        if HubModel.parse(engine.model) is None:
            raise
        return
    try:
        refuse_foreign(checkpoint)
        spec = describe(checkpoint, attention=engine.attention, adapted=engine.adapter is not None)
    except UnmaskError as error:
        raise _who_serves(engine.model, error) from None
    resolve(params, model_info(spec, checkpoint.name, max_context=engine.max_context), prompt_length=1)


def _who_serves(model: str, error: UnmaskError) -> UnmaskError:
    """``error``, with the hint that another engine serves ``model``, if one does."""
    found = route(inspect_model(model), known_lanes())
    if not isinstance(found, Route) or found.lane.kind == "unmask":
        return error
    hint = f"'unmask serve' serves it, by {found.lane.name}; 'unmask run' asks Unmask's own engine only."
    return UnmaskError.from_code(error.code, error.message, hint)
