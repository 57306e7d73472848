"""What a constrained block costs in a step beside the forward: ``python benchmarks/constraint_cost.py [VOCABULARY]``.

A schema of three fields over the embedded model's tokens, or over as many made up ones; a block of 32 masks.
"""

from __future__ import annotations

import random
import string
import sys
import time
from types import SimpleNamespace

import numpy as np
import torch

from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.constraints.automaton import Automaton
from unmask.constraints.build import build
from unmask.constraints.json_schema import schema_pattern
from unmask.constraints.token_bytes import TokenBytes
from unmask.decoding.constrained import Stretch, propose_filling
from unmask.decoding.propose import Sampling, Scoring

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "kind": {"enum": ["cat", "dog", "horse"]},
    },
    "required": ["name", "age", "tags", "kind"],
}
BLOCK = 32


def vocabulary(size: int) -> dict[bytes, list[int]]:
    """The embedded model's tokens, or ``size`` made-up words, digits and signs."""
    if not size:
        return TokenBytes(
            TokenizerSource.from_directory(open_checkpoint(EMBEDDED_MODEL).path).tokenizer, frozenset({0, 6})
        ).ids
    rng = random.Random(0)
    tokens = {bytes([byte]) for byte in range(256)} | {str(n).encode() for n in range(1000)}
    signs = '"{}[]:,. -_/\\'
    while len(tokens) < size - 2:
        word = "".join(rng.choices(string.ascii_letters, k=rng.randrange(2, 9)))
        tokens.add((rng.choice(["", " ", *signs]) + word + rng.choice(["", "", "", *signs])).encode())
    return {token: [number + 2] for number, token in enumerate(sorted(tokens))}


def timed(call, times: int = 5) -> float:
    """Milliseconds of processor time of the fastest of ``times`` calls: other programs may run beside."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return 1000 * best


def main() -> None:
    """Print the automaton's sizes and the costs."""
    torch.set_num_threads(1)
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    tokens = vocabulary(size)
    vocab = size or 1024
    started = time.process_time()
    made = build(schema_pattern(SCHEMA), tokens, vocab, (0,))
    seconds = time.process_time() - started
    data = made.to_bytes()
    started = time.perf_counter()
    automaton = Automaton.from_bytes(data)
    print(f"vocabulary {vocab}: {automaton.states} states, {len(automaton.sources)} links,", end=" ")
    print(f"{len(automaton.first_members) - 1} sets, {automaton.classes} classes, {len(automaton.members)} members")
    print(f"built in {seconds:.2f} s, {len(data)} bytes")
    masked = np.ones(97, dtype=bool)
    masked[0] = False
    canvas = SimpleNamespace(prompt_length=1, limit=97, tokens=np.ones(97, dtype=np.int64), masked=masked)
    positions = np.arange(1, 1 + BLOCK)
    stretch = Stretch.of(canvas, automaton, positions, 0)
    print(f"first use {1000 * (time.perf_counter() - started):.1f} ms")
    logits = torch.randn(BLOCK, vocab)
    draws = torch.rand(BLOCK, dtype=torch.float64)
    for name, top_p, greedy in (("greedy", 1.0, True), ("sampled", 1.0, False), ("sampled, top_p", 0.9, False)):
        sampling = Sampling(
            torch.full((BLOCK,), 1.0),
            torch.full((BLOCK,), top_p, dtype=torch.float64),
            torch.zeros(BLOCK, dtype=torch.int64),
            draws,
            torch.full((BLOCK,), greedy),
            top_p < 1,
        )
        how = (6, Scoring(), None, None if greedy else sampling, None, None, None, 64)
        cost = timed(lambda how=how: propose_filling(logits.clone(), stretch, *how))
        print(f"{name}: {cost:.1f} ms")
    print(f"stretch: {timed(lambda: Stretch.of(canvas, automaton, positions, 0)):.2f} ms")


if __name__ == "__main__":
    main()
