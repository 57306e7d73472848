"""Executes one planned step: one forward over all spans, one proposal per masked row, one commit per segment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.propose import EndTokens, Sampling, propose
from unmask.decoding.random import uniform
from unmask.decoding.rules import RULES, RuleParams
from unmask.engine.batch import Ints, Layout, MaskedRows, lay_out, masked_rows, step_context
from unmask.engine.pages import PAGE_TOKENS
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence
from unmask.models.transformer import Transformer

# Logits of at most this many bytes exist at a time, whatever the batch.
_LOGITS_BYTES = 256 * 2**20


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
        self._chunk = max(1, _LOGITS_BYTES // (model.spec.shape.vocab * 4))
        self._left_rows: dict[tuple[str, bool], Tensor] = {}
        self._end_ids = torch.tensor(model.spec.end_ids, dtype=torch.int64, device=model.device)

    @torch.inference_mode()
    def execute(self, spans: list[Span]) -> list[Commit]:
        """One step. Each span's commits, in any order."""
        layout = lay_out(spans)
        masked = masked_rows(layout, self.model.spec.shifted)
        hidden = self.model.forward(step_context(layout, self.model.device), self._cache)
        if self.model.spec.shifted:
            hidden = self._with_left_rows(layout, hidden)
        token, score = self._propose(layout, masked, hidden)
        committed = _decide(layout, masked, score).tolist()
        return _commits(layout, masked, committed, token[committed].tolist())

    def forget(self, sequence: Sequence) -> None:
        """Drop what is kept of a sequence that has ended."""
        for unconditional in (False, True):
            self._left_rows.pop((sequence.request_id, unconditional), None)

    def _with_left_rows(self, layout: Layout, hidden: Tensor) -> Tensor:
        """Shifted logits: append each span's kept row, then keep the row its coming windows will need."""
        blank = hidden.new_zeros(hidden.shape[-1])
        keys = [(span.sequence.request_id, span.unconditional) for span in layout.spans]
        kept = [self._left_rows.get(key, blank) for key in keys]
        for key, span, first_row in zip(keys, layout.spans, layout.first_rows, strict=False):
            window = span.window
            if window.left >= window.start:
                self._left_rows[key] = hidden[first_row + window.left - window.start].clone()
        return torch.cat([hidden, torch.stack(kept)])

    def _propose(self, layout: Layout, masked: MaskedRows, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Token [M] int64 and score [M] float64 of every masked row; logits exist a chunk at a time."""
        device = self.model.device
        rules = [RULES[span.sequence.params.rule] for span in layout.spans]
        wide = np.array([rule.score_dtype == torch.float64 for rule in rules])[masked.spans]
        tokens = torch.empty(len(masked.rows), dtype=torch.int64, device=device)
        scores = torch.empty(len(masked.rows), dtype=torch.float64, device=device)
        for dtype, selected in ((torch.float64, np.flatnonzero(wide)), (torch.float32, np.flatnonzero(~wide))):
            for first in range(0, len(selected), self._chunk):
                part = selected[first : first + self._chunk]
                logits = self._logits(layout, masked, part, hidden)
                ends = _end_tokens(layout, masked, part, self._end_ids)
                sampling = _sampling(layout, masked, part, device)
                token, score = propose(logits, self.model.spec.mask_id, dtype, ends, sampling)
                where = torch.from_numpy(part).to(device)
                tokens[where] = token
                scores[where] = score.double()
        return tokens, scores

    def _logits(self, layout: Layout, masked: MaskedRows, part: Ints, hidden: Tensor) -> Tensor:
        """Logits [len(part), V]; guided rows move away from what the model says without the prompt (LLaDA's cfg)."""
        logits = self.model.head(hidden[torch.from_numpy(masked.rows[part]).to(hidden.device)])
        if masked.unconditional_rows is None:
            return logits
        guided = np.flatnonzero(masked.unconditional_rows[part] >= 0)
        scales = np.array([span.sequence.params.cfg_scale for span in layout.spans], dtype=np.float32)
        scale = torch.from_numpy(scales[masked.spans[part][guided]]).to(hidden.device)[:, None]
        rows = torch.from_numpy(masked.unconditional_rows[part][guided]).to(hidden.device)
        where = torch.from_numpy(guided).to(hidden.device)
        unconditional = self.model.head(hidden[rows])
        logits[where] = unconditional + (scale + 1) * (logits[where] - unconditional)
        return logits


def _end_tokens(layout: Layout, masked: MaskedRows, part: Ints, end_ids: Tensor) -> EndTokens | None:
    """How the masked rows ``part`` treat end tokens; None if they are free everywhere."""
    params = [span.sequence.params for span in layout.spans]
    if all(p.end_tokens == "free" and not p.min_tokens for p in params):
        return None
    spans = masked.spans[part]
    earliest = np.array([s.sequence.canvas.prompt_length + s.sequence.params.min_tokens for s in layout.spans])
    never = np.array([p.end_tokens == "never" for p in params])[spans] | (masked.positions[part] < earliest[spans])
    last = np.array([p.end_tokens == "last" for p in params])[spans]
    return EndTokens(end_ids, torch.from_numpy(never).to(end_ids.device), torch.from_numpy(last).to(end_ids.device))


def _sampling(layout: Layout, masked: MaskedRows, part: Ints, device: torch.device) -> Sampling | None:
    """Per-row sampling parameters of the masked rows ``part``; None if all are greedy."""
    sequences = [span.sequence for span in layout.spans]
    if not any(sequence.params.temperature for sequence in sequences):
        return None
    spans = torch.from_numpy(masked.spans[part])

    def per_row(values: list[float] | list[int] | list[bool], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype)[spans].to(device)

    return Sampling(
        temperature=per_row([s.params.temperature for s in sequences], torch.float32),
        top_p=per_row([s.params.top_p for s in sequences], torch.float64),
        top_k=per_row([s.params.top_k for s in sequences], torch.int64),
        draw=uniform(
            per_row([s.params.seed for s in sequences], torch.int64),
            torch.from_numpy(masked.positions[part]).to(device),
            per_row([s.stats.forwards for s in sequences], torch.int64),
        ),
        tempered=per_row([RULES[s.params.rule].tempered for s in sequences], torch.bool),
    )


def _decide(layout: Layout, masked: MaskedRows, score: Tensor) -> Tensor:
    """Indices into the M masked rows that commit, by each segment's own rule."""
    device = score.device
    owners = [(span, segment) for span in layout.spans for segment in span.window.segments]
    width = max(segment.end - segment.start for _, segment in owners)
    where = (torch.from_numpy(masked.segments).to(device), torch.from_numpy(masked.offsets).to(device))
    grid = torch.full((len(owners), width), -torch.inf, dtype=torch.float64, device=device)
    grid[where] = score
    commits = torch.zeros(grid.shape, dtype=torch.bool, device=device)
    names = [span.sequence.params.rule for span, _ in owners]
    for name in sorted(set(names)):
        mine = [index for index, other in enumerate(names) if other == name]
        params = [owners[index][0].sequence.params for index in mine]
        segments = [owners[index][1] for index in mine]
        selected = torch.tensor(mine, device=device)
        commits[selected] = RULES[name].commit(
            grid[selected],
            RuleParams(
                quota=torch.tensor([segment.quota for segment in segments], device=device),
                threshold=torch.tensor([p.threshold for p in params], dtype=torch.float64, device=device),
                factor=torch.tensor([p.factor for p in params], dtype=torch.float64, device=device),
                full=torch.tensor([segment.full for segment in segments], device=device),
            ),
        )
    return commits[where].nonzero().squeeze(1)


def _commits(layout: Layout, masked: MaskedRows, committed: list[int], tokens: list[int]) -> list[Commit]:
    commits = [Commit(span, [], []) for span in layout.spans]
    for index, token in zip(committed, tokens, strict=True):
        commit = commits[masked.spans[index]]
        commit.positions.append(int(masked.positions[index]))
        commit.tokens.append(token)
    return [commit for commit in commits if not commit.span.unconditional]
