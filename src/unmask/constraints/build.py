"""From a regular expression and the bytes of a model's tokens to an automaton, with outlines-core.

outlines-core walks every token through the expression's automaton over bytes. Where a text may end, end tokens, and
states from which no token leads to such a place are seen to here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.constraints.automaton import NEVER, NO_CLASS, Automaton, Ints, distances
from unmask.shown import cut

MAX_STATES = 16384
_MARK = "\U0010ffff"
_NOTHING_FITS = "no text that the model's tokens can spell fits it"
MAX_CELLS = 2**24  # states x classes: the engine looks next states up in a table of 4 bytes each


_NO_EXPRESSION = "it is no expression, or has look-around, back references or word boundaries, which are not supported"


class ConstraintError(Exception):
    """Why there is no automaton: the text tells the user."""


def build(
    pattern: str,
    tokens: Mapping[bytes, list[int]],
    vocab_size: int,
    end_ids: tuple[int, ...],
    own: tuple[str, ...] = (),
) -> Automaton:
    """The automaton of ``pattern`` over ``tokens``: each text in bytes with the ids that spell it.

    Tokens that are not there are never allowed. ``own``: its parts that must be expressions by themselves.
    Raises ``ConstraintError``.
    """
    # The library ends a match where the first of several alternatives does ("a|ab" never becomes "ab"). A character
    # that stands for the end of the text keeps them all: where it may come next, the text may end. The same character
    # before the text: without it outlines-core 0.2.14 takes time that doubles with every repetition where an expression
    # begins as JSON strings of bounded length do (20 characters: 40 seconds; so: 4 milliseconds).
    mark, unused = vocab_size, vocab_size + 1
    for part in own:
        _check_syntax(part, mark, unused)
    index = _index(f"{_MARK}(?:{pattern}){_MARK}", {**tokens, _MARK.encode(): [mark]}, unused)
    transitions = index.get_transitions()
    if len(transitions) > MAX_STATES:
        raise ConstraintError(f"it takes {len(transitions)} states; at most {MAX_STATES} are allowed")
    rows = [row for row in transitions.values() if row]
    names = np.fromiter(transitions, np.int64, len(transitions))
    edges = np.stack([
        np.repeat(names, [len(row) for row in transitions.values()]),
        np.concatenate([np.fromiter(row, np.int64, len(row)) for row in rows]),
        np.concatenate([np.fromiter(row.values(), np.int64, len(row)) for row in rows]),
    ])  # fmt: skip
    ending = (edges[1] == mark) & np.isin(edges[2], list(index.get_final_states()))
    accepting = set(edges[0, ending].tolist())
    start = transitions[index.get_initial_state()][mark]
    return assemble(edges[:, edges[1] < vocab_size], start, accepting, vocab_size, end_ids)


def _check_syntax(pattern: str, mark: int, unused: int) -> None:
    """Raises ``ConstraintError`` for what is no expression by itself: in brackets, "a)(b" would pass."""
    try:
        _index(f"{_MARK}{pattern}", {_MARK.encode(): [mark]}, unused)
    except ConstraintError as error:
        if str(error) != _NOTHING_FITS:  # as is expected: there are no tokens to go on with
            raise ConstraintError(_NO_EXPRESSION) from None


def _index(pattern: str, tokens: dict[bytes, list[int]], end: int) -> Any:
    """outlines-core's index, which wants an end token that is none of ``tokens``."""
    from outlines_core import Index, Vocabulary

    try:
        return Index(pattern, Vocabulary(end, tokens))
    except ValueError as error:
        # "... Found no transitions from state ..." names the whole expression, and numbers that mean nothing to anyone.
        what = _NOTHING_FITS if "no transitions" in str(error) else cut(str(error).rstrip("."))
        raise ConstraintError(what) from None


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
        raise ConstraintError(_NOTHING_FITS)
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
