"""A finite automaton over a model's tokens: which of them may follow which.

Tokens that do the same in every state form a class; there are far fewer classes than tokens. For every two states that
some token connects there is a *link*, and the tokens that connect them are one *set* of classes, which many links
share: all inside of a string, say. So a step's cost is counted in links, classes and members of sets, not in tokens.

Shape letters: V vocabulary, Q states, C classes, K links, D distinct sets, E members of all sets together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

NO_CLASS = 0  # of tokens that no state allows, the mask among them
NO_STATE = -1
NEVER = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Automaton:
    """``class_of`` [V]; links by source then target: ``sources``, ``targets``, ``sets`` [K]; the classes of set d are
    ``members[first_members[d]:first_members[d + 1]]``, ascending. ``accepting`` [Q]: where the text may end.

    The last class holds the end tokens, the last state is where they lead: from accepting states and from itself, so
    that nothing but end tokens follows one. Every state can be reached, and reaches an accepting one.
    """

    start: int
    accepting: Bools
    class_of: Ints
    sources: Ints
    targets: Ints
    sets: Ints
    first_members: Ints
    members: Ints

    @property
    def states(self) -> int:
        """Q."""
        return len(self.accepting)

    @property
    def end_class(self) -> int:
        """The class of the end tokens."""
        return self.classes - 1

    @cached_property
    def classes(self) -> int:
        """C, ``NO_CLASS`` included."""
        return int(self.members.max()) + 1

    @cached_property
    def next_states(self) -> Ints:
        """The state that a token of each class leads to [Q, C]; ``NO_STATE`` if none."""
        table = np.full((self.states, self.classes), NO_STATE, dtype=np.int32)
        lengths = np.diff(self.first_members)[self.sets]
        link = np.repeat(np.arange(len(self.sets)), lengths)
        within = np.arange(len(link)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        classes = self.members[self.first_members[self.sets[link]] + within]
        table[self.sources[link], classes] = self.targets[link]
        return table

    @cached_property
    def has_member(self) -> Bools:
        """Whether a class belongs to a set [D, C]."""
        table = np.zeros((len(self.first_members) - 1, self.classes), dtype=np.bool_)
        table[np.repeat(np.arange(len(table)), np.diff(self.first_members)), self.members] = True
        return table

    @cached_property
    def distance(self) -> Ints:
        """The fewest tokens from each state to an accepting one [Q]."""
        return distances(self.sources, self.targets, self.accepting)

    def shortest(self, min_tokens: int) -> int:
        """The fewest tokens, of which the first ``min_tokens`` are no end tokens, that lead to an accepting state."""
        if not min_tokens:
            return int(self.distance[self.start])
        inner = self.sets != self.sets[-1]  # the last link is the end's loop, and its set the end tokens'
        reached = np.zeros(self.states, dtype=np.bool_)
        reached[self.start] = True
        for _ in range(min_tokens):
            onward = np.zeros_like(reached)
            onward[self.targets[inner & reached[self.sources]]] = True
            reached = onward
            if not reached.any():
                return NEVER
        return min_tokens + int(self.distance[reached].min())

    def to_bytes(self) -> bytes:
        """The automaton as it travels between processes."""
        return _encoder.encode(
            _Wire(
                self.start,
                *(getattr(self, name).astype(kind).tobytes() for name, kind in _ARRAYS.items()),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Automaton:
        """The automaton that ``to_bytes`` wrote; one object for equal bytes, as long as it is remembered."""
        return _from_bytes(data)


def distances(sources: NDArray[np.integer], targets: NDArray[np.integer], accepting: Bools) -> Ints:
    """The fewest links from each state to an ``accepting`` one [Q]; ``NEVER`` where there is no way."""
    found = np.where(accepting, 0, NEVER).astype(np.int32)
    frontier = accepting
    for steps in range(1, len(accepting) + 1):
        nearer = np.zeros_like(accepting)
        nearer[sources[frontier[targets]]] = True
        frontier = nearer & (found == NEVER)
        if not frontier.any():
            break
        found[frontier] = steps
    return found


class _Wire(msgspec.Struct, array_like=True):
    start: int
    accepting: bytes
    class_of: bytes
    sources: bytes
    targets: bytes
    sets: bytes
    first_members: bytes
    members: bytes


_ARRAYS = {name: np.bool_ if name == "accepting" else np.int32 for name in _Wire.__struct_fields__[1:]}
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Wire)


@lru_cache(maxsize=64)
def _from_bytes(data: bytes) -> Automaton:
    wire = _decoder.decode(data)
    arrays: dict[str, NDArray[Any]] = {
        name: np.frombuffer(getattr(wire, name), dtype=kind) for name, kind in _ARRAYS.items()
    }
    return Automaton(start=wire.start, **arrays)
