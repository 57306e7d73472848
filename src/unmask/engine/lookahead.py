"""Lossless lookahead: coming steps of a request are evaluated in the forward of the present one, as far as they can be
guessed, and count only if they turn out to be the very steps that decoding step by step would have taken.

What a forward proposes and does not commit is mostly what the next ones will. So a *draft*, a fork of the request to
which its own commit rule was applied with the last proposals, shows the forward after next; a fork of it the one after
that. All share one forward with the request's true window. Then the true decision is applied, and if the request now
stands where a draft stood, token for token and window for window, the draft's decision is its next one, and so on.
Hence tokens, and every canvas on the way, are those of decoding step by step, in fewer forwards. (The idea is that of
FreeDave, arXiv 2510.00294, and of self-speculative decoding, arXiv 2510.04147.)

Where the answer is known already and only scored, nothing is guessed: each draft is the step that comes.

Drafts only take rows and pages that no request wants, and none while requests wait, or while the step is so large
without them that more rows make it longer; those of batch requests none beside interactive ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.decoding.propose import Proposals
from unmask.decoding.windows import Decision, Outlook, Window
from unmask.engine.batch import Ints, Layout, candidates
from unmask.engine.commits import CommitPlan
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import pages_for
from unmask.engine.runner import Commit, Runner
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence

_CPU = torch.device("cpu")
_NONE = np.empty(0, dtype=np.int64)


class Lookahead:
    """The drafts of one step at a time: a chain of first guesses, and beside its beginning the second ones.

    A third of a request's drafts are second guesses: two positions that are about equally sure often commit in the
    other order, and after both the request is back on the chain.
    """

    def __init__(self, runner: Runner, memory: KeyValueMemory, most_rows: int) -> None:
        self._runner = runner
        self._memory = memory
        self._pages = memory.ledger
        self._most_rows = most_rows

    @contextmanager
    def drafts(self, spans: list[Span], room: int) -> Iterator[list[Span]]:
        """Drafts for ``spans`` in at most ``room`` rows, each request's first ones first; they hold pages meanwhile."""
        room = min(room, self._most_rows - sum(span.rows * span.sequence.streams for span in spans))
        drafts: list[Span] = []
        try:
            parents = [span for span in _urgent(spans) if _foreseeable(span.sequence) and span.window.segments]
            depth = 0
            while parents := [span for span in parents if depth < _longest(span.sequence)]:
                children = []
                for parent, guesses in zip(parents, _expected(parents), strict=True):
                    wanted = 1 + (depth < _seconds(parent.sequence))
                    for number, guess in enumerate(guesses[:wanted]):
                        draft = self._draft(parent, guess, room)
                        if draft is None:
                            break
                        drafts.append(draft)
                        room -= draft.rows * draft.sequence.streams
                        if number == 0:
                            children.append(draft)
                parents = children
                depth += 1
            yield drafts
        finally:
            for draft in drafts:
                for pages in draft.sequence.held.pages:
                    self._pages.give_back(pages)

    def _draft(self, parent: Span, guess: Decision, room: int) -> Span | None:
        """The forward after ``parent``'s, should that decide as guessed; None if there is none, or no room for it.

        Nor is there one that makes more final than the request has pages for: it could not keep that.
        """
        fork = parent.sequence.fork(guess)
        if fork.canvas.finish is not None or fork.denoiser.final > fork.held.lasting:
            return None
        draft = Span(fork, fork.next_window())
        count = pages_for(draft.rows)
        if draft.rows * fork.streams > room or not self._memory.make_room(count * fork.streams):
            return None
        pages = [self._pages.take(count, claim=count) for _ in range(fork.streams)]
        fork.held = fork.held.for_draft(draft.window, pages)
        return draft

    def follow(self, sequence: Sequence, drafts: list[Commit], now: float) -> int:
        """Take ``sequence`` on as far as its ``drafts`` foresaw it; the number of positions newly decided."""
        newly = 0
        for draft in drafts:
            span = draft.span
            if not draft.finite:
                break
            sequence.stats.drafts += 1
            sequence.stats.canvas_tokens += span.rows * sequence.streams
            if sequence.canvas.finish is None and _same_forward(sequence, span.sequence):
                sequence.stats.drafts_accepted += 1
                newly += sequence.apply(span.window, draft.decision, now, foreseen=True)
                if sequence.canvas.finish is None:
                    self._runner.adopt(span, sequence)
        return newly


