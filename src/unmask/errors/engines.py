"""What befalls engines: they are full, loading, stopping, dead."""

from __future__ import annotations

from unmask.errors.base import UnmaskError


class InsufficientMemoryError(UnmaskError):
    """The model with its key/value cache needs more memory than the device has left, or than models may take."""

    code = "insufficient_memory"
    status = 507


class AllModelsBusyError(UnmaskError):
    """As many requests as may wait for the model to be loaded already; try again later."""

    code = "all_models_busy"
    status = 503


class CircuitOpenError(UnmaskError):
    """The model has failed several times, to load or soon after it was up; it is tried again a little later."""

    code = "engine_circuit_open"
    status = 503


class EngineUnavailableError(UnmaskError):
    """The engine process is loading, stopping, or has died."""

    code = "engine_unavailable"
    status = 503


class ShuttingDownError(UnmaskError):
    """The server is being stopped: it begins nothing new, and ends what outlasts its grace; try again later."""

    code = "shutting_down"
    status = 503

    def __init__(
        self, message: str = "The server is being stopped.", *, hint: str = "Ask again once it is back."
    ) -> None:
        super().__init__(message, hint=hint)


class EngineCrashedError(UnmaskError):
    """The engine of another kind that serves the model has died, or broke off, and the request with it."""

    code = "engine_crashed"
    status = 502


class EngineStalledError(UnmaskError):
    """The engine that served this request got nowhere for as long as it may; it was told to drop the request."""

    code = "engine_stalled"
    status = 504


class UpstreamError(UnmaskError):
    """The engine behind this model answered with an error, or with something that is no answer."""

    code = "upstream_error"
    status = 502


class LaneKeyError(UnmaskError):
    """The engine behind this model does not take the key, or the account, that this server is set up with."""

    code = "lane_key_refused"
    status = 502


class ModelLoadFailedError(UnmaskError):
    """The engine of another kind that should serve the model could not load it."""

    code = "model_load_failed"
    status = 502


class ModelLoadTimeoutError(UnmaskError):
    """The engine that should serve the model was not ready in time, and was ended."""

    code = "model_load_timeout"
    status = 503


class ModelUnsupportedEngineError(UnmaskError):
    """The engine loads the model, and cannot write text with it."""

    code = "model_unsupported_engine"
    status = 400


class ModelRefusedError(UnmaskError):
    """The server was set up with the model and does not serve it: its file, engine or configuration is at fault."""

    code = "model_refused"
    status = 503


class EngineFaultError(UnmaskError):
    """The engine broke one of its own invariants while serving this request: a bug of ours."""

    code = "engine_fault"
    status = 500


class NotFiniteError(UnmaskError):
    """The model gave NaN or infinity: its weights are damaged, or numbers grew too large for its number type."""

    code = "not_finite"
    status = 500
