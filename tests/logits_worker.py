"""A program that gives logits as llama.cpp's pull request 24423 does, computed by the models of Unmask.

Run as ``python -m tests.logits_worker MODEL``. It is written against the protocol alone, and builds its own masks.
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unmask.models.base import AttentionGroup, SelfConditionedModel, StepContext
from unmask.models.load import load_model


@dataclass
class Remembering:
    """Computes canvases, and remembers the logits of the last."""

    model: SelfConditionedModel
    logits: torch.Tensor | None = None
    temperature: float = 1.0

    @torch.inference_mode()
    def canvas(self, tokens: torch.Tensor, prefix: int, conditioned: bool, temperature: float | None) -> torch.Tensor:
        """Logits [C, V] of all but the first ``prefix`` of ``tokens``."""
        count, renoises = len(tokens), self.model.spec.denoiser == "renoise"
        slots, cache = torch.arange(count), self.model.new_cache(count)
        is_canvas = slots >= prefix
        if conditioned:
            self.model.remember(cache, slots[prefix:], self.logits / self.temperature)
        masks = _masks(self.model, prefix, count) if renoises else (None, None)
        step = StepContext(tokens, slots, slots, [AttentionGroup(slice(0, count), slice(0, count), *masks)])
        if renoises:
            step.canvas, step.conditioned = is_canvas, is_canvas & conditioned
        logits = self.model.head(self.model.forward(step, cache)[prefix:])
        if renoises:
            self.logits, self.temperature = logits.clone(), temperature or 1.0
        return logits


def _masks(model, prefix: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Who sees whom, in all layers and in those that slide: the prefix causal, the canvas everything."""
    rows, keys = torch.arange(count)[:, None], torch.arange(count)[None]
    seen = torch.where(rows < prefix, keys <= rows, True)
    width = model.spec.shape.sliding_window
    recent = seen & (keys > torch.minimum(rows, torch.tensor(prefix)) - width)
    return seen[None, None], recent[None, None]


def main() -> None:
    model_path, most = sys.argv[1], int(os.environ["MAXTOK"])
    torch.set_num_threads(1)
    model = load_model(model_path, device="cpu")
    memory = Remembering(model)
    print("a backend says hello")
    print(f"logits of {Path(model_path).name}, NGL {os.environ.get('NGL')}", file=sys.stderr, flush=True)
    vocab = model.spec.shape.vocab
    print(f"READY {vocab}", flush=True)
    for line in sys.stdin:
        if line.strip() == "QUIT":
            break
        print(_serve(memory, Path(line.strip()), most), flush=True)


def _serve(memory: Remembering, path: Path, most: int) -> str:
    data = path.read_bytes()
    prefix, canvas = struct.unpack_from("=ii", data)
    count, conditioned, temperature, head = prefix + canvas, False, None, 8
    if len(data) == 16 + 4 * count:
        conditioned, temperature = struct.unpack_from("=if", data, 8)
        head = 16
    elif len(data) != 8 + 4 * count:
        return f"ERR badsize {count} {len(data) // 4}"
    if not 0 < count <= most:
        return f"ERR badN {count}"
    tokens = torch.from_numpy(np.frombuffer(data, np.int32, count, head).astype(np.int64))
    logits = memory.canvas(tokens, prefix, bool(conditioned), temperature)
    Path(f"{path}.resp").write_bytes(logits.numpy().tobytes())
    return f"OK {canvas}"


if __name__ == "__main__":
    main()
