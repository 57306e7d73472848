"""The terms on which a request waits and runs: how urgent it is, for whom, and how long it may take.

They decide when a request is served, never what it answers; only a service class may change a threshold, and the
response says so.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from unmask.errors import InvalidValueError
from unmask.params import RULE_TRAITS, DecodingParams, GenerationParams, ModelInfo
from unmask.shown import shown

Priority = Literal["interactive", "batch"]
PRIORITIES: tuple[Priority, ...] = ("interactive", "batch")  # the most urgent first

_MOST_DEADLINE = 3600.0  # seconds
_MOST_TIMEOUT = 86400.0


class Timeouts(msgspec.Struct, frozen=True):
    """A server's limits in seconds, counted from a request's arrival; 0 is no limit.

    ``queue``: for a request that nothing was computed of. ``request``: for any; a request may ask for less.
    """

    queue: float = 0.0
    request: float = 0.0


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """One request's terms. Times are seconds since its arrival, None for no limit.

    ``tenant``: who it is served for; tenants of equal priority share the engine fairly. ``deadline`` orders the
    waiting requests of a tenant and ends nothing; ``timeout`` and ``queue_timeout`` end the request.
    """

    priority: Priority = "interactive"
    tenant: str = ""
    deadline: float | None = None
    queue_timeout: float | None = None
    timeout: float | None = None
    service_class: str = ""

    def applied(self) -> dict[str, Any]:
        """What is in force, in the request's words: ``priority``, and of the others those that say anything."""
        said = {
            "deadline_ms": self.deadline and round(self.deadline * 1000),
            "timeout_ms": self.timeout and round(self.timeout * 1000),
            "service_class": self.service_class,
        }
        return {"priority": self.priority} | {name: value for name, value in said.items() if value}


NO_TIMEOUTS = Timeouts()
PLAIN = Terms()


def resolve_terms(
    params: GenerationParams,
    model: ModelInfo,
    decoding: DecodingParams,
    timeouts: Timeouts = NO_TIMEOUTS,
    tenant: str = "",
) -> Terms:
    """Check what ``params`` says of terms against the server's; ``decoding`` is what it says of all else, resolved.

    Raises ``InvalidValueError`` naming the field.
    """
    if params.priority not in (None, *PRIORITIES):
        raise InvalidValueError(
            f"'priority' is {shown(params.priority)}.", hint=f"Use one of {', '.join(PRIORITIES)}.", param="priority"
        )
    _check_service_class(params.service_class, model, decoding)
    timeout = _seconds("timeout_ms", params.timeout_ms, timeouts.request or _MOST_TIMEOUT)
    return Terms(
        priority="batch" if params.priority == "batch" else "interactive",
        tenant=tenant,
        deadline=_seconds("deadline_ms", params.deadline_ms, _MOST_DEADLINE),
        queue_timeout=timeouts.queue or None,
        timeout=timeout or timeouts.request or None,
        service_class=params.service_class or "",
    )


def _seconds(name: str, milliseconds: Any, most: float) -> float | None:
    if milliseconds is None:
        return None
    number = isinstance(milliseconds, int) and not isinstance(milliseconds, bool)
    if not number or not 1 <= milliseconds <= most * 1000:
        raise InvalidValueError(
            f"'{name}' is {shown(milliseconds)}; it must be an integer from 1 to {most * 1000:.0f}.", param=name
        )
    return float(milliseconds / 1000)


def _check_service_class(name: str | None, model: ModelInfo, decoding: DecodingParams) -> None:
    """A class must exist and be able to change something."""
    if name is None:
        return
    classes = model.service_classes
    if name not in classes:
        known = f"Use one of {', '.join(classes)}." if classes else "This server has none (--service-class)."
        raise InvalidValueError(f"'service_class' is {shown(name)}.", hint=known, param="service_class")
    if "threshold" not in RULE_TRAITS[decoding.rule].options:
        raise InvalidValueError(
            f"'service_class' has no effect under rule '{decoding.rule}', which reads no threshold.",
            hint="Leave it out, or choose another rule.",
            param="service_class",
        )
    if decoding.threshold <= classes[name].floor:
        raise InvalidValueError(
            f"'service_class' has no effect: the threshold {decoding.threshold:g} is not above its floor "
            f"{classes[name].floor:g}.",
            hint="Leave it out.",
            param="service_class",
        )
