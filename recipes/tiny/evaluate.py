"""Exact-match accuracy on held-out prompts: ``python -m recipes.tiny.evaluate runs/tiny --n 100``.

Reads a run (``state.pt``) or an exported folder (``model.safetensors``) and writes ``eval.json`` into it.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from .decode import Answer, decode
from .model import Shape, TinyModel
from .tasks import TASKS, Sample, draw

SETTINGS = {"one_token_per_step": 2.0, "threshold_0.9": 0.9}


def held_out(n: int, seed: int, kinds: list[str]) -> list[Sample]:
    """``n`` different held-out prompts of each task, at full difficulty."""
    samples: list[Sample] = []
    for kind in kinds:
        rng, seen = Random(f"{seed}/{kind}"), dict[str, Sample]()
        for _ in range(50 * n):
            sample = draw(rng, kind, split="held_out")
            seen.setdefault(sample.prompt(), sample)
            if len(seen) == n:
                break
        samples += seen.values()
    return samples


def load(folder: Path) -> tuple[TinyModel, Tokenizer]:
    """The averaged weights of a run, or the weights of an exported folder."""
    weights: dict[str, Tensor]
    model = TinyModel(Shape())
    if (folder / "model.safetensors").exists():
        weights = load_file(folder / "model.safetensors")
    else:
        state: dict[str, Any] = torch.load(folder / "state.pt", weights_only=True)
        names = [name for name, _ in model.named_parameters()]
        weights = dict(zip(names, state["optimiser"]["average"], strict=True))
    model.load_state_dict(weights)
    return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))


def answer_all(
    model: TinyModel, tokenizer: Tokenizer, samples: list[Sample], threshold: float, block_size: int
) -> list[Answer]:
    """Decode every sample, those with prompts of equal length together."""
    prompts = [tokenizer.encode(sample.prompt()).ids for sample in samples]
    groups: dict[int, list[int]] = defaultdict(list)
    for i, prompt in enumerate(prompts):
        groups[len(prompt)].append(i)
    answers: dict[int, Answer] = {}
    for group in track(groups.values(), "decoding", transient=True, console=Console(stderr=True)):
        found = decode(model, [prompts[i] for i in group], threshold=threshold, block_size=block_size)
        answers.update(zip(group, found, strict=True))
    return [answers[i] for i in range(len(samples))]


def measure(
    model: TinyModel, tokenizer: Tokenizer, samples: list[Sample], threshold: float, block_size: int = 16
) -> dict[str, Any]:
    """Accuracy per task and tokens per forward of one setting, with a few mistakes to look at."""
    answers = answer_all(model, tokenizer, samples, threshold, block_size)
    right: dict[str, list[bool]] = defaultdict(list)
    mistakes: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for sample, answer in zip(samples, answers, strict=True):
        text = tokenizer.decode(answer.tokens)
        correct = answer.ended and sample.correct(text)
        right[sample.kind].append(correct)
        if not correct:
            mistakes[sample.kind].append((sample.question, sample.answer, text))
    accuracy = {kind: round(sum(hits) / len(hits), 4) for kind, hits in right.items()}
    tokens, forwards = sum(len(a.tokens) for a in answers), sum(a.forwards for a in answers)
    return {
        "macro": round(sum(accuracy.values()) / len(accuracy), 4),
        "tokens_per_forward": round(tokens / forwards, 3),
        "forwards_per_answer": round(forwards / len(answers), 2),
        "accuracy": accuracy,
        "n": {kind: len(hits) for kind, hits in right.items()},
        "mistakes": {kind: found[:4] for kind, found in mistakes.items()},
    }


def report(results: dict[str, dict[str, Any]]) -> str:
    """A table for the terminal."""
    names = list(results)
    rows = [(kind, [results[name]["accuracy"][kind] for name in names]) for kind in results[names[0]]["accuracy"]]
    rows += [(key[:14], [results[name][key] for name in names]) for key in ("macro", "tokens_per_forward")]
    lines = [f"{'task':14}" + "".join(f"{name:>20}" for name in names)]
    lines += [f"{label:14}" + "".join(f"{value:20.3f}" for value in values) for label, values in rows]
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--n", type=int, default=100, help="held-out prompts per task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--kinds", nargs="*", default=list(TASKS))
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--mistakes", action="store_true", help="print some wrong answers")
    parser.add_argument("--save", type=Path, help="where to write (default: eval.json in the folder)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(args.folder)
    samples = held_out(args.n, args.seed, args.kinds)
    results = {name: measure(model, tokenizer, samples, SETTINGS[name], args.block_size) for name in args.settings}
    print(report(results))
    if args.mistakes:
        for kind, found in results[args.settings[0]]["mistakes"].items():
            for question, expected, got in found:
                print(f"[{kind}] {question!r}\n   expected {expected!r}\n   got      {got!r}")
    path = args.save or args.folder / "eval.json"
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
