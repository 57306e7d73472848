"""Train ``unmask-tiny`` from scratch: ``python -m recipes.tiny.train --out runs/tiny --minutes 120``.

Two single-threaded processes share each step. The run is seeded, saves itself every two minutes, and goes on
from its last save when started again. The learning rate follows the used share of ``--minutes``, so the end of
a run can be moved when it is taken up again.
"""

import argparse
import json
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rich.progress import Progress, TextColumn, TimeRemainingColumn
from tokenizers import Tokenizer
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from . import tokenizer as vocabulary
from .init import initialise
from .model import Shape, TinyModel
from .optim import Optimiser
from .rows import Batch, Row, build_row, collate
from .tasks import MIXTURE, decorate, draw, mixture

KINDS = list(MIXTURE)
LOG_EVERY = 20


@dataclass(frozen=True)
class Settings:
    """What a run needs to know."""

    out: Path
    minutes: float = 120.0
    seed: int = 0
    workers: int = 2
    tokens: int = 2200
    muon_lr: float = 0.01
    adam_lr: float = 0.002
    decay_from: float = 0.2
    ema: float = 0.998
    save_seconds: float = 120.0
    stop_after: float = float("inf")


@dataclass
class Counters:
    """How far a run has come."""

    step: int = 0
    samples: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def learning_rate(progress: float, step: int, decay_from: float) -> float:
    """A short warm-up, a plateau, and a straight line down to zero."""
    return min(1.0, (step + 1) / 60) * min(1.0, max(0.0, (1 - progress) / (1 - decay_from)))


def make_rows(
    tokenizer: Tokenizer, settings: Settings, step: int, rank: int, progress: float, weights: dict[str, float]
) -> list[Row]:
    """The rows of one process in one step: a function of the seed and of how far the run has come."""
    rng = random.Random(f"{settings.seed}/{step}/{rank}")
    noise = np.random.default_rng([settings.seed, step, rank])
    difficulty = min(1.0, 0.25 + progress / 0.3)
    kinds, shares = list(weights), list(weights.values())
    rows: list[Row] = []
    used = 0
    while used < settings.tokens:
        kind = rng.choices(kinds, shares)[0]
        sample = decorate(rng, draw(rng, kind, difficulty))
        prompt, answer = (e.ids for e in tokenizer.encode_batch([sample.prompt(), sample.answer]))
        block = rng.choices((16, 32, 8), (78, 14, 8))[0]
        pipelined = rng.random() < (0.3 if len(answer) >= block else 0.05)
        row = build_row(
            noise, prompt, answer, KINDS.index(kind),
            block_size=block, pipelined=pipelined, gentle=progress < 0.06 and rng.random() < 0.7,
        )  # fmt: skip
        rows.append(row)
        used += len(row.tokens)
    return rows


def batches(rows: list[Row], area: int = 700) -> list[Batch]:
    """Cut rows, shortest first, into batches of little padding."""
    groups: list[list[Row]] = [[]]
    for row in sorted(rows, key=lambda r: len(r.tokens)):
        if groups[-1] and (len(groups[-1]) + 1) * len(row.tokens) > area:
            groups.append([])
        groups[-1].append(row)
    return [collate(group) for group in groups]


def losses(model: TinyModel, batch: Batch) -> Tensor:
    """Cross-entropy of every hidden token."""
    logits = model(batch.tokens, batch.positions, batch.allowed, batch.wanted)
    return F.cross_entropy(logits, batch.target, reduction="none")


