"""How many forwards lookahead saves on held-out prompts; the answers must not change.

    python -m benchmarks.lookahead [--model unmask-tiny] [--prompts 200] [--together 1] [--threads 1] [--markdown]

``fewer``: forwards of the requests without lookahead over those with it, which depends neither on the machine nor,
as long as a step has room, on the requests ``together``. ``accepted``: share of the drafts that were guessed right.
``faster``: the same ratio of wall times, drafting included.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import islice, zip_longest

import unmask
from benchmarks.quality import load

DEPTHS = (2, 4, 8)
SETTINGS = {
    "d2f, 0.9": ("block_causal", {"rule": "d2f", "threshold": 0.9}),
    "d2f, 0.95": ("block_causal", {"rule": "d2f", "threshold": 0.95}),
    "d2f, 1.0": ("block_causal", {"rule": "d2f", "threshold": 1.0}),
    "threshold, 0.9": ("block_causal", {"rule": "threshold", "threshold": 0.9}),
    "threshold, 1.0": ("block_causal", {"rule": "threshold", "threshold": 1.0}),
    "low_confidence, a token a step": ("block_causal", {"rule": "low_confidence"}),
    "low_confidence, 8 steps a block": ("block_causal", {"rule": "low_confidence", "steps": 8}),
    "full attention, threshold, 0.9": ("full", {"rule": "threshold", "threshold": 0.9, "max_tokens": 64}),
}


def prompts(count: int) -> list[list[dict]]:
    """The first ``count`` held-out conversations, kinds in turn."""
    rows = zip_longest(*load(count).values())
    return [entry["messages"] for entry in islice((entry for row in rows for entry in row if entry), count)]


def measure(llm: unmask.LLM, conversations: list[list[dict]], together: int, options: dict) -> dict:
    """Answers, forwards, drafts and seconds of one setting."""
    params = unmask.GenerationParams(**{"max_tokens": 256} | options)
    started = time.perf_counter()
    batches = [conversations[first : first + together] for first in range(0, len(conversations), together)]
    answers = [answer for batch in batches for answer in llm.generate(batch, params)]
    return {
        "answers": [(answer.token_ids, answer.finish_reason, answer.stats.committed) for answer in answers],
        "forwards": sum(answer.stats.forwards for answer in answers),
        "drafts": sum(answer.stats.drafts for answer in answers),
        "accepted": sum(answer.stats.drafts_accepted for answer in answers),
        "seconds": time.perf_counter() - started,
    }


def compare(llm: unmask.LLM, conversations: list[list[dict]], together: int, options: dict) -> dict:
    """One setting without lookahead and with each depth of it."""
    plain = measure(llm, conversations, together, options)
    line = {"forwards": plain["forwards"]}
    for depth in DEPTHS:
        ahead = measure(llm, conversations, together, options | {"lookahead": depth})
        assert ahead["answers"] == plain["answers"], "lookahead changed an answer"
        line[f"lookahead {depth}"] = {
            "forwards": ahead["forwards"],
            "fewer": round(plain["forwards"] / ahead["forwards"], 2),
            "accepted": round(ahead["accepted"] / max(ahead["drafts"], 1), 2),
            "faster": round(plain["seconds"] / ahead["seconds"], 2),
        }
    return line


def markdown(results: dict[str, dict]) -> str:
    """The results as a table, one line a setting."""
    names = [f"lookahead {depth}" for depth in DEPTHS]
    lines = [f"| rule, threshold | forwards | {' | '.join(names)} |", "|---" * (len(DEPTHS) + 2) + "|"]
    for setting, result in results.items():
        cells = [f"{result[name]['forwards']} ({result[name]['fewer']:.2f}x)" for name in names]
        lines.append(f"| {setting} | {result['forwards']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print one JSON line a setting, or a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="unmask-tiny")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    conversations, results = prompts(arguments.prompts), {}
    attentions = dict.fromkeys(attention for attention, _ in SETTINGS.values())
    engines = {
        attention: unmask.LLM(arguments.model, threads=arguments.threads, attention=attention)
        for attention in attentions
    }
    for name, (attention, options) in SETTINGS.items():
        results[name] = compare(engines[attention], conversations, arguments.together, options)
        if not arguments.markdown:
            print(json.dumps({"setting": name, **results[name]}), flush=True)
    if arguments.markdown:
        print(markdown(results))


if __name__ == "__main__":
    main()
