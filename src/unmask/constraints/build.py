"""From a regular expression and the bytes of a model's tokens to an automaton, with outlines-core.

outlines-core walks every token through the expression's automaton over bytes. It knows nothing of end tokens, and of
states that the vocabulary cannot leave; both are seen to here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from unmask.constraints.automaton import NEVER, NO_CLASS, Automaton, Ints, distances

MAX_STATES = 8192
MAX_CELLS = 2**24  # states x classes: the engine looks next states up in a table of 4 bytes each


class ConstraintError(Exception):
    """Why there is no automaton: the text tells the user."""


def build(pattern: str, tokens: Mapping[bytes, list[int]], vocab_size: int, end_ids: tuple[int, ...]) -> Automaton:
    """The automaton of ``pattern`` over ``tokens``: each text in bytes with the ids that spell it.

    Tokens that are not there are never allowed. Raises ``ConstraintError``.
    """
    from outlines_core import Index, Vocabulary

    beyond = vocab_size  # outlines-core wants an end token; ours are added below
    try:
        index = Index(pattern, Vocabulary(beyond, dict(tokens)))
    except Exception as error:  # the library's own kinds are ValueError and its panics
        raise ConstraintError(str(error)) from None
    transitions = index.get_transitions()
    if len(transitions) > MAX_STATES:
        raise ConstraintError(f"it takes {len(transitions)} states; at most {MAX_STATES} are allowed")
    counts = np.array([len(row) for row in transitions.values()])
    sources = np.repeat(np.fromiter(transitions, dtype=np.int64, count=len(transitions)), counts)
    rows = [row for row in transitions.values() if row]
    labels = np.concatenate([np.fromiter(row, np.int64, len(row)) for row in rows])
    targets = np.concatenate([np.fromiter(row.values(), np.int64, len(row)) for row in rows])
    kept = labels != beyond
    return assemble(
        np.stack([sources, labels, targets])[:, kept],
        index.get_initial_state(),
        index.get_final_states(),
        vocab_size,
        end_ids,
    )


def assemble(
    edges: NDArray[np.int64], start: int, accepting: set[int], vocab_size: int, end_ids: tuple[int, ...]
) -> Automaton:
    """The automaton of ``edges`` [3, n]: source, token, target, under any numbers, end tokens left out.

    Raises ``ConstraintError`` if no text is accepted, or if it grows too large.
    """
    names = np.unique(np.concatenate([edges[0], edges[2], [start], np.fromiter(accepting, np.int64)]))
    sources, targets = np.searchsorted(names, edges[0]), np.searchsorted(names, edges[2])
    final = np.isin(names, np.fromiter(accepting, np.int64))
    first = int(np.searchsorted(names, start))
    # States that can be left for an accepting one, and that can be got to.
    alive = distances(sources, targets, final) != NEVER
    alive &= distances(targets, sources, np.arange(len(names)) == first) != NEVER
    if not alive[first]:
        raise ConstraintError("no text that the model's tokens can spell fits it")
    number = np.cumsum(alive) - 1
    kept = alive[sources] & alive[targets]
    ended = int(alive.sum())
    loops = np.append(number[alive & final], ended)
    ends = np.array(end_ids, dtype=np.int64)
    sources = np.concatenate([number[sources[kept]], np.repeat(loops, len(ends))])
    targets = np.concatenate([number[targets[kept]], np.full(len(loops) * len(ends), ended)])
    tokens = np.concatenate([edges[1][kept], np.tile(ends, len(loops))])
    return _grouped(sources, tokens, targets, int(number[first]), np.append(final[alive], True), vocab_size)


def _grouped(
    sources: NDArray[np.int64],
    tokens: NDArray[np.int64],
    targets: NDArray[np.int64],
    start: int,
    accepting: NDArray[np.bool_],
    vocab_size: int,
) -> Automaton:
    """Edges to links, equal token sets to one, tokens of equal sets to classes. The end's loop is the last edge."""
    order = np.lexsort((tokens, targets, sources))
    sources, tokens, targets = sources[order], tokens[order], targets[order]
    new = np.flatnonzero(np.r_[True, (np.diff(sources) != 0) | (np.diff(targets) != 0)])
    sets, of_link = _distinct(tokens, new)
    number = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    token = np.concatenate(sets)
    by_token = np.lexsort((number, token))
    token, number = token[by_token], number[by_token]
    firsts = np.flatnonzero(np.r_[True, np.diff(token) != 0])
    memberships, of_token = _distinct(number, firsts)
    # The end tokens belong to the last link's set alone, so one class is theirs; it becomes the last.
    count = len(memberships)
    end = int(of_token[np.searchsorted(token[firsts], sets[of_link[-1]][0])])
    renumbered = np.arange(1, count + 1)
    renumbered[end], renumbered[count - 1] = count, end + 1
    if len(accepting) * (count + 1) > MAX_CELLS:
        raise ConstraintError(f"it takes {len(accepting)} states of {count} kinds of tokens, which is too many")
    class_of = np.full(vocab_size, NO_CLASS)
    class_of[token[firsts]] = renumbered[of_token]
    pairs = np.unique(np.stack([number, class_of[token]]), axis=1)
    first_members = np.searchsorted(pairs[0], np.arange(len(sets) + 1))
    small = (sources[new], targets[new], of_link, first_members, pairs[1])
    return Automaton(start, accepting, class_of.astype(np.int32), *(array.astype(np.int32) for array in small))


def _distinct(values: NDArray[np.int64], starts: NDArray[np.int64]) -> tuple[list[NDArray[np.int64]], Ints]:
    """The distinct ones of the stretches of ``values`` that begin at ``starts``, and which of them each stretch is."""
    data, borders = values.tobytes(), [*(starts * values.itemsize).tolist(), values.nbytes]
    known: dict[bytes, int] = {}
    which = [known.setdefault(data[begin:end], len(known)) for begin, end in pairwise(borders)]
    return [np.frombuffer(key, dtype=np.int64) for key in known], np.array(which, dtype=np.int32)
