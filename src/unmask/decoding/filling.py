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

_LEAST = -1e300  # in place of the largest of nothing but -inf, from which nothing can be subtracted


@dataclass(frozen=True, slots=True)
class _Groups:
    """``order`` puts the elements of a group next to each other: group n, called ``names[n]``, begins at ``starts[n]``.

    ``of`` says to which group each ordered element belongs.
    """

    order: Places
    starts: Places
    names: Places
    of: Places

    @classmethod
    def by(cls, keys: Places) -> _Groups:
        """Elements of equal ``keys`` are a group."""
        order = np.argsort(keys, kind="stable")
        names, starts, of = np.unique(keys[order], return_index=True, return_inverse=True)
        return cls(order, starts, names, of)

    def peaks(self, values: Floats) -> Floats:
        """The largest of each group along the last axis of ``values``, which are in order."""
        return np.maximum.reduceat(values, self.starts, axis=-1)

    def sums(self, values: Floats) -> Floats:
        """log(sum(exp)) of each group along the last axis of ``values``, which are in order."""
        peaks = np.maximum(self.peaks(values), _LEAST)
        sums = np.add.reduceat(np.exp(values - peaks[..., self.of]), self.starts, axis=-1)
        with np.errstate(divide="ignore"):
            return np.log(sums) + peaks


@dataclass(frozen=True, slots=True)
class Plan:
    """The index arithmetic of an automaton's programmes: links by source, by target and by set, sets by class."""

    automaton: Automaton
    by_source: _Groups
    by_target: _Groups
    by_set: _Groups
    members: _Groups
    by_class: _Groups

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
            _Groups.by(np.repeat(np.arange(len(lengths)), lengths)),
            _Groups.by(automaton.members),
        )

    def link_peaks(self, classes: Floats) -> Floats:
        """The largest weight in each link's set [L, K] for weights of ``classes`` [L, C]."""
        return self.members.peaks(classes[:, self.automaton.members])[:, self.automaton.sets]

    def link_sums(self, classes: Floats) -> Floats:
        """The sum of the weights in each link's set [L, K] for sums of ``classes`` [L, C]."""
        return self.members.sums(classes[:, self.automaton.members])[:, self.automaton.sets]

    def best_ahead(self, links: Floats, finish: Floats) -> Floats:
        """The weight of the best way on from each state before each position [L + 1, Q], of ``links`` [L, K].

        ``finish`` [Q] are the weights at the end.
        """
        return self._ahead(links, finish, self.by_source.peaks)

    def sum_ahead(self, links: Floats, finish: Floats) -> Floats:
        """The same, summed over all ways on."""
        return self._ahead(links, finish, self.by_source.sums)

    def _ahead(self, links: Floats, finish: Floats, reduce: Callable[[Floats], Floats]) -> Floats:
        ahead = np.empty((len(links) + 1, self.automaton.states))
        ahead[-1] = finish
        for position in range(len(links) - 1, -1, -1):
            # Every state has a link out, and links are sorted by their sources: one group for each state, in order.
            ahead[position] = reduce(links[position] + ahead[position + 1][self.automaton.targets])
        return ahead

    def sum_behind(self, links: Floats, state: int) -> Floats:
        """The summed weight of all ways from ``state`` to each state before each position [L + 1, Q]."""
        groups = self.by_target
        sources, links = self.automaton.sources[groups.order], links[:, groups.order]
        behind = np.full((len(links) + 1, self.automaton.states), -np.inf)
        behind[0, state] = 0.0
        for position in range(len(links)):
            behind[position + 1, groups.names] = groups.sums(behind[position][sources] + links[position])
        return behind

    def class_weights(self, behind: Floats, ahead: Floats) -> Floats:
        """What the rest of the canvas adds to each class at each position [L, C]: the logarithm of the factor by which
        its tokens' probabilities grow once the answer is known to be valid; -inf for those that cannot stand there.
        """
        automaton = self.automaton
        ways = behind[:-1][:, automaton.sources] + ahead[1:][:, automaton.targets]
        of_sets = self.by_set.sums(ways[:, self.by_set.order])
        weights = np.full((len(ways), automaton.classes), -np.inf)
        weights[:, self.by_class.names] = self.by_class.sums(of_sets[:, self.members.of[self.by_class.order]])
        total: float = np.logaddexp.reduce(behind[-1] + ahead[-1])
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
