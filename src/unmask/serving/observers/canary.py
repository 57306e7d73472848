"""The canary of a model that has just been loaded, whatever engine it runs on."""

from __future__ import annotations

from collections.abc import Callable, Collection

import structlog

from unmask.answers.chat import Chat, Continuation, Length
from unmask.errors import UnsupportedValueError
from unmask.gateway.canary.asking import Reply, ask_canary
from unmask.gateway.canary.prompts import MAX_TOKENS
from unmask.gateway.canary.verdict import CanaryVerdict
from unmask.params import GenerationParams
from unmask.serving.admission import Admission
from unmask.serving.model import Model

_log = structlog.get_logger()


async def canary_of(
    model: Model, masks: Collection[str] = (), *, there: Callable[[], bool] = lambda: True
) -> CanaryVerdict | None:
    """What a few prompts show of ``model``, told in the log unless all is well; None if it was too slow to tell, or is
    not ``there`` any more: its last answers are then errors, and say nothing of it.

    ``masks``: texts of its own mask tokens.
    """
    verdict = await ask_canary(_Asker(model), conversations=model.has_template, masks=masks)
    if not there():
        return None
    if verdict is not None and verdict.status != "ok":
        _log.warning("canary", model=model.name, status=verdict.status, reasons=verdict.reasons)
    return verdict


class _Asker:
    """Asks ``model`` as a client would, for log-probabilities too as long as it has some."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._logprobs: int | None = 0

    async def __call__(self, prompt: str) -> Reply:
        try:
            admission = await self._admit(prompt)
        except UnsupportedValueError:
            if self._logprobs is None:
                raise
            self._logprobs = None
            admission = await self._admit(prompt)
        with admission.running():
            (answer,) = await admission.answers()
        return Reply(answer.reasoning + answer.content, [one.logprob for one in answer.logprobs or () if one.judged])

    async def _admit(self, prompt: str) -> Admission:
        params = GenerationParams(temperature=0, max_tokens=MAX_TOKENS, logprobs=self._logprobs)
        if self._model.has_template:
            messages = [{"role": "user", "content": prompt}]
            return await self._model.admit_chat(Chat(messages=messages, params=params, length=Length()), "")
        return await self._model.admit_texts(Continuation(texts=[prompt], params=params, length=Length()), "")
