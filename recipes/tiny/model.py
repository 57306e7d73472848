"""The training model: a LLaDA-named transformer whose attention mask is given from outside."""

from dataclasses import asdict, dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the network."""

    d_model: int = 128
    n_heads: int = 4
    n_layers: int = 6
    mlp_hidden_size: int = 384
    vocab_size: int = 1024
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    max_sequence_length: int = 1024

    def as_dict(self) -> dict[str, float]:
        """The sizes under the names of ``config.json``."""
        return asdict(self)


def rope_tables(shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position, one column per rotated pair."""
    half = shape.d_model // shape.n_heads // 2
    frequency = shape.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(shape.max_sequence_length, dtype=torch.float64)[:, None] * frequency
    return angle.cos().float(), angle.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Half-split rotation of ``x`` [rows, length, heads, head size]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    """Attention and a gated MLP, both behind an RMS norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d, hidden = shape.d_model, shape.mlp_hidden_size
        self.heads = shape.n_heads
        self.attn_norm = nn.RMSNorm(d, shape.rms_norm_eps)
        self.ff_norm = nn.RMSNorm(d, shape.rms_norm_eps)
        self.q_proj = nn.Linear(d, d, bias=False)
        self.k_proj = nn.Linear(d, d, bias=False)
        self.v_proj = nn.Linear(d, d, bias=False)
        self.attn_out = nn.Linear(d, d, bias=False)
        self.ff_proj = nn.Linear(d, hidden, bias=False)
        self.up_proj = nn.Linear(d, hidden, bias=False)
        self.ff_out = nn.Linear(hidden, d, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        """The attention half on ``x`` [rows, length, d]; ``bias`` is added to the scores."""
        rows, length, d = x.shape
        h = self.attn_norm(x)
        split = (rows, length, self.heads, d // self.heads)
        q = rotate(self.q_proj(h).view(split), cos, sin).transpose(1, 2)
        k = rotate(self.k_proj(h).view(split), cos, sin).transpose(1, 2)
        v = self.v_proj(h).view(split).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        out: Tensor = self.attn_out(mixed.transpose(1, 2).reshape(rows, length, d))
        return x + out

    def feed(self, x: Tensor) -> Tensor:
        """The MLP half, position by position."""
        h = self.ff_norm(x)
        out: Tensor = self.ff_out(F.silu(self.ff_proj(h)) * self.up_proj(h))
        return x + out


class Transformer(nn.Module):
    """Embedding, blocks, final norm and head, under their published names."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.wte = nn.Embedding(shape.vocab_size, shape.d_model)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.n_layers))
        self.ln_f = nn.RMSNorm(shape.d_model, shape.rms_norm_eps)
        self.ff_out = nn.Linear(shape.d_model, shape.vocab_size, bias=False)

    def stack(self) -> list[Block]:
        """The blocks, first to last."""
        return cast("list[Block]", list(self.blocks))

    def logits(self, x: Tensor) -> Tensor:
        """What the last block's output says about each token of the vocabulary."""
        return cast("Tensor", self.ff_out(self.ln_f(x)))


class TinyModel(nn.Module):
    """The network; its ``state_dict`` carries the published tensor names."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = nn.ModuleDict({"transformer": Transformer(shape)})
        cos, sin = rope_tables(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    @property
    def transformer(self) -> Transformer:
        """The part that holds all weights."""
        return cast("Transformer", self.model["transformer"])

    def forward(self, tokens: Tensor, positions: Tensor, allowed: Tensor, wanted: Tensor) -> Tensor:
        """Logits of the ``wanted`` positions only: [number of wanted, vocabulary].

        ``allowed`` [rows, length, length] says which keys each query may see.
        """
        x = self.transformer.wte(tokens)
        cos, sin = self.cos[positions].unsqueeze(2), self.sin[positions].unsqueeze(2)
        bias = torch.zeros(allowed.shape).masked_fill_(~allowed, float("-inf")).unsqueeze(1)
        *early, last = self.transformer.stack()
        for block in early:
            x = block.feed(block.attend(x, cos, sin, bias))
        x = last.feed(last.attend(x, cos, sin, bias)[wanted])
        return self.transformer.logits(x)
