"""Answers that begin with their prompts, told with what the model thinks of those, if that is asked for.

To score a prompt is a request of its own: it has its place in the queue and shares the steps like any other, and runs
beside the one that answers. Its text and numbers come first all the same: what is answered earlier is held back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING

import msgspec

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.completion import Completion, TextRequest
from unmask.engine.text import TextDelta
from unmask.errors import ScoringTimeoutError
from unmask.events import RequestStats, TokenLogprob
from unmask.params import GenerationParams, ModelInfo
from unmask.scoring import check_scorable, scoring_params
from unmask.serving.admission import Admission

if TYPE_CHECKING:
    from unmask.serving.served_model import ServedModel


@dataclass(frozen=True, slots=True)
class EchoedPrompt:
    """A prompt as it is shown: ``text``, and where in it the text of each of ``ids`` begins."""

    ids: list[int]
    text: str
    offsets: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: list[int], text: str | None) -> EchoedPrompt:
        """``text`` is the client's own; a prompt of ids is shown with its special tokens."""
        decoder = tokenizer.incremental_decoder(keep_special=text is None)
        offsets, shown = [], ""
        for token_id in ids:
            offsets.append(len(shown))
            shown += decoder.step(token_id)
        text = shown + decoder.flush() if text is None else text
        return cls(ids, text, [min(offset, len(text)) for offset in offsets])

    def entries(self, scores: list[TokenLogprob]) -> list[TokenLogprob]:
        """One for each token: the first, which nothing stands before, has no number."""
        judged = [TokenLogprob(self.ids[0], nan, []), *scores]
        return [entry.moved(offset) for entry, offset in zip(judged, self.offsets, strict=True)]


class EchoedAnswer:
    """One prompt and its answer on their way out.

    ``request`` is that of the answer. ``scored`` and ``answered``: whether the prompt is to be scored, and answered.
    """

    def __init__(self, prompt: EchoedPrompt, request: TextRequest, *, scored: bool, answered: bool) -> None:
        self._prompt = prompt
        self._request = request
        self._waits = scored
        self._answered = answered
        self._held: list[TextDelta] = []
        self._scoring: RequestStats | None = None
        self._entries: list[TokenLogprob] | None = None  # all that were told

    def begin(self) -> list[TextDelta]:
        """What there is to be told before anything is computed."""
        return [] if self._waits else self._open([])

    def score(self, delta: TextDelta) -> list[TextDelta]:
        """What the score's ``delta`` brings: once it is complete, the prompt and all that was held back."""
        done = delta.completion
        if done is None:
            return []
        if done.finish_reason == "timeout":
            raise ScoringTimeoutError(
                f"{len(done.token_ids)} of {len(self._prompt.ids) - 1} tokens were scored when the time was over.",
                hint="Send a shorter prompt, or allow more time.",
            )
        self._waits, self._scoring = False, done.stats
        return self._open(done.logprobs or []) + [self._follow(held) for held in self._held]

    def answer(self, delta: TextDelta) -> list[TextDelta]:
        """What the answer's ``delta`` brings."""
        if not self._waits:
            return [self._follow(delta)]
        if delta.text or delta.logprobs or delta.completion is not None:
            self._held.append(replace(delta, frame=None))
        return []

    def _open(self, scores: list[TokenLogprob]) -> list[TextDelta]:
        """The prompt; it is all there is if nothing is to be answered."""
        prompt, params = self._prompt, self._request.params
        entries = None if params.logprobs is None else prompt.entries(scores)
        self._entries = entries and list(entries)
        spent = self._scoring or RequestStats()
        nothing = Completion(
            text="",
            token_ids=[],
            finish_reason="length",
            prompt_tokens=len(prompt.ids),
            completion_tokens=0,
            stats=RequestStats(queued=spent.queued, total=spent.total),
            applied=msgspec.structs.replace(params, max_tokens=0),
            terms=self._request.terms,
        )
        completion = None if self._answered else self._whole(nothing)
        return [TextDelta(prompt.text, prompt.ids, spent, None, completion, entries)]

    def _follow(self, delta: TextDelta) -> TextDelta:
        """``delta`` behind the prompt, from where its entries count; the closing end token has one too."""
        done, own = delta.completion, None
        if self._entries is not None:
            own = [entry.moved(entry.offset + len(self._prompt.text)) for entry in delta.logprobs or []]
            if done is not None and done.closing is not None:
                own.append(done.closing.moved(len(self._prompt.text) + len(done.text)))
            self._entries += own
        return replace(delta, logprobs=own, completion=None if done is None else self._whole(done))

    def _whole(self, done: Completion) -> Completion:
        """``done`` with the prompt before it."""
        return replace(
            done,
            text=self._prompt.text + done.text,
            token_ids=self._prompt.ids + done.token_ids,
            logprobs=self._entries,
            scoring=self._scoring,
        )


