"""The prefix cache: exact keys and values of committed tokens, kept for requests that begin with the same tokens.

What a final position's keys and values depend on ends with its *unit*: the blocks that share its pages, or the whole
prompt where that is attended as one. Units form chains from position 0 on, found by their tokens themselves (never by a
hash of them, which may collide). A unit that nobody uses stays until its pages are wanted, least recently used first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import lcm

from unmask.engine.pages import PAGE_TOKENS, PageLedger, pages_for
from unmask.engine.sequence import Sequence

Namespace = tuple[int | None, int]  # the number of the adapter, and the length of a block
Key = tuple["Unit | Namespace", bytes]

_WORTH_WAITING = 64  # tokens; fewer are computed again rather than waited for


@dataclass(eq=False, slots=True)
class Unit:
    """``pages`` that hold the ``length`` tokens of ``key``, behind the unit or the namespace that they follow."""

    key: Key
    length: int
    pages: list[int]

    @property
    def namespace(self) -> Namespace:
        """That of its chain."""
        before = self.key[0]
        while isinstance(before, Unit):
            before = before.key[0]
        return before


@dataclass(slots=True)
class _User:
    """A running request: the ``units`` it uses, in order, and the key of the one that it is ``coming`` up with.

    ``adds`` until another request has added the same tokens before, in pages of its own.
    """

    units: list[Unit]
    coming: Key | None = None
    adds: bool = True


class PrefixCache:
    """All chains of units. Who uses a unit uses all units before it."""

    def __init__(self, ledger: PageLedger) -> None:
        self._ledger = ledger
        self._units: OrderedDict[Key, Unit] = OrderedDict()  # least recently used first
        self._users: dict[str, _User] = {}
        self._coming: set[Key] = set()

    def known(self, sequence: Sequence) -> list[Unit]:
        """The longest chain that the final tokens of ``sequence`` begin with."""
        units: list[Unit] = []
        while (key := _next_key(sequence, units)) is not None and key in self._units:
            units.append(self._units[key])
        return units

    def awaited(self, sequence: Sequence) -> bool:
        """Whether a running request is just computing what ``sequence`` needs next, and that is worth a step's wait."""
        units = self.known(sequence)
        missing = sequence.denoiser.final - sum(unit.length for unit in units)
        return missing >= _WORTH_WAITING and _next_key(sequence, units) in self._coming

    def join(self, sequence: Sequence, units: list[Unit]) -> None:
        """``sequence`` runs, and uses ``units``."""
        user = self._users[sequence.request_id] = _User(units)
        self._announce(sequence, user)

    def offer(self, sequence: Sequence) -> None:
        """Keep what of ``sequence`` has become exact."""
        user = self._users[sequence.request_id]
        while user.adds and (span := _unit(sequence, len(user.units))) and span.stop <= sequence.denoiser.cached:
            key = _key(sequence, user.units, span)
            user.adds = key not in self._units
            if user.adds:
                pages = sequence.held.pages[0][span.start // PAGE_TOKENS : pages_for(span.stop)]
                unit = Unit(key, span.stop - span.start, pages)
                self._ledger.keep(unit.pages)
                self._units[key] = unit
                user.units.append(unit)
            self._announce(sequence, user)

    def leave(self, sequence: Sequence) -> None:
        """``sequence`` runs no more."""
        user = self._users.pop(sequence.request_id)
        self._retract(user)
        self.touch(user.units)

    def drop_oldest(self) -> bool:
        """Free the least recently used unit that nobody uses; whether there was one."""
        for unit in self._units.values():
            if all(map(self._ledger.unused, unit.pages)):
                del self._units[unit.key]
                self._ledger.drop(unit.pages)
                return True
        return False

    def touch(self, units: list[Unit]) -> None:
        """``units`` were used last, the first of them after the others: of a chain the end is forgotten first."""
        for unit in reversed(units):
            self._units.move_to_end(unit.key)

    def recent(self) -> list[Unit]:
        """All units, those that were used last first, but none before the one that it follows."""
        found: dict[Unit, None] = {}
        for unit in reversed(self._units.values()):
            chain: list[Unit] = []
            one: Unit | Namespace = unit
            while isinstance(one, Unit) and one not in found:
                chain.append(one)
                one = one.key[0]
            found |= dict.fromkeys(reversed(chain))
        return list(found)

    def adopt(self, key: Key, length: int, fill: Callable[[list[int]], None]) -> Unit | None:
        """A unit that nobody uses yet, with pages of its own, which ``fill`` fills; None if there are too few free."""
        count = pages_for(length)
        if key in self._units or count > self._ledger.free:
            return None
        pages = self._ledger.take(count, count)
        try:
            fill(pages)
            self._ledger.keep(pages)
            unit = self._units[key] = Unit(key, length, pages)
        finally:
            self._ledger.give_back(pages)
        return unit

    def _announce(self, sequence: Sequence, user: _User) -> None:
        self._retract(user)
        user.coming = _next_key(sequence, user.units) if user.adds else None
        if user.coming is not None:
            self._coming.add(user.coming)

    def _retract(self, user: _User) -> None:
        if user.coming is not None:
            self._coming.discard(user.coming)


def _next_key(sequence: Sequence, units: list[Unit]) -> Key | None:
    """What follows ``units`` in ``sequence``; None if there is no further unit of final tokens."""
    span = _unit(sequence, len(units))
    return None if span is None else _key(sequence, units, span)


def _key(sequence: Sequence, units: list[Unit], span: slice) -> Key:
    namespace: Namespace = sequence.adapter, sequence.params.block_length
    return (units[-1] if units else namespace, sequence.canvas.tokens[span].tobytes())


def _unit(sequence: Sequence, number: int) -> slice | None:
    """The positions of the ``number``-th unit of ``sequence``; None if there is no such, or not all of it is final."""
    unit = sequence.denoiser.unit
    if not sequence.shares or sequence.streams > 1 or (unit is None and number):
        return None
    length = sequence.canvas.prompt_length if unit is None else lcm(unit, PAGE_TOKENS)
    end = (number + 1) * length
    return slice(end - length, end) if 0 < end <= sequence.denoiser.final else None
