"""From an answer to the whole response, and what is the same in a streamed one."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from unmask.answers.answer import Answer
from unmask.answers.cells import Cells
from unmask.answers.parts import ToolCall
from unmask.events import TokenLogprob
from unmask.serving.call_input import input_text, parse_input
from unmask.serving.dialects.ollama.lines import CalledFunction, CalledTool, Line, MakeLine
from unmask.serving.extension import GenerationReport
from unmask.serving.logprobs import Logprob, encode_entries


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of one response, whose lines ``write`` makes."""

    id: str
    write: MakeLine

    @classmethod
    def new(cls, model: str, write: MakeLine) -> Head:
        """A head with a fresh id and the present time."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return cls(secrets.token_hex(6), partial(write, model=model, created_at=now))


def encode(head: Head, answer: Answer, cells: Cells) -> Line:
    """The whole answer; equal to what the lines of ``LineStream`` add up to.

    A last call that broke off is not told: clients run what they are told.
    """
    calls = answer.tool_calls[:-1] if answer.broken_off else answer.tool_calls
    return head.write(
        answer.content,
        answer.reasoning,
        [call(head, index, each) for index, each in enumerate(calls)],
        logprobs=encode_logprobs(answer.logprobs, cells),
        **ending(answer),
    )


def call(head: Head, index: int, called: ToolCall) -> CalledTool:
    """The ``index``-th call of an answer. What is no JSON object is told as ``input_text`` says."""
    arguments = parse_input(input_text(called.arguments))
    return CalledTool(f"call_{head.id}_{index}", CalledFunction(index, called.name, arguments))


def ending(answer: Answer) -> dict[str, Any]:
    """The fields of the last line. The prompt is computed in the same forwards as the answer, whose time is told."""
    completion = answer.completion
    stats = completion.stats
    load = _nanoseconds(completion.waited + stats.queued)
    computing = _nanoseconds(stats.total) - _nanoseconds(stats.queued)
    return {
        "done": True,
        "done_reason": "length" if answer.finish == "length" else "stop",
        "total_duration": load + computing,
        "load_duration": load,
        "prompt_eval_count": completion.prompt_tokens,
        "prompt_eval_cached_count": stats.cached,
        "prompt_eval_duration": 0,
        "eval_count": completion.completion_tokens,
        "eval_duration": computing,
        "unmask": GenerationReport.of(completion),
    }


def encode_logprobs(entries: Sequence[TokenLogprob] | None, cells: Cells) -> list[Logprob] | UnsetType:
    """``entries`` as the line that they belong to has them."""
    return UNSET if entries is None else encode_entries(entries, cells)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
