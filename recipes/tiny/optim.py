"""Muon for the matrices inside the blocks, AdamW for everything else, and an average of the weights."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(x: Tensor) -> Tensor:
    """Newton-Schulz iteration on a stack of wide matrices: push all singular values towards one."""
    a, b, c = COEFFICIENTS
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


class Muon:
    """Momentum whose update is orthogonalised; the processes share the matrices between them."""

    def __init__(self, parameters: list[nn.Parameter], rank: int, world: int, momentum: float = 0.95) -> None:
        self.momentum = momentum
        self.rank, self.world = rank, world
        self.velocity = [torch.zeros_like(p) for p in parameters]
        self.stacks: dict[tuple[int, int], list[int]] = {}
        self.parameters = parameters
        for i, p in enumerate(parameters):
            rows, columns = sorted(p.shape)
            self.stacks.setdefault((rows, columns), []).append(i)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Apply one update with learning rate ``lr``."""
        for p, v in zip(self.parameters, self.velocity, strict=True):
            if p.grad is None:
                raise ValueError("a matrix has no gradient")
            v.lerp_(p.grad, 1 - self.momentum)
        flat = torch.zeros(sum(p.numel() for p in self.parameters))
        views = torch.split(flat, [p.numel() for p in self.parameters])
        for indices in self.stacks.values():
            mine = indices[self.rank :: self.world]
            stack = torch.stack([self.wide(self.nesterov(i)) for i in mine])
            for i, update in zip(mine, orthogonalise(stack), strict=True):
                p = self.parameters[i]
                views[i].copy_((update.mT if p.shape[0] > p.shape[1] else update).reshape(-1))
        if self.world > 1:
            dist.all_reduce(flat)
        for p, view in zip(self.parameters, views, strict=True):
            p.sub_(view.view(p.shape), alpha=lr * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)

    def nesterov(self, i: int) -> Tensor:
        """The gradient, pulled towards its running mean."""
        grad = self.parameters[i].grad
        if grad is None:
            raise ValueError("a matrix has no gradient")
        return grad.lerp(self.velocity[i], self.momentum)

    @staticmethod
    def wide(x: Tensor) -> Tensor:
        """Turn a tall matrix on its side."""
        return x.mT if x.shape[0] > x.shape[1] else x


class Optimiser:
    """Both optimisers and the weight average behind one ``step``."""

    def __init__(self, model: nn.Module, rank: int, world: int, muon_lr: float, adam_lr: float, decay: float) -> None:
        named = list(model.named_parameters())
        inner = [p for name, p in named if ".blocks." in name and p.ndim == 2]
        outer = [p for name, p in named if not (".blocks." in name and p.ndim == 2)]
        self.muon = Muon(inner, rank, world)
        self.adam = torch.optim.AdamW(outer, lr=adam_lr, betas=(0.9, 0.98), weight_decay=0.0, foreach=True)
        self.muon_lr, self.adam_lr, self.decay = muon_lr, adam_lr, decay
        self.names = [name for name, _ in named]
        self.all: list[Tensor] = [p for _, p in named]
        self.average = [p.detach().clone() for p in self.all]
        self.steps = 0

    @torch.no_grad()
    def step(self, scale: float) -> None:
        """One update at ``scale`` times the base learning rates."""
        self.muon.step(self.muon_lr * scale)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * scale
        self.adam.step()
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        torch._foreach_lerp_(self.average, self.all, 1 - decay)

    def averaged(self) -> dict[str, Tensor]:
        """The averaged weights by name: these are evaluated and shipped."""
        return dict(zip(self.names, self.average, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""
        return {
            "velocity": self.muon.velocity, "adam": self.adam.state_dict(),
            "average": self.average, "steps": self.steps,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a saved state."""
        self.adam.load_state_dict(state["adam"])
        self.steps = state["steps"]
        for own, saved in ((self.muon.velocity, state["velocity"]), (self.average, state["average"])):
            for mine, value in zip(own, saved, strict=True):
                mine.copy_(value)
