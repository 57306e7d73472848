"""What a rule remembers of a request's positions from one forward to the next.

A request under such a rule has one ``RuleMemory``: a line for each position of the block that is being decided. The
rows of a step that belong to one rule, of whatever requests, are recalled together: gathered, used and changed by the
rule's ``Recollection``, and put back. A line that another position wrote, or none, is recalled as zeros; so memories
need no resetting, and a forward that a request skips, or keys and values computed anew, make no difference.

Shape letters: M rows of a part, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.decoding.kept import KEPT

_LOG_EPSILON = 1e-12  # KLASS's, in both logarithms

Kept = dict[str, Tensor]


class Recollection:
    """How a rule uses what it keeps, [M, width] by name; it changes the numbers in place, or replaces the tensors.

    ``second`` names the field of width 1 that the rule looks at beside the score; ``options`` the request's own
    parameters that ``read`` needs.
    """

    second: str | None = None
    options: tuple[str, ...] = ()

    def read(self, logits: Tensor, likeliest: Tensor, kept: Kept, options: dict[str, Tensor]) -> bool:
        """Look at ``logits`` [M, V] and the ``likeliest`` tokens [M]; whether it changed the logits."""
        return False

    def note(self, score: Tensor, masked: Tensor, kept: Kept) -> None:
        """Look at the ``score`` [M] of each position and whether it is ``masked`` [M]."""


class Credit(Recollection):
    """Tokens that were likeliest before get a bonus that fades (CreditDecoding, arXiv 2510.06133; code: dInfer)."""

    options = ("credit_weight", "credit_power", "credit_decay")

    def read(self, logits: Tensor, likeliest: Tensor, kept: Kept, options: dict[str, Tensor]) -> bool:
        """Fade all credit, give some to the likeliest token, and raise the logits by what there is."""
        tokens, credits = kept["tokens"], kept["credits"]
        weight, power, decay = (options[name].float() for name in self.options)
        top = logits.gather(1, likeliest[:, None]).squeeze(1)
        gain = torch.exp(top - torch.logsumexp(logits, dim=-1)) ** power
        credits *= decay[:, None]
        # The token's own pair, else the smallest one. Pairs that are still empty hold token 0 and no credit.
        own = tokens == likeliest[:, None]
        place = torch.where(own.any(dim=-1), own.long().argmax(dim=-1), credits.argmin(dim=-1))[:, None]
        before = torch.where(own.any(dim=-1, keepdim=True), credits.gather(1, place), 0.0)
        tokens.scatter_(1, place, likeliest[:, None])
        credits.scatter_(1, place, before + gain[:, None])
        logits.scatter_add_(1, tokens, weight[:, None] * torch.log1p(credits))
        return True


class Stability(Recollection):
    """For how many forwards in a row a position's distribution has hardly changed (KLASS, arXiv 2511.05664)."""

    second = "calm"
    options = ("kl_threshold",)

    def read(self, logits: Tensor, likeliest: Tensor, kept: Kept, options: dict[str, Tensor]) -> bool:
        """Compare with the last forward's distribution, in float64 as the reference does, and keep this one's."""
        now = torch.softmax(logits.double(), dim=-1)
        before = kept["probability"].double()
        divergence = (now * (torch.log(now + _LOG_EPSILON) - torch.log(before + _LOG_EPSILON))).sum(dim=-1)
        calm = (divergence < options["kl_threshold"])[:, None]
        kept["calm"] = torch.where(calm, kept["calm"] + 1, 0.0)
        kept["probability"] = now.float()
        return False


class CommitConfidence(Recollection):
    """How sure the model was of each token when it was committed: the last score while masked (Saber)."""

    second = "confidence"

    def note(self, score: Tensor, masked: Tensor, kept: Kept) -> None:
        """A decided position's confidence stays what it was."""
        kept["confidence"] = torch.where(masked, score.double(), kept["confidence"].squeeze(1))[:, None]


RECOLLECTIONS: dict[str, Recollection] = {"credit": Credit(), "klass": Stability(), "saber": CommitConfidence()}
assert set(RECOLLECTIONS) == set(KEPT), "what is kept is declared in kept.py"


class RuleMemory:
    """What is kept for one request. ``lines`` positions at a time, in sequence. Plain data: a deep copy is a fork's."""

    def __init__(self, rule: str, lines: int, vocab: int, device: torch.device) -> None:
        self.kept = {
            name: torch.zeros(lines, width or vocab, dtype=getattr(torch, kind), device=device)
            for name, (width, kind) in KEPT[rule].items()
        }
        self._owners = np.full(lines, -1)  # the position that wrote each line

    def lines(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where ``positions`` of one block are kept."""
        return positions % len(self._owners)

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of ``positions`` has been here before; all of them have from now on."""
        lines = self.lines(positions)
        known: NDArray[np.bool_] = self._owners[lines] == positions
        self._owners[lines] = positions
        return known


@dataclass(slots=True)
class Recall:
    """What is remembered of the M rows of a part: of each memory, in order, the ``lines`` [n] int64 that they have.

    ``known`` [M] bool: the position has been looked at before. ``options`` are [M] float64 each.
    """

    recollection: Recollection
    runs: list[tuple[RuleMemory, Tensor]]
    known: Tensor
    options: dict[str, Tensor]
    _kept: Kept = field(default_factory=dict)

    def read(self, logits: Tensor, likeliest: Tensor) -> bool:
        """Recall all lines and let the rule look at ``logits`` [M, V]; whether it changed them."""
        self._kept = {
            name: torch.cat([memory.kept[name][lines] for memory, lines in self.runs]) for name in self.runs[0][0].kept
        }
        for rows in self._kept.values():
            rows.masked_fill_(~self.known[:, None], 0)
        return self.recollection.read(logits, likeliest, self._kept, self.options)

    def finish(self, score: Tensor, decided: Tensor | None) -> Tensor | None:
        """Let the rule look at ``score`` [M], put the lines back; the second number [M] that the rule goes by, if any.

        ``decided`` [M] is negative where a position is masked; None if all of them are.
        """
        masked = torch.ones_like(score, dtype=torch.bool) if decided is None else decided < 0
        self.recollection.note(score, masked, self._kept)
        counts = [len(lines) for _, lines in self.runs]
        for name, rows in self._kept.items():
            for (memory, lines), own in zip(self.runs, torch.split(rows, counts), strict=True):
                memory.kept[name][lines] = own
        second = self.recollection.second
        return None if second is None else self._kept[second].squeeze(1)
