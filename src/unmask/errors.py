"""The catalogue of errors a person can meet.

Every error has a stable ``code`` (programs match on it), an HTTP ``status``, a message that says what was
wrong, and a ``hint`` that says what to do. ``param`` names the request field at fault, where there is one.
Anything that is not an ``UnmaskError`` is a bug of ours.
"""

from __future__ import annotations

from typing import ClassVar


class UnmaskError(Exception):
    """Base of the catalogue: ``code``, ``status``, ``message``, optional ``hint`` and ``param``.

    ``beside``: the other field that message or hint speak of, if ``param`` is at odds with one.
    ``retry_after``: the seconds after which the same request may be served, where that is known.
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        param: str | None = None,
        beside: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param
        self.beside = beside
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    @staticmethod
    def from_code(code: str, message: str, hint: str = "") -> UnmaskError:
        """The error of the catalogue with ``code``, as it comes back from another process."""
        kinds = {kind.code: kind for kind in UnmaskError.__subclasses__()}
        return kinds.get(code, UnmaskError)(message, hint=hint)


class InvalidValueError(UnmaskError):
    """A known field has a value of the wrong type, out of range, or at odds with another field."""

    code = "invalid_value"
    status = 400


class UnknownFieldError(UnmaskError):
    """The request has a field this endpoint does not know."""

    code = "unknown_field"
    status = 400


class UnsupportedValueError(UnmaskError):
    """A field is known to the dialect but this server, or this model, cannot honour the value asked for."""

    code = "unsupported_value"
    status = 400


class ContextLengthError(UnmaskError):
    """Prompt and canvas together do not fit in the model's context."""

    code = "context_length_exceeded"
    status = 400


class InvalidApiKeyError(UnmaskError):
    """The server asks for an API key, and the request carries none or another one."""

    code = "invalid_api_key"
    status = 401


class InsufficientScopeError(UnmaskError):
    """The API key is known, and not allowed to do this."""

    code = "insufficient_scope"
    status = 403


class HostNotAllowedError(UnmaskError):
    """The request's `Host` is neither this machine nor a name given with `--allowed-host`."""

    code = "host_not_allowed"
    status = 403


class OriginNotAllowedError(UnmaskError):
    """A web page of another site sent the request, and that site was not given with `--allowed-origin`."""

    code = "origin_not_allowed"
    status = 403


class ModelNotFoundError(UnmaskError):
    """The request names a model this server does not serve."""

    code = "model_not_found"
    status = 404


class ResponseNotFoundError(UnmaskError):
    """The response asked for is not kept here: unknown, deleted, too old, or somebody else's."""

    code = "response_not_found"
    status = 404


class PreviousResponseNotFoundError(UnmaskError):
    """The response that `previous_response_id` names is not kept here, for one of the same reasons."""

    code = "previous_response_not_found"
    status = 400


class StoreError(UnmaskError):
    """The file that responses are kept in cannot be used: damaged, locked, full, or another program's."""

    code = "store_unusable"
    status = 500


class QueueFullError(UnmaskError):
    """Too many requests are waiting already; try again later."""

    code = "queue_full"
    status = 429


class RateLimitError(UnmaskError):
    """The API key has made as many requests as it may for now; try again later."""

    code = "rate_limit_exceeded"
    status = 429


class TokenBudgetError(UnmaskError):
    """The API key has used the tokens that it has for now; try again later."""

    code = "token_budget_exceeded"
    status = 429


class TooManyConnectionsError(UnmaskError):
    """As many connections are open as the server holds; try again later."""

    code = "too_many_connections"
    status = 503


class QueueTimeoutError(UnmaskError):
    """The request has waited as long as it may, and nothing of its answer was begun; try again later."""

    code = "queue_timeout"
    status = 503


class ScoringTimeoutError(UnmaskError):
    """The request's time was over before all tokens of its prompt were scored; some of them would be no answer."""

    code = "scoring_timeout"
    status = 503


