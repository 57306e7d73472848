"""Executes one planned step: one forward over all spans, one proposal per masked row, one commit per segment.

Everything the host knows goes to the device before the forward; what was decided comes back in one piece after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.decoding.propose import Proposals, propose
from unmask.decoding.windows import Decision, Outlook
from unmask.engine.batch import Candidates, Ints, Layout, candidates, lay_out, step_context
from unmask.engine.commits import CommitPlan
from unmask.engine.pages import PAGE_TOKENS
from unmask.engine.proposals import Part, PartMaker
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence
from unmask.models.base import Model, SelfConditionedModel, StepContext

# Rows go through the head in parts whose float32 logits take at most this many bytes. Proposing makes several copies
# of them, more for sampled rows (they are sorted) than for greedy ones.
_LOGITS_BYTES = 64 * 2**20


@dataclass(slots=True)
class Commit:
    """What one span's forward decided."""

    span: Span
    decision: Decision


class Runner:
    """Owns the model and the key/value cache; everything it is told about a step is in the spans."""

    def __init__(self, model: Model, pages: int) -> None:
        self.model = model
        self._renoises = model.spec.denoiser == "renoise"
        self._cache = model.new_cache(pages * PAGE_TOKENS)
        self._end_ids = torch.tensor(model.spec.end_ids, dtype=torch.int64, device=model.device)
        self._most_rows = max(1, _LOGITS_BYTES // (model.spec.shape.vocab * 4))
        # Shifted logits: the hidden row left of each stream's window, kept under the stream's first page.
        kept = pages if model.spec.shifted else 0
        self._kept_rows = torch.zeros(kept, model.spec.shape.hidden, dtype=model.dtype, device=model.device)

    @torch.inference_mode()
    def execute(self, spans: list[Span]) -> list[Commit]:
        """One step. Each span's commits, in any order."""
        device, spec = self.model.device, self.model.spec
        layout = lay_out(spans)
        open_ = candidates(layout, spec.shifted)
        step = step_context(layout, device, spec.shape.sliding_window)
        parts = list(PartMaker(layout, open_, self._end_ids).parts(self._most_rows))
        plan = CommitPlan(layout, open_, device)

        hidden = self.model.forward(step, self._cache)
        if spec.shifted:
            hidden = self._with_kept_rows(layout, hidden)
        proposals = self._propose(parts, len(open_.rows), hidden, step)
        decided = torch.where(plan.decide(proposals.token, proposals.score), proposals.token, -1)
        if not self._renoises and not any(span.sequence.params.lookahead for span in spans):
            return _commits(layout, open_, decided.cpu().numpy())
        # One transfer for all that a renoised canvas, or a guess at what comes next, goes by.
        bits = torch.stack([decided, proposals.likeliest, proposals.score.view(torch.int64)]).cpu().numpy()
        return _commits(layout, open_, bits[0], bits[1], bits[2].view(np.float64))

    @torch.inference_mode()
    def adopt(self, draft: Span, sequence: Sequence, positions: Ints) -> None:
        """Keep for ``sequence`` what its ``draft`` computed: keys and values of ``positions``, and the left row."""
        for unconditional in (False, True)[: sequence.streams]:
            if len(positions):
                slots = np.stack([s.slots(unconditional)[positions] for s in (draft.sequence, sequence)])
                self._cache.copy(*torch.from_numpy(slots).to(self.model.device))
            if len(self._kept_rows) and draft.window.left >= draft.window.start:
                source, target = (
                    replace(draft, sequence=s, unconditional=unconditional) for s in (draft.sequence, sequence)
                )
                self._kept_rows[target.first_page] = self._kept_rows[source.first_page]

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

    def _propose(self, parts: list[Part], count: int, hidden: Tensor, step: StepContext) -> Proposals:
        """Proposals for all M candidates, scores in float64; logits exist a part at a time."""
        tokens, likeliest = torch.empty(2, count, dtype=torch.int64, device=hidden.device)
        scores = torch.empty(count, dtype=torch.float64, device=hidden.device)
        for part in parts:
            logits = self._logits(part, hidden)
            if isinstance(self.model, SelfConditionedModel):
                self.model.remember(self._cache, step.write_slots[part.rows], logits)
            mask_id = self.model.spec.mask_id
            of_part = propose(logits, mask_id, part.scoring, part.ends, part.sampling, part.chances)
            tokens[part.where], likeliest[part.where] = of_part.token, of_part.likeliest
            scores[part.where] = of_part.score.double()
        return Proposals(tokens, likeliest, scores)

    def _logits(self, part: Part, hidden: Tensor) -> Tensor:
        """Logits [m, V]; guided rows move away from what the model says without the prompt (LLaDA's cfg)."""
        logits = self.model.head(hidden[part.rows])
        if part.guidance is not None:
            unconditional = self.model.head(hidden[part.guidance.unconditional_rows])
            conditional = logits[part.guidance.where]
            guided = unconditional + (part.guidance.scale + 1) * (conditional - unconditional)
            logits[part.guidance.where] = guided
        return logits if part.temperature is None else logits / part.temperature


def _commits(
    layout: Layout,
    open_: Candidates,
    decided: Ints,
    likeliest: Ints | None = None,
    score: NDArray[np.float64] | None = None,
) -> list[Commit]:
    """``decided`` [M] holds the committed tokens, and -1 where nothing was committed; candidates come span by span."""
    borders = np.searchsorted(open_.spans, np.arange(len(layout.spans) + 1))
    commits = []
    for span, begin, end in zip(layout.spans, borders, borders[1:], strict=False):
        if span.unconditional:
            continue
        positions, tokens = open_.positions[begin:end], decided[begin:end]
        hit = tokens >= 0
        decision = Decision(positions[hit], tokens[hit])
        if likeliest is not None and score is not None:
            decision.outlook = Outlook(positions, likeliest[begin:end], score[begin:end])
        commits.append(Commit(span, decision))
    return commits
