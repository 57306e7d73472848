"""When requests arrive: independently of each other (Poisson), or in bursts with silence between them."""

from __future__ import annotations

import numpy as np

from unmask.bench.distributions import Floats


def poisson(rate: float, count: int, random: np.random.Generator) -> Floats:
    """Times in seconds [count], ascending: ``rate`` requests a second on average."""
    return np.cumsum(random.exponential(1 / rate, count))


def bursts(rate: float, count: int, on: float, off: float, random: np.random.Generator) -> Floats:
    """An interrupted Poisson process: bursts of ``on`` seconds on average, silences of ``off``, both exponential.

    Over both, ``rate`` requests arrive a second on average; within a burst it is rate * (on + off) / on.
    """
    within = poisson(rate * (on + off) / on, count, random)  # on a clock that stands still between bursts
    # A Poisson process of border points has exponential distances, and so many points in all of that time.
    borders = np.sort(random.uniform(0, within[-1], random.poisson(within[-1] / on)))
    silences = np.concatenate([[0.0], np.cumsum(random.exponential(off, len(borders)))])
    times: Floats = within + silences[np.searchsorted(borders, within)]
    return times