class EchoedAdmission(Admission):
    """An admission of answers, and of requests that score their prompts; both come out as one, by the prompt's number.

    ``routes``: of each request the number of its prompt, and whether it is the score.
    """

    def __init__(
        self,
        model: ServedModel,
        requests: list[TextRequest],
        answers: list[EchoedAnswer],
        routes: list[tuple[int, bool]],
    ) -> None:
        super().__init__(model, requests)
        self._answers = answers
        self._routes = routes
        self._ready = deque((number, delta) for number, answer in enumerate(answers) for delta in answer.begin())

    @property
    def finished(self) -> bool:
        """Whether every prompt has its completion, and it was told."""
        return super().finished and not self._ready

    async def next(self) -> tuple[int, TextDelta]:
        """The next delta, waited for, and its prompt's number. May be cancelled and called again."""
        while not self._ready:
            request, delta = await super().next()
            number, is_score = self._routes[request]
            answer = self._answers[number]
            self._ready += [(number, one) for one in (answer.score(delta) if is_score else answer.answer(delta))]
        return self._ready.popleft()


async def admit_echoed(
    model: ServedModel, prompts: list[EchoedPrompt], params: GenerationParams, variant: ModelInfo, tenant: str
) -> EchoedAdmission:
    """Check ``params`` for each of ``prompts``, to be scored if ``params`` ask for log-probabilities; with
    ``max_tokens`` 0 they are not answered. Raises what ``ServedModel.requests`` raises, and ``UnsupportedValueError``.
    """
    answered, scored = params.max_tokens != 0, params.logprobs is not None
    if scored:
        check_scorable(variant)
    if answered:
        own = await model.requests([prompt.ids for prompt in prompts], params, variant, tenant)
    else:  # the last token takes the answer's place
        for prompt in prompts:
            model.check_length(prompt.ids, "prompt")
        shorter = [prompt.ids[:-1] or prompt.ids for prompt in prompts]
        own = await model.requests(shorter, replace(params, max_tokens=1), variant, tenant)
    requests = list(own) if answered else []
    routes = [(number, False) for number in range(len(requests))]
    answers = []
    for number, (prompt, request) in enumerate(zip(prompts, own, strict=True)):
        score = _score(prompt, request, variant) if scored and len(prompt.ids) > 1 else None
        if score is not None:
            routes.append((number, True))
            requests.append(score)
        answers.append(EchoedAnswer(prompt, request, scored=score is not None, answered=answered))
    return EchoedAdmission(model, requests, answers, routes)


def _score(prompt: EchoedPrompt, request: TextRequest, variant: ModelInfo) -> TextRequest:
    """What scores ``prompt``, on the terms of the ``request`` that answers it."""
    params = scoring_params(prompt.ids, variant, request.params.logprobs or 0, request.params.block_length)
    terms = msgspec.structs.replace(request.terms, service_class="")
    return TextRequest(prompt.ids[:1], params, terms=terms)
