"""What a request, or whoever sends it, does wrong; and that it must wait."""

from __future__ import annotations

from unmask.errors.base import UnmaskError


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


class LogNotFoundError(UnmaskError):
    """The model has no log of its own: only engines that run as children have."""

    code = "log_not_found"
    status = 404


class RequestNotFoundError(UnmaskError):
    """The server's journal holds no request of that id: it is unknown, too old, or from before the last start."""

    code = "request_not_found"
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


class NotServedError(UnmaskError):
    """The endpoint is known, and does what this server does not do."""

    code = "not_served"
    status = 501
