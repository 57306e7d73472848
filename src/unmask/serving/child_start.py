"""How the child that serves a model is started, each time that the model is loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from unmask.checkpoints.paradigm import Paradigm
from unmask.gateway.child import Child
from unmask.gateway.config.engine_args import takes_arguments
from unmask.gateway.config.wanted import WantedModel
from unmask.gateway.engine_plan import plan_for
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.lane import Lane
from unmask.gateway.lanes import known_lanes
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.gateway.plan import ChildPlan
from unmask.gateway.rescue import load_or_rescue
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.slot_sessions import Note, sessions_for
from unmask.gateway.upstream.endpoint import Endpoint, UpstreamKind
from unmask.models.card import ModelCard
from unmask.session_store import SessionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStart:
    """``wanted``, whose card is ``card``, goes to ``lane`` with ``options``; ``directory`` tells of its child.

    ``store``: where its conversations are kept, None is nowhere; ``note`` is ``SlotSessions``'s.
    """

    wanted: WantedModel
    card: ModelCard
    lane: Lane
    options: LlamaCppOptions
    directory: RunDirectory
    store: SessionStore | None
    note: Note

    async def connect(self) -> tuple[Endpoint, Child]:
        """A child on ``lane``; unless that alone is wanted, on one other that knows what it turns out not to know."""
        if self.wanted.lane is not None:
            used, child = self.lane, await self._start(self.lane)
        else:
            lanes = await asyncio.to_thread(self._lanes)  # may have to read a program that has changed
            used, child = await load_or_rescue(self.card, lanes, self.lane, self._start, RegistryFile())
        return child_endpoint(used, child, self.wanted.name, self.card.paradigm, self.options.slots), child

    def _lanes(self) -> Sequence[Lane]:
        """Those that may take it. Flags of the model's own are never given to another kind of engine."""
        if not self.wanted.engine_args:
            return known_lanes()
        return [one for one in known_lanes() if one.kind == self.lane.kind and takes_arguments(one)]

    async def _start(self, lane: Lane) -> Child:
        return await Child.start(await asyncio.to_thread(self._plan, lane), self.directory)

    def _plan(self, lane: Lane) -> ChildPlan:
        """As the registry is now, and the files that sessions depend on."""
        wanted, card, options = self.wanted, self.card, self.options
        engines = RegistryFile().read()
        sessions = sessions_for(self.store, lane, card, options, self.note, wanted.name)
        if sessions is not None:
            options = replace(options, sessions=sessions.directory)
        plan = plan_for(lane, engines, card, wanted.name, options, context=wanted.context)
        if wanted.load_timeout is not None:
            plan = replace(plan, start_seconds=wanted.load_timeout)
        return replace(plan, sessions=sessions, own=wanted.engine_args)


def child_endpoint(lane: Lane, child: Child, name: str, paradigm: Paradigm, slots: int) -> Endpoint:
    """Where ``child`` answers for the model ``name``, and how many at once. A server of llama.cpp for diffusion has one
    slot, and shows its model no tools.
    """
    kind: UpstreamKind = lane.kind if lane.kind in ("vllm", "sglang") else "llama.cpp"
    where = Endpoint(lane=lane.name, kind=kind, base_url=f"{child.url}/v1", model=name, key=child.secret)
    if kind != "llama.cpp":
        return where
    if paradigm == "diffusion":
        return replace(where, kind="diffusion", tools=False, at_once=1)
    return replace(where, at_once=slots)
