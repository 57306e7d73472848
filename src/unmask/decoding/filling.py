"""The dynamic programmes over a constrained canvas: the best valid filling, and sums over all of them.

A *filling* gives every position of a stretch a token so that the automaton goes from a known state to one that the rest
of the canvas can be finished from. DINGO (arXiv 2505.23061) finds the most probable one; with sums in place of maxima
the same recursion draws exactly from the posterior of independent positions given the automaton (arXiv 2607.07026).

Everything is a logarithm in float64: at low temperatures probabilities underflow. Shape letters: L positions, Q
states, C classes, K links, D token sets, as in ``constraints/automaton.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unmask.constraints.automaton import Automaton

Floats = NDArray[np.float64]
Places = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class _Groups:
    """``order`` puts the elements of a group next to each other; group ``names[n]`` begins at ``starts[n]``."""

    order: Places
    starts: Places
    names: Places

    @classmethod
    def by(cls, keys: NDArray[np.int32]) -> _Groups:
        order = np.argsort(keys, kind="stable")
        names, starts = np.unique(keys[order], return_index=True)
        return cls(order, starts, names)


@dataclass(frozen=True, slots=True)
class Plan:
    """The index arithmetic of an automaton's programmes: links by source, by target and by set, sets by class."""

    automaton: Automaton
    by_source: _Groups
    by_target: _Groups
    by_set: _Groups
    by_class: _Groups
    set_of_member: Places

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, automaton: Automaton) -> Plan:
        """The plan of ``automaton``, made once."""
        lengths = np.diff(automaton.first_members)
        return cls(
            automaton,
            _Groups.by(automaton.sources),
            _Groups.by(automaton.targets),
            _Groups.by(automaton.sets),
            _Groups.by(automaton.members),
            np.repeat(np.arange(len(lengths)), lengths),
        )

    def set_peaks(self, classes: Floats) -> Floats:
        """The largest weight in each set [L, D] for weights of ``classes`` [L, C]."""
        members = classes[:, self.automaton.members]
        return np.maximum.reduceat(members, self.automaton.first_members[:-1], axis=1)

    def set_sums(self, classes: Floats) -> Floats:
        """The sum of the weights in each set [L, D] for sums of ``classes`` [L, C]."""
        return _log_sums(classes[:, self.automaton.members], self.automaton.first_members[:-1].astype(np.intp))

    def best_ahead(self, sets: Floats, finish: Floats) -> Floats:
        """The weight of the best way on from each state before each position [L + 1, Q]; ``finish`` [Q] is the last."""
        return self._ahead(sets, finish, lambda ways: np.maximum.reduceat(ways, self.by_source.starts))

    def sum_ahead(self, sets: Floats, finish: Floats) -> Floats:
        """The same, summed over all ways on."""
        return self._ahead(sets, finish, lambda ways: _log_sums(ways, self.by_source.starts))

    def _ahead(self, sets: Floats, finish: Floats, reduce: Callable[[Floats], Floats]) -> Floats:
        automaton = self.automaton
        ahead = np.empty((len(sets) + 1, automaton.states))
        ahead[-1] = finish
        for position in range(len(sets) - 1, -1, -1):
            # Every state has a link out, and links are sorted by their sources: one group for each state.
            ahead[position] = reduce(sets[position][automaton.sets] + ahead[position + 1][automaton.targets])
        return ahead

    def sum_behind(self, sets: Floats, state: int) -> Floats:
        """The summed weight of all ways from ``state`` to each state before each position [L + 1, Q]."""
        automaton, groups = self.automaton, self.by_target
        sources, of_link = automaton.sources[groups.order], automaton.sets[groups.order]
        behind = np.full((len(sets) + 1, automaton.states), -np.inf)
        behind[0, state] = 0.0
        for position in range(len(sets)):
            ways = behind[position][sources] + sets[position][of_link]
            behind[position + 1, groups.names] = _log_sums(ways, groups.starts)
        return behind

    def class_weights(self, behind: Floats, ahead: Floats) -> Floats:
        """What the rest of the canvas adds to each class at each position [L, C]: the logarithm of the factor by which
        its tokens' probabilities grow once the answer is known to be valid; -inf for those that cannot stand there.
        """
        automaton = self.automaton
        ways = behind[:-1][:, automaton.sources] + ahead[1:][:, automaton.targets]
        sets = _log_sums(ways[:, self.by_set.order], self.by_set.starts)
        weights = np.full((len(ways), automaton.classes), -np.inf)
        weights[:, self.by_class.names] = _log_sums(
            sets[:, self.set_of_member[self.by_class.order]], self.by_class.starts
        )
        total = _log_sums(behind[-1] + ahead[-1], np.zeros(1, dtype=np.intp))
        return weights - total


def can_finish(
    automaton: Automaton, tokens: NDArray[np.int64], masked: NDArray[np.bool_], ends_from: int
) -> NDArray[np.bool_]:
    """From which states [Q] the positions of ``tokens`` [n] can be filled: those ``masked`` [n] by anything.

    End tokens may not stand before place ``ends_from``.
    """
    if masked.all() and ends_from <= 0:
        return automaton.distance <= len(tokens)
    fits = automaton.accepting
    sources, targets, sets = automaton.sources, automaton.targets, automaton.sets
    for place in range(len(tokens) - 1, -1, -1):
        if masked[place]:
            usable = fits[targets] if place >= ends_from else fits[targets] & (sets != sets[-1])
        else:
            usable = fits[targets] & automaton.has_member[:, automaton.class_of[tokens[place]]][sets]
        fits = np.zeros_like(fits)
        fits[sources[usable]] = True
    return fits


def _log_sums(values: Floats, starts: Places) -> Floats:
    """log(sum(exp)) along the last axis, of each stretch that begins at ``starts``."""
    peaks = np.maximum.reduceat(values, starts, axis=-1)
    peaks = np.where(np.isfinite(peaks), peaks, 0.0)
    lengths = np.diff(starts, append=values.shape[-1])
    relative = np.exp(values - np.repeat(peaks, lengths, axis=-1))
    with np.errstate(divide="ignore"):
        return np.log(np.add.reduceat(relative, starts, axis=-1)) + peaks
