"""Int8 against float32 on this CPU, side by side: one matrix product, a model's forward, and what the model answers.

    python -m benchmarks.int8 [--model unmask-tiny] [--per-kind 20] [--threads 1]

Times are medians of calls that alternate between the two, so that both see the same machine. Answers are those of
``benchmarks/quality.py``, over its held-out questions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

import unmask
from benchmarks.quality import load, measure
from unmask.models.base import AttentionGroup, Model, StepContext
from unmask.models.int8 import int8_unavailable
from unmask.models.linear import Linear
from unmask.models.load import load_model

INPUTS, OUTPUTS = 1024, 4096
ROWS = (1, 8, 32, 128)
SPANS, SPAN = (1, 4, 16), 32
SETTINGS = {"threshold 0.9": {"rule": "threshold", "threshold": 0.9}, "one token per step": {"rule": "low_confidence"}}


def compare(plain: Callable[[], Tensor], int8: Callable[[], Tensor], calls: int) -> dict[str, float]:
    """Milliseconds of both, how many times as fast int8 is, and its relative error."""
    expected, output = plain(), int8()
    seconds: dict[Callable[[], Tensor], list[float]] = {plain: [], int8: []}
    for _ in range(calls):
        for function, taken in seconds.items():
            started = time.perf_counter()
            function()
            taken.append(time.perf_counter() - started)
    before, after = (statistics.median(taken) * 1e3 for taken in seconds.values())
    return {
        "float32_ms": round(before, 3),
        "int8_ms": round(after, 3),
        "times_as_fast": round(before / after, 2),
        "relative_error": round(((output - expected).norm() / expected.norm()).item(), 4),
    }


def products() -> None:
    """One layer, by number of rows."""
    plain = Linear([("a", OUTPUTS)], torch.randn(OUTPUTS, INPUTS) * INPUTS**-0.5)
    int8 = Linear(plain.parts, plain.weight)
    int8.quantize()
    for count in ROWS:
        rows = torch.randn(count, INPUTS)
        result = compare(lambda rows=rows: plain(rows), lambda rows=rows: int8(rows), calls=100)
        print(json.dumps({"product": f"{count} x {INPUTS} x {OUTPUTS}", **result}))


def logits(model: Model, spans: int) -> Callable[[], Tensor]:
    """A forward of ``spans`` spans of ``SPAN`` rows that see themselves, and its logits."""
    count = spans * SPAN
    draw = torch.Generator().manual_seed(0)
    step = StepContext(
        token_ids=torch.randint(0, model.spec.shape.vocab, (count,), generator=draw),
        positions=torch.arange(SPAN).repeat(spans),
        write_slots=torch.arange(count),
        groups=[AttentionGroup(slice(0, count), torch.arange(count).view(spans, SPAN), None)],
    )
    cache = model.new_cache(count)
    return lambda: model.head(model.forward(step, cache))


def forwards(name: str) -> None:
    """A whole model, by number of requests; how often both find the same token likeliest, over random ones."""
    plain, int8 = (load_model(name, device="cpu", dtype="float32", quantize=kind) for kind in ("none", "int8"))
    for spans in SPANS:
        before, after = logits(plain, spans), logits(int8, spans)
        result = compare(before, after, calls=50)
        agreement = (before().argmax(-1) == after().argmax(-1)).float().mean().item()
        print(json.dumps({"forward": f"{spans} x {SPAN}", **result, "same_argmax": round(agreement, 4)}))


def answers(name: str, threads: int, per_kind: int) -> None:
    """Mean accuracy on held-out questions, and tokens per forward."""
    models = {
        weights: unmask.LLM(name, device="cpu", threads=threads, max_running=64, quantize=quantize)
        for weights, quantize in (("float32", "none"), ("int8", "int8"))
    }
    kinds = load(per_kind)
    for setting, options in SETTINGS.items():
        for weights, llm in models.items():
            started = time.perf_counter()
            result = measure(llm, kinds, options)
            seconds = round(time.perf_counter() - started, 1)
            print(json.dumps({"answers": setting, "weights": weights, "seconds": seconds, **result}))


@torch.inference_mode()
def main() -> None:
    """Print one JSON line a comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="unmask-tiny")
    parser.add_argument("--per-kind", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    reason = int8_unavailable(torch.device("cpu"))
    if reason is not None:
        sys.exit(reason)
    torch.set_num_threads(arguments.threads)
    products()
    forwards(arguments.model)
    answers(arguments.model, arguments.threads, arguments.per_kind)


if __name__ == "__main__":
    main()
