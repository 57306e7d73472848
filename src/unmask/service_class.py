"""Service classes: by how much the threshold of a request may give way under load, if the request asks for it."""

from __future__ import annotations

import msgspec


class ServiceClass(msgspec.Struct, frozen=True):
    """A named promise of the server's. Up to the load ``relaxes_at`` the threshold stays as asked; from there to
    full load (1) it falls evenly to ``floor``, never below. A threshold at or under ``floor`` is left alone.
    """

    floor: float
    relaxes_at: float

    @property
    def valid(self) -> bool:
        """Whether its numbers can be meant."""
        return 0.0 <= self.floor <= 1.0 and 0.0 <= self.relaxes_at < 1.0

    def threshold(self, asked: float, load: float) -> float:
        """The threshold in force for one that was ``asked`` for, at ``load`` from 0 to 1."""
        if load <= self.relaxes_at or asked <= self.floor:
            return asked
        share = min(1.0, (load - self.relaxes_at) / (1.0 - self.relaxes_at))
        return asked - share * (asked - self.floor)
