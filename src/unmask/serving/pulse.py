"""A child that hangs, told from one that is busy with a long prompt: its server takes no notice of anybody."""

from __future__ import annotations

import asyncio

from unmask.errors import EngineStalledError
from unmask.gateway.upstream.upstream import Upstream
from unmask.serving.lane_model import LaneModel

_QUIET_SECONDS = 5.0  # in which no request got further, before anything is asked
_TIMES = 2  # in a row: once may be our own doing, of a machine that slept for one


async def pulse_lost(model: LaneModel, upstream: Upstream) -> EngineStalledError:
    """Wait until the engine of ``model`` leaves ``_TIMES`` questions unanswered while requests wait for it, and what to
    tell those. Nothing is asked of an engine that gets somewhere, or that nobody wants anything of. May be cancelled.
    """
    notice, missed = upstream.patience.notice, 0
    while missed < _TIMES:
        if model.unmoved < _QUIET_SECONDS:
            missed = 0
            await asyncio.sleep(_QUIET_SECONDS)
        elif await upstream.is_silent(notice):
            missed += 1
        else:
            missed = 0
            await asyncio.sleep(_QUIET_SECONDS)
    error = EngineStalledError(
        f"Lane '{upstream.endpoint.lane}' takes no notice of anybody: it left {_TIMES} questions that cost it "
        f"nothing unanswered, for {notice:g} seconds each, while requests waited for it.",
        hint="It is ended; ask again to have it started anew. See its log.",
    )
    model.hang(error)
    return error