class InsufficientMemoryError(UnmaskError):
    """The model with its key/value cache needs more memory than the device has left."""

    code = "insufficient_memory"
    status = 507


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
    """The engine of another kind that serves the model has died, and the request with it."""

    code = "engine_crashed"
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


class EngineFaultError(UnmaskError):
    """The engine broke one of its own invariants while serving this request: a bug of ours."""

    code = "engine_fault"
    status = 500


class NotFiniteError(UnmaskError):
    """The model gave NaN or infinity: its weights are damaged, or numbers grew too large for its number type."""

    code = "not_finite"
    status = 500


class CheckpointNotFoundError(UnmaskError):
    """The model path does not exist, or holds no checkpoint."""

    code = "checkpoint_not_found"
    status = 404


class InvalidCheckpointError(UnmaskError):
    """The checkpoint is there, but a file in it is missing, malformed or contradicts another."""

    code = "invalid_checkpoint"
    status = 400


class UnknownArchitectureError(UnmaskError):
    """The checkpoint's architecture is none that this engine serves."""

    code = "unknown_architecture"
    status = 400


class NotATextModelError(UnmaskError):
    """The model makes no text: it makes images, video or sound, or vectors of text."""

    code = "not_a_text_model"
    status = 400


class AutoregressiveModelError(UnmaskError):
    """The model writes one token after another; as a diffusion model it would answer with garbage."""

    code = "autoregressive_model"
    status = 400


class AdapterNotModelError(UnmaskError):
    """An adapter was given for a model: it changes a base model and is none itself."""

    code = "adapter_not_model"
    status = 400


class SidecarNotModelError(UnmaskError):
    """The file accompanies a model and is none: a projector of images, an importance matrix, a vocabulary."""

    code = "sidecar_not_model"
    status = 400


class PickleRefusedError(UnmaskError):
    """The weights are pickled; to read them is to run the code in them, which Unmask never does."""

    code = "pickle_refused"
    status = 400


class UnsupportedQuantizationError(UnmaskError):
    """The weights are packed (AWQ, GPTQ, FP8, MLX, ...) in a way that Unmask cannot compute with."""

    code = "unsupported_quantization"
    status = 400


class ParadigmMismatchError(UnmaskError):
    """The engine asked for serves models of the other paradigm; it would fail, or answer with garbage."""

    code = "paradigm_mismatch"
    status = 400


class NoLaneError(UnmaskError):
    """No engine known here serves the model, or not the one that was asked for."""

    code = "no_lane"
    status = 400


class LaneMissingError(UnmaskError):
    """An engine would serve the model, and cannot be used here: it is not installed, or does not run."""

    code = "lane_missing"
    status = 501


class UnknownLaneError(UnmaskError):
    """No engine known here has the name that was asked for."""

    code = "unknown_lane"
    status = 400


class NotInstalledError(UnmaskError):
    """The request needs an optional part of Unmask, whose package is not installed here."""

    code = "not_installed"
    status = 501


class NotServedError(UnmaskError):
    """The endpoint is known, and does what this server does not do."""

    code = "not_served"
    status = 501


class PortBusyError(UnmaskError):
    """Another process listens on the address asked for."""

    code = "port_busy"
    status = 500


class InvalidKeyFileError(UnmaskError):
    """The key file cannot be read, or does not hold keys as `unmask keys` writes them."""

    code = "invalid_key_file"
    status = 500


class InvalidEngineRegistryError(UnmaskError):
    """The file of engines cannot be read or written, or does not hold engines as `unmask engine` writes them."""

    code = "invalid_engine_registry"
    status = 500


class EngineUnusableError(UnmaskError):
    """The program given is no engine that Unmask can start, or it does not run on this machine."""

    code = "engine_unusable"
    status = 400


class EngineBuildError(UnmaskError):
    """An engine could not be built or installed: a tool is missing, or the build failed."""

    code = "engine_build_failed"
    status = 500
