"""A model for an engine of another kind, which runs as a child of ours or answers at an address."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from unmask.gateway.child import Child
from unmask.gateway.config.wanted import NOTHING_SAID
from unmask.gateway.supervisor import Progress
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.gateway.upstream.upstream import Upstream
from unmask.params import GenerationParams
from unmask.serving.entry import Entry, Stay
from unmask.serving.lane_model import LaneModel
from unmask.serving.lane_resident import LaneResident
from unmask.serving.listing import Listing
from unmask.serving.resident import LoadedModel
from unmask.terms import NO_TIMEOUTS, Timeouts

_log = structlog.get_logger()

Connect = Callable[[], Awaitable[tuple[Endpoint, Child | None]]]


class LaneEntry(Entry):
    """``connect`` gives the address of the engine that serves the model, and the child that it starts for it, if any.

    ``capacity`` and ``timeouts`` are those of ``LaneModel``, ``patience`` is ``Upstream``'s.
    """

    def __init__(
        self,
        listing: Listing,
        connect: Connect,
        *,
        capacity: int,
        timeouts: Timeouts = NO_TIMEOUTS,
        patience: Patience | None = None,
        size_bytes: int = 0,
        stay: Stay = Stay(),  # noqa: B008
        defaults: GenerationParams = NOTHING_SAID,
        aliases: Sequence[str] = (),
        canary: bool = False,
        log: Path | None = None,
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(
            [listing],
            size_bytes=size_bytes,
            stay=stay,
            defaults=defaults,
            aliases=aliases,
            canary=canary,
            files=files,
        )
        self.log = log
        if listing.lane == "remote":
            self.arrival = "model taken up"
        self._connect = connect
        self._capacity = capacity
        self._timeouts = timeouts
        self._patience = patience

    async def _load(self, progress: Progress) -> LoadedModel:
        begun = time.monotonic()
        endpoint, child = await self._connect()
        upstream = Upstream(endpoint, self._patience)
        words = None if child is None else child.explain_end
        model = LaneModel(
            self.name, upstream, self.metrics, self._capacity, self._timeouts, words, defaults=self.defaults
        )
        self.labels["lane"] = endpoint.lane  # which may be another than was thought
        resident = LaneResident(upstream, model, replace(self.listings[0], lane=endpoint.lane), child)
        try:
            await upstream.learn()
        except BaseException:
            await resident.close()
            raise
        if child is None and upstream.contact.lost:
            _log.warning("model unreachable", model=self.name, url=endpoint.base_url, reason=upstream.contact.lost)
        self.metrics.loaded(time.monotonic() - begun, model.stats)
        return resident
