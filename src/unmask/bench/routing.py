"""Which replica gets a request."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Router:
    """Counts what each replica has to do, in requests and in tokens (prompt and canvas), and chooses by it.

    ``kind`` is a key of ``ROUTINGS``. Whoever is chosen among equals is the one with the lowest number.
    """

    def __init__(self, kind: str, replicas: int, seed: int) -> None:
        self.requests = [0] * replicas
        self.tokens = [0] * replicas
        self._choose = ROUTINGS[kind]
        self._turn = -1
        self._random = np.random.default_rng(seed)

    def choose(self) -> int:
        """The replica for the next request."""
        return self._choose(self)

    def begin(self, replica: int, tokens: int) -> None:
        """A request of so many tokens went there."""
        self.requests[replica] += 1
        self.tokens[replica] += tokens

    def end(self, replica: int, tokens: int) -> None:
        """It ended."""
        self.requests[replica] -= 1
        self.tokens[replica] -= tokens

    def _round_robin(self) -> int:
        self._turn = (self._turn + 1) % len(self.requests)
        return self._turn

    def _random_one(self) -> int:
        return int(self._random.integers(len(self.requests)))

    def _better_of_two(self) -> int:
        return min(self._random_one(), self._random_one(), key=self.requests.__getitem__)

    def _shortest_queue(self) -> int:
        return self.requests.index(min(self.requests))

    def _least_loaded(self) -> int:
        return self.tokens.index(min(self.tokens))


ROUTINGS: dict[str, Callable[[Router], int]] = {
    "round_robin": Router._round_robin,
    "random": Router._random_one,
    "two_choices": Router._better_of_two,
    "shortest_queue": Router._shortest_queue,
    "least_loaded": Router._least_loaded,
}
