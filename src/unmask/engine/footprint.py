"""How many keys and values an engine holds, and the memory that it takes, told from headers. No torch here."""

from __future__ import annotations

from unmask.engine.options import EngineOptions
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.logits_workers import LOGIT_BYTES, LogitsWorkers
from unmask.models.spec import ModelSpec

LEAST_CONTEXTS = 2  # whole ones that must fit, so that any single request does, a guided one's second stream too
CPU_CACHE_BYTES = 2 * 2**30  # a modest share of a computer that does other things
_PROCESS_BYTES = 250 * 2**20  # what an engine process has without a model
_HALF_BYTES = 2  # of a number in the caches of llama.cpp
_DTYPE_BYTES = {"bfloat16": 2, "float16": 2}


def pages_within(options: EngineOptions, context_length: int, page_bytes: int, memory: int) -> int:
    """Pages for ``max_running`` whole contexts, or as many as ``memory`` bytes hold; at least ``LEAST_CONTEXTS``."""
    least = LEAST_CONTEXTS * pages_for(context_length)
    most = max(options.max_running * pages_for(context_length), least)
    return max(least, min(most, memory // page_bytes))


def model_bytes(
    options: EngineOptions, spec: ModelSpec, *, parameters: int, weight_bytes: int, context_length: int
) -> int:
    """An estimate of what a model takes with these ``options``, wherever it is computed; activations on top."""
    if options.logits_workers is not None:
        return workers_bytes(options.logits_workers, spec, weight_bytes, context_length)
    return engine_bytes(options, spec, parameters, context_length)


def engine_bytes(options: EngineOptions, spec: ModelSpec, parameters: int, context_length: int) -> int:
    """An estimate of what an engine takes on a CPU: weights, keys and values, and the process; activations on top."""
    width = _DTYPE_BYTES.get(options.dtype, 4)
    page_bytes = spec.shape.cache_width * width * PAGE_TOKENS
    pages = options.kv_tokens // PAGE_TOKENS or pages_within(options, context_length, page_bytes, CPU_CACHE_BYTES)
    weights = parameters * (1 if options.quantize == "int8" else width)
    return _PROCESS_BYTES + weights + pages * page_bytes


def workers_bytes(workers: LogitsWorkers, spec: ModelSpec, weight_bytes: int, context_length: int) -> int:
    """The same of an engine whose model is in processes of ``workers``: each has its weights, a context's keys and
    values, and logits of a canvas, which it remembers, and which are on their way to us.
    """
    kept = context_length * spec.shape.cache_width * _HALF_BYTES
    logits = 2 * spec.block_length * spec.shape.vocab * LOGIT_BYTES
    return _PROCESS_BYTES + workers.count * (weight_bytes + kept + logits)