def by_request(commits: list[Commit]) -> list[list[Commit]]:
    """The commits of each request: its own, then those of its drafts, earlier steps first."""
    requests: dict[str, list[Commit]] = {}
    for commit in sorted(commits, key=lambda commit: commit.span.sequence.step):
        requests.setdefault(commit.span.sequence.request_id, []).append(commit)
    return list(requests.values())


def _urgent(spans: list[Span]) -> list[Span]:
    """The interactive requests' ``spans`` if there are any: what batch requests may add beside them is bounded."""
    return [span for span in spans if span.sequence.terms.priority == "interactive"] or spans


def _foreseeable(sequence: Sequence) -> bool:
    """Whether there is anything to go by: what its last forward proposed, or an answer that is known already."""
    return sequence.outlook is not None or bool(sequence.params.answer)


def _seconds(sequence: Sequence) -> int:
    return 0 if sequence.params.answer else sequence.params.lookahead // 3


def _longest(sequence: Sequence) -> int:
    return sequence.params.lookahead - _seconds(sequence)


def _expected(spans: list[Span]) -> list[list[Decision]]:
    """What each span will decide: known, where the answer is; else the guesses, the likelier one first."""
    known = [span.sequence.known_decision for span in spans]
    unknown = [span for span, decision in zip(spans, known, strict=True) if decision is None]
    guesses = iter(_guesses(unknown) if unknown else [])
    return [next(guesses) if decision is None else [decision] for decision in known]


@torch.inference_mode()
def _guesses(spans: list[Span]) -> list[list[Decision]]:
    """What each request's rule decides on its span by the proposals of its last forward, and what it would decide
    without the least sure of the positions that it chose. Nothing for a span of which no proposals are known.
    """
    layout = Layout(spans, list(accumulate((span.rows for span in spans), initial=0)))
    open_ = candidates(layout, shifted=False)
    tokens, scores = np.full(len(open_.positions), -1), np.full(len(open_.positions), -np.inf)
    borders = list(pairwise(np.searchsorted(open_.spans, np.arange(len(spans) + 1)).tolist()))
    for span, (begin, end) in zip(spans, borders, strict=True):
        _recall(span.sequence.outlook, open_.positions[begin:end], tokens[begin:end], scores[begin:end])
    plan = CommitPlan(layout, open_, _CPU)
    first = _chosen(plan, tokens, scores)
    chosen_scores = np.where(first, scores, np.inf)
    for begin, end in borders:
        scores[begin + chosen_scores[begin:end].argmin()] = -np.inf
    second = _chosen(plan, tokens, scores)
    guesses = []
    for begin, end in borders:
        hits = [begin + np.flatnonzero(chosen[begin:end]) for chosen in (first, second)]
        known = (tokens[begin:end] >= 0).any()
        guesses.append([Decision(open_.positions[hit], tokens[hit]) for hit in hits] if known else [])
    return guesses


def _chosen(plan: CommitPlan, tokens: Ints, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the ``tokens`` [M] the rules of ``plan`` commit, going by ``scores`` [M] alone."""
    proposed, score = torch.from_numpy(tokens), torch.from_numpy(scores.copy())
    chosen: NDArray[np.bool_] = plan.decide(Proposals(proposed, proposed, score, score)).numpy() >= 0
    return chosen


def _recall(outlook: Outlook | None, positions: Ints, tokens: Ints, scores: NDArray[np.float64]) -> None:
    """Set the ``tokens`` and ``scores`` of those of the ``positions`` that ``outlook`` has."""
    assert outlook is not None
    places = np.searchsorted(outlook.positions, positions)
    places[places == len(outlook.positions)] = 0
    known = outlook.positions[places] == positions
    tokens[known], scores[known] = outlook.likeliest[places[known]], outlook.score[places[known]]


def _same_forward(sequence: Sequence, draft: Sequence) -> bool:
    """Whether ``draft``'s forward was the coming one of ``sequence``: the same canvas, window, and draws if any."""
    canvas, guessed = sequence.canvas, draft.canvas
    return (
        np.array_equal(canvas.tokens, guessed.tokens)
        and np.array_equal(canvas.masked, guessed.masked)
        and (sequence.step == draft.step or sequence.params.temperature == 0)
        and _same_window(sequence.next_window(), draft.next_window())
    )


def _same_window(window: Window, other: Window) -> bool:
    arrays = (window.visible, other.visible), (window.chosen, other.chosen), (window.shadows, other.shadows)
    plain, others = (replace(w, visible=None, chosen=None, shadows=_NONE) for w in (window, other))
    return plain == others and all(np.array_equal(mine, its) for mine, its in arrays)  # type: ignore[arg-type]
