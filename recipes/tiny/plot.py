"""Draw a run: ``python -m recipes.tiny.plot runs/tiny --to recipes/tiny``."""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

SHOWN = (
    "arithmetic", "chain", "word_problem", "sort", "reverse", "letters", "code", "knowledge", "small_talk",
)  # fmt: skip


def smooth(values: list[float], weight: float = 0.8) -> list[float]:
    """A running mean."""
    out, mean = [], values[0]
    for value in values:
        mean = weight * mean + (1 - weight) * value
        out.append(mean)
    return out


def loss_plot(log: list[dict[str, Any]], path: Path) -> None:
    """Training loss, whole and per task, against CPU-seconds."""
    cpu = [line["cpu_seconds"] for line in log]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    left.plot(cpu, [line["loss"] for line in log], color="0.8", linewidth=0.8)
    left.plot(cpu, smooth([line["loss"] for line in log]), color="tab:blue")
    left.set_title("loss of hidden tokens")
    for kind in SHOWN:
        right.plot(cpu, smooth([line["kinds"][kind] for line in log]), label=kind, linewidth=1)
    right.set_title("by task")
    right.legend(fontsize=7, ncols=2)
    for axis in (left, right):
        axis.set_yscale("log")
        axis.set_xlabel("CPU-seconds")
        axis.grid(alpha=0.3, which="both")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def accuracy_plot(results: dict[str, Any], path: Path) -> None:
    """Held-out accuracy per task, one bar per decoding setting."""
    names = list(results)
    kinds = list(results[names[0]]["accuracy"])
    figure, axis = plt.subplots(figsize=(11, 4))
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        found = results[name]
        label = f"{name}: macro {found['macro']:.3f}, {found['tokens_per_forward']:.2f} tokens per forward"
        places = [j + (i - (len(names) - 1) / 2) * width for j in range(len(kinds))]
        axis.bar(places, [found["accuracy"][kind] for kind in kinds], width, label=label)
    axis.set_xticks(range(len(kinds)), kinds, rotation=40, ha="right")
    axis.set_ylabel("exact match, held out")
    axis.set_ylim(0, 1.12)
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize=8, loc="upper left", ncols=len(names))
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a run with log.jsonl and eval.json")
    parser.add_argument("--to", type=Path, help="where to put loss.png and accuracy.png")
    args = parser.parse_args()
    to = args.to or args.folder
    lines = (args.folder / "log.jsonl").read_text().splitlines()
    loss_plot([json.loads(line) for line in lines], to / "loss.png")
    evaluation = args.folder / "eval.json"
    if evaluation.exists():
        accuracy_plot(json.loads(evaluation.read_text()), to / "accuracy.png")


if __name__ == "__main__":
    main()
