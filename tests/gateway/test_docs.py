"""The page on the gateway and the code say the same."""

from __future__ import annotations

from tests.gateway.world import World, closed_loop
from tests.test_docs import DOCS, cells_under
from unmask.gateway.config.need import USUAL_SHARE
from unmask.gateway.residency import Residency, ResidencyLimits
from unmask.serving.settings import ServerSettings

PAGE = (DOCS / "gateway.md").read_text()


def test_the_limits_on_loaded_models_are_described_with_their_defaults():
    told = {name: default for name, default, _ in cells_under(PAGE, "limit | default | meaning")}
    limits = ResidencyLimits()
    assert (told["turn"], told["lingering"]) == (f"{limits.hold_seconds:g} s", f"{limits.linger_seconds:g} s")
    (waiting,) = (default for name, default in told.items() if "--max-waiting" in name)
    assert int(waiting) == ServerSettings().max_waiting
    (budget,) = (default for name, default in told.items() if "memory_budget" in name)
    assert budget == f"{USUAL_SHARE.share:.0%} of what was free".replace("%", " %")


class _NoTurns(Residency):
    def _turn_ends(self, model):
        return 0.0


def test_what_turns_are_said_to_save():
    figures = []
    for kind in (Residency, _NoTurns):
        residency = kind(ResidencyLimits(memory_bytes=10))
        for name in "ab":
            residency.add(name, size_bytes=8, idle_seconds=None)
        world = World(residency, {"a": 2.0, "b": 2.0})
        for name in "aabb":
            closed_loop(world, name, seconds=0.3, until=1000.0)
        world.run(until=1000.0)
        figures.append(f"{len(world.order)} loads and {len(world.waits):,} answers")
    assert f"that makes {figures[0]}. Without turns it would be {figures[1]}." in PAGE
