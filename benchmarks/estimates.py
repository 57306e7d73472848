"""How far off the engine's estimates of forwards are, on a mix of the embedded model's tasks.

    python benchmarks/estimates.py [--requests 300] [--seed 0]

The relative error is |estimated - taken| / taken, on arrival and after the first block.
"""

from __future__ import annotations

import argparse
import random
import statistics

from unmask import LLM, GenerationParams

WORDS = ("cloud", "chair", "dragon", "tiger", "duck", "ocean", "apple", "river", "stone", "light")
BATCH = 25  # requests that run together


def question(chance: random.Random) -> str:
    """A question of one of six kinds, whose answers are of very different lengths."""
    kinds = (
        f"What is {chance.randint(1, 60)} + {chance.randint(1, 30)}?",
        "Sort in ascending order: " + " ".join(str(chance.randint(1, 60)) for _ in range(chance.randint(3, 8))),
        f"Count from 1 to {chance.randint(3, 30)}.",
        f"Spell: {chance.choice(WORDS)}",
        "Who are you?",
        f"Write a Python function add(x) that returns x plus {chance.randint(1, 9)}.",
    )
    return chance.choice(kinds)


def main() -> None:
    """Ask, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    llm, chance = LLM(device="cpu", threads=1), random.Random(options.seed)
    params = GenerationParams(rule="threshold", block_length=8, max_tokens=128)
    errors: dict[str, list[float]] = {"arrival": [], "first block": []}
    for _ in range(0, options.requests, BATCH):
        for answer in llm.generate([question(chance) for _ in range(BATCH)], params):
            for when, estimate in zip(errors, answer.stats.estimates, strict=True):
                if estimate is not None:
                    errors[when].append(abs(estimate - answer.stats.forwards) / answer.stats.forwards)
    for when, found in errors.items():
        print(
            f"{when}: median {statistics.median(found):.2f}, mean {statistics.mean(found):.2f} ({len(found)} requests)"
        )


if __name__ == "__main__":
    main()
