"""Executes one planned step: one forward over all spans, one proposal per masked row, one commit per segment.

Everything the host knows goes to the device before the forward; what was decided comes back in one piece after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.propose import propose
from unmask.engine.batch import Ints, Layout, MaskedRows, lay_out, masked_rows, step_context
from unmask.engine.commits import CommitPlan
from unmask.engine.pages import PAGE_TOKENS
from unmask.engine.proposals import Part, PartMaker
from unmask.engine.scheduler import Span
from unmask.models.transformer import Transformer

# Rows go through the head in parts whose float32 logits take at most this many bytes. Proposing makes several copies
# of them, more for sampled rows (they are sorted) than for greedy ones.
_LOGITS_BYTES = 64 * 2**20


@dataclass(slots=True)
class Commit:
    """What one span's forward decided: ``tokens`` at ``positions``."""

    span: Span
    positions: list[int]
    tokens: list[int]


class Runner:
    """Owns the model and the key/value cache; everything it is told about a step is in the spans."""

    def __init__(self, model: Transformer, pages: int) -> None:
        self.model = model
        self._cache = model.new_cache(pages * PAGE_TOKENS)
        self._end_ids = torch.tensor(model.spec.end_ids, dtype=torch.int64, device=model.device)
        self._most_rows = max(1, _LOGITS_BYTES // (model.spec.shape.vocab * 4))
        # Shifted logits: the hidden row left of each stream's window, kept under the stream's first page.
        kept = pages if model.spec.shifted else 0
        self._kept_rows = torch.zeros(kept, model.spec.shape.hidden, dtype=model.dtype, device=model.device)

    @torch.inference_mode()
    def execute(self, spans: list[Span]) -> list[Commit]:
        """One step. Each span's commits, in any order."""
        device = self.model.device
        layout = lay_out(spans)
        masked = masked_rows(layout, self.model.spec.shifted)
        step = step_context(layout, device)
        parts = list(PartMaker(layout, masked, self._end_ids).parts(self._most_rows))
        plan = CommitPlan(layout, masked, device)

        hidden = self.model.forward(step, self._cache)
        if self.model.spec.shifted:
            hidden = self._with_kept_rows(layout, hidden)
        token, score = self._propose(parts, len(masked.rows), hidden)
        decided = torch.where(plan.decide(score), token, -1).cpu().numpy()
        return _commits(layout, masked, decided)

    def _with_kept_rows(self, layout: Layout, hidden: Tensor) -> Tensor:
        """Append each span's kept row; then keep the row that its coming windows will need."""
        pages = torch.tensor([span.first_page for span in layout.spans], device=hidden.device)
        extended = torch.cat([hidden, self._kept_rows[pages]])
        new = [
            (span.first_page, first_row + span.window.left - span.window.start)
            for span, first_row in zip(layout.spans, layout.first_rows, strict=False)
            if span.window.left >= span.window.start
        ]
        if new:
            pages, rows = torch.tensor(new, device=hidden.device).unbind(dim=1)
            self._kept_rows[pages] = hidden[rows]
        return extended

    def _propose(self, parts: list[Part], count: int, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Token [M] int64 and score [M] float64 of every masked row; logits exist a part at a time."""
        tokens = torch.empty(count, dtype=torch.int64, device=hidden.device)
        scores = torch.empty(count, dtype=torch.float64, device=hidden.device)
        for part in parts:
            token, score = propose(
                self._logits(part, hidden), self.model.spec.mask_id, part.score_dtype, part.ends, part.sampling
            )
            tokens[part.where] = token
            scores[part.where] = score.double()
        return tokens, scores

    def _logits(self, part: Part, hidden: Tensor) -> Tensor:
        """Logits [m, V]; guided rows move away from what the model says without the prompt (LLaDA's cfg)."""
        logits = self.model.head(hidden[part.rows])
        if part.guidance is not None:
            unconditional = self.model.head(hidden[part.guidance.unconditional_rows])
            conditional = logits[part.guidance.where]
            guided = unconditional + (part.guidance.scale + 1) * (conditional - unconditional)
            logits[part.guidance.where] = guided
        return logits


def _commits(layout: Layout, masked: MaskedRows, decided: Ints) -> list[Commit]:
    """``decided`` [M] holds the committed tokens, and -1 where nothing was committed."""
    commits = [Commit(span, [], []) for span in layout.spans]
    for index in np.flatnonzero(decided >= 0).tolist():
        commit = commits[masked.spans[index]]
        commit.positions.append(int(masked.positions[index]))
        commit.tokens.append(int(decided[index]))
    return [commit for commit in commits if not commit.span.unconditional]
