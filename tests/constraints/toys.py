"""Small automata over small vocabularies, built here without any library, and all their answers."""

from __future__ import annotations

import itertools

import numpy as np

from unmask.constraints.automaton import Automaton
from unmask.constraints.build import ConstraintError, assemble

END = 0


def automaton(edges: list[tuple[int, int, int]], accepting: set[int], vocab: int, ends=(END,)) -> Automaton | None:
    """That of ``edges`` (source, token, target) from state 0 on; None if it accepts nothing."""
    table = np.array(edges, dtype=np.int64).reshape(-1, 3).T
    try:
        return assemble(table, 0, accepting, vocab, ends)
    except ConstraintError:
        return None


def accepts(edges, accepting, tokens, ends=(END,)) -> bool:
    """Whether ``tokens`` lead from 0 to an accepting state, and from the first end token on are end tokens."""
    step = {(source, token): target for source, token, target in edges}
    state = 0
    for place, token in enumerate(tokens):
        if token in ends:
            return state in accepting and all(other in ends for other in tokens[place:])
        if (state, token) not in step:
            return False
        state = step[state, token]
    return state in accepting


def answers(edges, accepting, vocab, length, ends=(END,)):
    """Every valid canvas of ``length`` tokens, by trying all."""
    for tokens in itertools.product(range(vocab), repeat=length):
        if accepts(edges, accepting, tokens, ends):
            yield tokens