class Run:
    """One process of a run."""

    def __init__(self, settings: Settings, rank: int) -> None:
        self.settings, self.rank = settings, rank
        self.tokenizer = vocabulary.load(settings.out / "tokenizer.json")
        self.model = TinyModel(Shape())
        initialise(self.model, self.tokenizer.get_vocab(), settings.seed)
        self.optimiser = Optimiser(self.model, rank, settings.workers, settings.muon_lr, settings.adam_lr, settings.ema)
        self.counters = Counters()
        self.kind_loss, self.kind_count = torch.zeros(len(KINDS)), torch.zeros(len(KINDS))
        self.grad = torch.zeros(sum(p.numel() for p in self.model.parameters()) + 4)
        self.resume()

    def resume(self) -> None:
        """Go on from the last save, if there is one."""
        path = self.settings.out / "state.pt"
        if path.exists():
            state: dict[str, Any] = torch.load(path, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.counters = Counters(**state["counters"])

    def save(self) -> None:
        """Write the state; a crash in the middle leaves the older one."""
        path = self.settings.out / "state.pt"
        state = {
            "model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(),
            "counters": vars(self.counters), "shape": self.model.shape.as_dict(),
        }  # fmt: skip
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def step(self, progress: float, seconds: float) -> tuple[float, float]:
        """One update. Returns the mean loss and the clock of the first process."""
        rows = make_rows(self.tokenizer, self.settings, self.counters.step, self.rank, progress, mixture(progress))
        self.model.zero_grad(set_to_none=True)
        total = weight = 0.0
        for batch in batches(rows):
            each = losses(self.model, batch)
            loss = (each * batch.weight).sum()
            torch.autograd.backward(loss)
            total += loss.item()
            weight += batch.weight.sum().item()
            self.kind_loss.index_add_(0, batch.kind, each.detach() * batch.weight)
            self.kind_count.index_add_(0, batch.kind, batch.weight)
        used = sum(len(row.tokens) for row in rows)
        self.share_gradients(total, weight, seconds, len(rows))
        mean_loss = (self.grad[-4] / self.grad[-3]).item()
        self.optimiser.step(learning_rate(progress, self.counters.step, self.settings.decay_from))
        self.counters.step += 1
        self.counters.samples += round(self.grad[-1].item())
        self.counters.tokens += used * self.settings.workers
        return mean_loss, self.grad[-2].item()

    def share_gradients(self, total: float, weight: float, seconds: float, rows: int) -> None:
        """Sum gradients and counters over the processes, then divide by the summed weight."""
        parameters = list(self.model.parameters())
        views = torch.split(self.grad[:-4], [p.numel() for p in parameters])
        for p, view in zip(parameters, views, strict=True):
            view.copy_(torch.zeros(p.numel()) if p.grad is None else p.grad.reshape(-1))
        self.grad[-4:] = torch.tensor([total, weight, seconds if self.rank == 0 else 0.0, rows])
        if self.settings.workers > 1:
            dist.all_reduce(self.grad)
        self.grad[:-4] /= self.grad[-3]
        for p, view in zip(parameters, views, strict=True):
            p.grad = view.view(p.shape)

    def log(self, loss: float, progress: float) -> None:
        """Write a line to ``log.jsonl``."""
        by_kind = (self.kind_loss / self.kind_count.clamp(min=1)).tolist()
        self.kind_loss.zero_()
        self.kind_count.zero_()
        line = {
            "loss": round(loss, 4), "progress": round(progress, 4), **vars(self.counters),
            "kinds": {k: round(v, 3) for k, v in zip(KINDS, by_kind, strict=True)},
        }  # fmt: skip
        with (self.settings.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def train(self, bar: Progress) -> None:
        """Until the minutes are used up."""
        counters, budget = self.counters, self.settings.minutes * 60
        started, cpu_started = time.monotonic() - counters.seconds, time.process_time()
        cpu_before, stop = counters.cpu_seconds, counters.seconds + self.settings.stop_after
        saved, recent = time.monotonic(), list[float]()
        task = bar.add_task("training", total=budget, completed=round(counters.seconds), loss=0.0, cpu=0)
        while counters.seconds < min(budget, stop):
            progress = counters.seconds / budget
            loss, counters.seconds = self.step(progress, time.monotonic() - started)
            recent.append(loss)
            if self.rank > 0 or counters.step % LOG_EVERY:
                continue
            counters.cpu_seconds = cpu_before + (time.process_time() - cpu_started) * self.settings.workers
            mean = sum(recent) / len(recent)
            recent.clear()
            self.log(mean, progress)
            bar.update(task, completed=counters.seconds, loss=mean, cpu=round(counters.cpu_seconds))
            if time.monotonic() - saved > self.settings.save_seconds:
                self.save()
                saved = time.monotonic()
        if self.rank == 0:
            self.save()


def progress_bar(rank: int) -> Progress:
    """Loss, CPU-seconds and time left; silent in all processes but the first."""
    columns = ("loss {task.fields[loss]:.3f}", "{task.fields[cpu]} CPU-s", "{task.percentage:.0f} %")
    return Progress(
        *Progress.get_default_columns()[:2],
        *map(TextColumn, columns),
        TimeRemainingColumn(),
        disable=rank > 0,
    )


def work(rank: int, settings: Settings) -> None:
    """Body of one process."""
    torch.set_num_threads(1)
    if settings.workers > 1:
        dist.init_process_group("gloo", rank=rank, world_size=settings.workers)
    with progress_bar(rank) as bar:
        Run(settings, rank).train(bar)
    if settings.workers > 1:
        dist.destroy_process_group()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; an existing run goes on")
    parser.add_argument("--minutes", type=float, default=Settings.minutes, help="length of the whole run")
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="pause after so many seconds")
    parser.add_argument("--workers", type=int, default=Settings.workers)
    parser.add_argument("--tokens", type=int, default=Settings.tokens, help="row tokens per process and step")
    parser.add_argument("--muon-lr", type=float, default=Settings.muon_lr)
    parser.add_argument("--seed", type=int, default=0)
    settings = Settings(**vars(parser.parse_args()))
    vocabulary.load(settings.out / "tokenizer.json")
    os.environ.update(
        OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(29_500 + os.getpid() % 1000),
    )  # fmt: skip
    if settings.workers == 1:
        work(0, settings)
    else:
        spawn(work, args=(settings,), nprocs=settings.workers)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
