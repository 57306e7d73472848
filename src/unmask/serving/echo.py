"""Answers that begin with their prompts, told with what the model thinks of those, if that is asked for.

To score a prompt is a request of its own: it has its place in the queue and shares the steps like any other, and runs
beside the one that answers. Its text and numbers come first all the same: what is answered earlier is held back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from math import nan

import msgspec

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.parts import Content, Part
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.completion import Completion, TextRequest
from unmask.errors import InvalidValueError, ScoringTimeoutError
from unmask.events import RequestStats, TokenLogprob
from unmask.params import GenerationParams, ModelInfo
from unmask.scoring import check_scorable, scoring_params
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.engine_admission import EngineAdmission
from unmask.serving.trace import current_trace

_MOST_REPEATED = 2**18  # scores that copies of answers tell in all: 50 MB


@dataclass(frozen=True, slots=True)
class EchoedPrompt:
    """A prompt as it is shown: ``text``, and where in it the text of each of ``ids`` begins."""

    ids: list[int]
    text: str
    offsets: list[int]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: list[int], text: str | None) -> EchoedPrompt:
        """``text`` is the client's own; a prompt of ids is shown with its special tokens."""
        decoder = tokenizer.incremental_decoder(tokenizer.specials if text is None else ())
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
        self._held: list[AnswerDelta] = []
        self._scoring: RequestStats | None = None
        self._entries: list[TokenLogprob] | None = None  # all that were told

    def begin(self) -> list[AnswerDelta]:
        """What there is to be told before anything is computed."""
        return [] if self._waits else self._open([])

    def score(self, done: Completion) -> list[AnswerDelta]:
        """What the complete score brings: the prompt and all that was held back. Raises ``ScoringTimeoutError``."""
        if done.finish_reason == "timeout":
            raise ScoringTimeoutError(
                f"{len(done.token_ids)} of {len(self._prompt.ids) - 1} tokens were scored when the time was over.",
                hint="Send a shorter prompt, or allow more time.",
            )
        self._waits, self._scoring = False, done.stats
        return self._open(done.logprobs or []) + [self._follow(held) for held in self._held]

    def answer(self, delta: AnswerDelta) -> list[AnswerDelta]:
        """What the answer's ``delta`` brings."""
        if not self._waits:
            return [self._follow(delta)]
        if delta.parts or delta.logprobs or delta.answer is not None:
            self._held.append(replace(delta, frame=None))
        return []

    def _open(self, scores: list[TokenLogprob]) -> list[AnswerDelta]:
        """The prompt; it is all there is if nothing is to be answered."""
        prompt = self._prompt
        entries = None if self._request.params.logprobs is None else prompt.entries(scores)
        self._entries = entries and list(entries)
        answer = None if self._answered else self._whole(self._nothing())
        parts: list[Part] = [Content(prompt.text)] if prompt.text else []
        return [AnswerDelta(parts, self._scoring or RequestStats(), None, entries, answer)]

    def _follow(self, delta: AnswerDelta) -> AnswerDelta:
        """``delta`` behind the prompt, from where its entries count; the closing end token has one too."""
        answer, own = delta.answer, None
        if self._entries is not None:
            start = len(self._prompt.text)
            own = [entry.moved(start + entry.offset) for entry in delta.logprobs or []]
            if answer is not None and (closing := _completion(answer).closing) is not None:
                own.append(closing.moved(start + len(answer.content)))
            self._entries += own
        return replace(delta, logprobs=own, answer=None if answer is None else self._whole(answer))

    def _whole(self, answer: Answer) -> Answer:
        """``answer`` with the prompt before it."""
        text = self._prompt.text + answer.content
        completion = replace(_completion(answer), scoring=self._scoring)
        return replace(answer, content=text, parts=[Content(text)], logprobs=self._entries, completion=completion)

    def _nothing(self) -> Answer:
        """An answer of no tokens."""
        spent = self._scoring or RequestStats()
        completion = Completion(
            text="",
            token_ids=[],
            finish_reason="length",
            prompt_tokens=len(self._prompt.ids),
            completion_tokens=0,
            stats=RequestStats(queued=spent.queued, total=spent.total),
            applied=msgspec.structs.replace(self._request.params, max_tokens=0),
            terms=self._request.terms,
            waited=current_trace().model_seconds,
        )
        return Answer("", "", [], 0, None, completion, [])


