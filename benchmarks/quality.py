"""What the embedded model answers on held-out prompts, and at how many tokens per forward, setting by setting.

    python benchmarks/quality.py [--model unmask-tiny] [--per-kind 100] [--threads 0] [--markdown] [--rules RULE ...]

``--rules`` compares rules at their defaults, in a table of one row each.

Answers count as right if they are exactly the expected ones and ended by themselves. Tokens per forward are all
completion tokens over all forwards of the requests; forwards do not depend on the machine or on batching.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from rich.progress import track

import unmask

HELDOUT = Path(__file__).parents[1] / "recipes" / "tiny" / "heldout.jsonl"
SETTINGS = {
    "one token per step": {"rule": "low_confidence"},
    "threshold 0.9": {"rule": "threshold", "threshold": 0.9},
    "threshold 0.7": {"rule": "threshold", "threshold": 0.7},
    "factor 1": {"rule": "factor", "factor": 1.0},
    "d2f 0.9": {"rule": "d2f", "threshold": 0.9},
}


def load(per_kind: int) -> dict[str, list[dict]]:
    """Held-out conversations and their answers, ``per_kind`` of each kind."""
    kinds: dict[str, list[dict]] = defaultdict(list)
    for line in HELDOUT.read_text().splitlines():
        entry = json.loads(line)
        if len(kinds[entry["kind"]]) < per_kind:
            kinds[entry["kind"]].append(entry)
    return kinds


def measure(llm: unmask.LLM, kinds: dict[str, list[dict]], options: dict) -> dict:
    """Accuracy by kind, their mean, and tokens per forward of one setting."""
    params = unmask.GenerationParams(max_tokens=256, **options)
    accuracy, tokens, forwards = {}, 0, 0
    for kind, entries in track(kinds.items(), str(options), transient=True):
        answers = llm.generate([entry["messages"] for entry in entries], params)
        right = [
            answer.text == entry["answer"] and answer.finish_reason == "stop"
            for answer, entry in zip(answers, entries, strict=True)
        ]
        accuracy[kind] = sum(right) / len(right)
        tokens += sum(answer.completion_tokens for answer in answers)
        forwards += sum(answer.stats.forwards for answer in answers)
    return {
        "macro": sum(accuracy.values()) / len(accuracy),
        "tokens_per_forward": tokens / forwards,
        "accuracy": accuracy,
    }


def markdown(results: dict[str, dict], per_kind: int) -> str:
    """The results as a table, one column a setting."""
    names = list(results)
    lines = [f"| n = {per_kind} a kind | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]

    def row(name: str, values: list[float], form: str) -> str:
        return f"| {name} | " + " | ".join(format(value, form) for value in values) + " |"

    lines.append(row("**mean accuracy**", [results[name]["macro"] for name in names], ".3f"))
    lines.append(row("**tokens per forward**", [results[name]["tokens_per_forward"] for name in names], ".2f"))
    kinds = results[names[0]]["accuracy"]
    lines += [row(kind.replace("_", " "), [results[name]["accuracy"][kind] for name in names], ".2f") for kind in kinds]
    return "\n".join(lines)


def by_rule(results: dict[str, dict], per_kind: int) -> str:
    """The results as a table, one row a rule."""
    lines = [f"| rule, n = {per_kind} a kind | tokens per forward | mean accuracy |", "|---|---|---|"]
    for rule, result in results.items():
        lines.append(f"| `{rule}` | {result['tokens_per_forward']:.2f} | {result['macro']:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Print one JSON line a setting, or a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="unmask-tiny")
    parser.add_argument("--per-kind", type=int, default=100)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--rules", nargs="+", default=[])
    arguments = parser.parse_args()
    llm = unmask.LLM(arguments.model, threads=arguments.threads, max_running=64)
    kinds = load(arguments.per_kind)
    settings = {rule: {"rule": rule} for rule in arguments.rules} or SETTINGS
    results = {name: measure(llm, kinds, options) for name, options in settings.items()}
    if arguments.rules:
        print(by_rule(results, arguments.per_kind))
    elif arguments.markdown:
        print(markdown(results, arguments.per_kind))
    else:
        for name, result in results.items():
            print(json.dumps({"setting": name, **result}))


if __name__ == "__main__":
    main()
