"""Executes one planned step: one forward over all spans, one proposal per candidate, one decision per request.

What the host knows of the candidates goes to the device before the forward; what was decided comes back in one piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.constrained import propose_filling
from unmask.decoding.propose import Proposals, propose
from unmask.decoding.windows import Decision, Outlook
from unmask.engine.batch import Candidates, Ints, Layout, candidates, lay_out, step_context
from unmask.engine.commits import MASKED_AGAIN, CommitPlan
from unmask.engine.left_rows import LeftRows
from unmask.engine.logprobs import StepLogprobs
from unmask.engine.pages import PAGE_TOKENS
from unmask.engine.parts import Part, PartMaker
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence
from unmask.models.base import Model, SelfConditionedModel, StepContext

# Rows go through the head in parts whose float32 logits take at most this many bytes. Proposing makes several copies
# of them, more for sampled rows (they are sorted) than for greedy ones.
_LOGITS_BYTES = 64 * 2**20
_NOT_FINITE = -3  # in place of a decided token: the model gave NaN there


@dataclass(slots=True)
class Commit:
    """What one span's forward decided; nothing to rely on if what the model gave was not ``finite``."""

    span: Span
    decision: Decision
    finite: bool


class Runner:
    """Owns the model and the key/value ``cache``; everything it is told about a step is in the spans."""

    def __init__(self, model: Model, pages: int) -> None:
        self.model = model
        self._renoises = model.spec.denoiser == "renoise"
        self.cache = model.new_cache(pages * PAGE_TOKENS)
        self._end_ids = torch.tensor(model.spec.end_ids, dtype=torch.int64, device=model.device)
        self._most_rows = max(1, _LOGITS_BYTES // (model.spec.shape.vocab * 4))
        self._left_rows = LeftRows(model, pages) if model.spec.shifted else None

    @torch.inference_mode()
    def execute(self, spans: list[Span]) -> list[Commit]:
        """One step: what it decided for each span given, in any order."""
        device, spec = self.model.device, self.model.spec
        layout = lay_out(spans)
        open_ = candidates(layout, spec.shifted)
        step = step_context(layout, device, spec.shape.sliding_window, tiled=self.model.tiled)
        parts = list(PartMaker(layout, open_, self._end_ids, spec.shape.vocab).parts(self._most_rows))
        plan = CommitPlan(layout, open_, device) if len(open_.rows) else None

        self._copy_pages(spans)
        hidden = self.model.forward(step, self.cache)
        if self._left_rows is not None:
            hidden = self._left_rows.append_to(hidden, layout)
        if plan is None:  # nothing but pieces of prefills
            return _commits(layout, open_, np.empty(0, dtype=np.int64), StepLogprobs())
        told = StepLogprobs()
        proposals = self._propose(parts, len(open_.rows), hidden, step, told)
        decided = plan.decide(proposals)
        decided.masked_fill_(proposals.score.isnan(), _NOT_FINITE)
        if not self._renoises and not any(span.sequence.wants_outlook for span in spans):
            return _commits(layout, open_, decided.cpu().numpy(), told)
        # One transfer for all that a renoised canvas, a guess at what comes next, or a frame goes by.
        bits = torch.stack([decided, proposals.likeliest, proposals.score.view(torch.int64)]).cpu().numpy()
        outlook = Outlook(open_.positions, bits[1], bits[2].view(np.float64))
        return _commits(layout, open_, bits[0], told, outlook, renoised=self._renoises)

    @torch.inference_mode()
    def adopt(self, draft: Span, sequence: Sequence) -> None:
        """Keep for ``sequence`` what its ``draft`` computed: keys and values, as far as it has slots, and the left row.

        What the coming window computes again is not needed, and does no harm.
        """
        for unconditional in (False, True)[: sequence.streams]:
            own, drafted = (s.held.slots(unconditional) for s in (sequence, draft.sequence))
            positions = draft.window.positions[draft.window.positions < len(own)]
            slots = np.stack([drafted[positions], own[positions]])
            self.cache.copy(*torch.from_numpy(slots).to(self.model.device))
            if self._left_rows is not None:
                self._left_rows.adopt(draft, sequence, unconditional)

    def _copy_pages(self, spans: list[Span]) -> None:
        copies = [(copy.source, copy.target) for span in spans for copy in span.copies]
        if copies:
            slots = torch.tensor(copies)[:, :, None] * PAGE_TOKENS + torch.arange(PAGE_TOKENS)
            sources, targets = slots.transpose(0, 1).flatten(1).to(self.model.device)
            self.cache.copy(sources, targets)

    def _propose(
        self, parts: list[Part], count: int, hidden: Tensor, step: StepContext, told: StepLogprobs
    ) -> Proposals:
        """Proposals for all M candidates, scores in float64; logits exist a part at a time."""
        mask_id = self.model.spec.mask_id
        tokens, likeliest = torch.empty(2, count, dtype=torch.int64, device=hidden.device)
        scores = torch.empty(count, dtype=torch.float64, device=hidden.device)
        seconds: Tensor | None = None
        for part in parts:
            logits = self._logits(part, hidden)
            own = None if part.asked is None else logits[part.asked.rows]
            if part.temperature is not None:
                logits = logits / part.temperature
            if isinstance(self.model, SelfConditionedModel):
                self.model.remember(self.cache, step.write_slots[part.rows], logits)
            how = (mask_id, part.scoring, part.ends, part.sampling, part.chances, part.decided, part.recall)
            if part.stretch is None:
                of_part = propose(logits, *how)
            else:
                of_part = propose_filling(logits, part.stretch, *how, self._most_rows)
            if part.taught is not None:
                of_part.token = torch.where(part.taught < 0, of_part.token, part.taught)
            tokens[part.where], likeliest[part.where] = of_part.token, of_part.likeliest
            scores[part.where] = of_part.score.double()
            if of_part.second is not None:
                seconds = torch.full_like(scores, torch.nan) if seconds is None else seconds
                seconds[part.where] = of_part.second.double()
            if part.asked is not None and own is not None:
                told.add(part.asked, own, of_part.likeliest if self._renoises else of_part.token, mask_id)
        return Proposals(tokens, likeliest, scores, seconds)

    def _logits(self, part: Part, hidden: Tensor) -> Tensor:
        """Logits [m, V], bias included; guided rows move away from what the model says without the prompt (LLaDA's
        cfg).
        """
        logits = self.model.head(hidden[part.rows])
        if part.guidance is not None:
            unconditional = self.model.head(hidden[part.guidance.unconditional_rows])
            conditional = logits[part.guidance.where]
            guided = unconditional + (part.guidance.scale + 1) * (conditional - unconditional)
            logits[part.guidance.where] = guided
        if part.bias is not None:
            logits.index_put_((part.bias.rows, part.bias.ids), part.bias.values, accumulate=True)
        return logits


def _commits(
    layout: Layout,
    open_: Candidates,
    decided: Ints,
    told: StepLogprobs,
    outlook: Outlook | None = None,
    *,
    renoised: bool = False,
) -> list[Commit]:
    """``decided`` [M] is as ``CommitPlan.decide`` has it, and ``_NOT_FINITE`` where nothing could be decided. The
    candidates come span by span; ``outlook`` is that of all of them.
    """
    borders = np.searchsorted(open_.spans, np.arange(len(layout.spans) + 1))
    commits = []
    for span, begin, end in zip(layout.spans, borders, borders[1:], strict=False):
        if span.unconditional:
            continue
        candidates, positions, tokens = np.arange(begin, end), open_.positions[begin:end], decided[begin:end]
        hit = tokens >= 0
        decision = Decision(positions[hit], tokens[hit], masked_again=positions[tokens == MASKED_AGAIN])
        if outlook is not None:
            decision.outlook = Outlook(positions, outlook.likeliest[begin:end], outlook.score[begin:end])
        if outlook is not None and renoised:  # any of them may become final
            decision.logprobs = told.of(span, candidates, positions, outlook.likeliest[begin:end])
        else:
            decision.logprobs = told.of(span, candidates[hit], positions[hit], tokens[hit])
        commits.append(Commit(span, decision, finite=bool((tokens != _NOT_FINITE).all())))
    return commits