def _completion(answer: Answer) -> Completion:
    assert isinstance(answer.completion, Completion), "only our own engine scores prompts"
    return answer.completion


class EchoedAdmission(EngineAdmission):
    """An admission of answers, then of requests that score their prompts; both come out as one, by the answer's number.

    ``scored``: of each score the numbers of the answers that begin with its prompt.
    """

    def __init__(
        self,
        model: DiffusionModel,
        requests: list[TextRequest],
        answers: list[EchoedAnswer],
        scored: list[range],
    ) -> None:
        super().__init__(model, requests)
        self._answers = answers
        self._scored = dict(enumerate(scored, len(requests) - len(scored)))
        self._ready = deque((number, delta) for number, answer in enumerate(answers) for delta in answer.begin())

    @property
    def finished(self) -> bool:
        """Whether every answer is there, and was told."""
        return super().finished and not self._ready

    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta, waited for, and its answer's number. May be cancelled and called again."""
        while not self._ready:
            request, delta = await super().next()
            if request not in self._scored:
                self._ready += [(request, told) for told in self._answers[request].answer(delta)]
            elif delta.answer is not None:
                score = _completion(delta.answer)
                for number in self._scored[request]:
                    self._ready += [(number, told) for told in self._answers[number].score(score)]
        await asyncio.sleep(0)  # copies come all at once, and each is long: others have their turn between them
        return self._ready.popleft()


async def admit_echoed(
    model: DiffusionModel,
    prompts: list[EchoedPrompt],
    params: GenerationParams,
    variant: ModelInfo,
    tenant: str,
    *,
    copies: int,
) -> EchoedAdmission:
    """Check ``params`` for each of ``prompts``, to be scored if they ask for log-probabilities, and answered ``copies``
    times unless ``max_tokens`` is 0. Raises what ``DiffusionModel.requests`` raises, ``UnsupportedValueError``, and
    ``InvalidValueError`` for copies that repeat very many scores.
    """
    answered, scored = params.max_tokens != 0, params.logprobs is not None
    if scored:
        check_scorable(variant)
        _check_repeated(prompts, copies)
    ids = [prompt.ids for prompt in prompts]
    if not answered:  # the last token takes the answer's place
        for prompt in prompts:
            model.check_length(prompt.ids, "prompt")
        ids, params = [one[:-1] or one for one in ids], replace(params, max_tokens=1)
    own = await model.requests(ids, params, variant, tenant, copies=copies)
    requests = list(own) if answered else []
    answers, ranges = [], []
    for number, prompt in enumerate(prompts):
        numbers = range(number * copies, (number + 1) * copies)
        has_score = scored and len(prompt.ids) > 1
        answers += [EchoedAnswer(prompt, own[n], scored=has_score, answered=answered) for n in numbers]
        if has_score:
            requests.append(_score(prompt, own[numbers[0]], variant))
            ranges.append(numbers)
    return EchoedAdmission(model, requests, answers, ranges)


def _check_repeated(prompts: list[EchoedPrompt], copies: int) -> None:
    """To score a prompt once more costs nothing; to tell of it does."""
    told = copies * sum(len(prompt.ids) for prompt in prompts)
    if copies > 1 and told > _MOST_REPEATED:
        raise InvalidValueError(
            f"{copies} answers to each prompt would tell {told} scores; there are {_MOST_REPEATED} at most.",
            hint="Ask for fewer answers: all of them begin with the same scores.",
            param="n",
        )


def _score(prompt: EchoedPrompt, request: TextRequest, variant: ModelInfo) -> TextRequest:
    """What scores ``prompt``, on the terms of the ``request`` that answers it."""
    params = scoring_params(prompt.ids, variant, request.params.logprobs or 0, request.params.block_length)
    terms = msgspec.structs.replace(request.terms, service_class="")
    return TextRequest(prompt.ids[:1], params, terms=terms)
