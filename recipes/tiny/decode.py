"""A reference decoder, written to be read and to be compared with: no engine code in it.

Prompts of equal length are decoded together. A block is denoised against the cached keys and values of
everything before it. A step commits the most probable hidden token of the block (``threshold`` above 1), or
every hidden token whose probability reaches the threshold, and at least the best one.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .model import TinyModel, rotate
from .tokenizer import END, MASK

Cache = list[tuple[Tensor, Tensor]]


@dataclass(slots=True)
class Answer:
    """What one prompt led to."""

    tokens: list[int]
    forwards: int
    ended: bool


def forward(model: TinyModel, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
    """Logits of one bidirectional block that also sees ``cache``, and the cache with this block added."""
    start = cache[0][0].shape[2] if cache else 0
    rows, length = tokens.shape
    x: Tensor = model.transformer.wte(tokens)
    cos, sin = (t[start : start + length].unsqueeze(1) for t in (model.cos, model.sin))
    grown: Cache = []
    for i, block in enumerate(model.transformer.stack()):
        h = block.attn_norm(x)
        split = (rows, length, model.shape.n_heads, -1)
        q = rotate(block.q_proj(h).view(split), cos, sin).transpose(1, 2)
        k = rotate(block.k_proj(h).view(split), cos, sin).transpose(1, 2)
        v = block.v_proj(h).view(split).transpose(1, 2)
        if cache:
            k, v = torch.cat((cache[i][0], k), 2), torch.cat((cache[i][1], v), 2)
        grown.append((k, v))
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = block.feed(x + block.attn_out(mixed.transpose(1, 2).reshape(rows, length, -1)))
    return model.transformer.logits(x), grown


def end_of(block: list[int]) -> int | None:
    """Where the text ends: the first end token, if everything left of it is decided."""
    for i, token in enumerate(block):
        if token == MASK:
            return None
        if token == END:
            return i
    return None


def commit(logits: Tensor, block: Tensor, threshold: float) -> Tensor:
    """Fill in the best hidden token of each row, and all that reach the threshold."""
    logits[..., MASK] = float("-inf")
    probability, token = logits.softmax(-1).max(-1)
    probability = probability.masked_fill(block != MASK, -1.0)
    chosen = probability >= threshold
    chosen[torch.arange(len(block)), probability.argmax(-1)] = True
    return torch.where(chosen & (block == MASK), token, block)


@torch.inference_mode()
def decode(
    model: TinyModel,
    prompts: list[list[int]],
    *,
    block_size: int = 16,
    threshold: float = 2.0,
    max_blocks: int = 8,
) -> list[Answer]:
    """Answer prompts that all have the same length."""
    answers = [Answer([], 0, False) for _ in prompts]
    alive = torch.arange(len(prompts))
    _, cache = forward(model, torch.tensor(prompts), [])
    for _ in range(max_blocks):
        block = torch.full((len(alive), block_size), MASK)
        busy = torch.arange(len(alive))
        while len(busy):
            logits, _ = forward(model, block[busy], [(k[busy], v[busy]) for k, v in cache])
            block[busy] = commit(logits, block[busy], threshold)
            waiting = []
            for i in busy.tolist():
                answer, tokens = answers[alive[i]], block[i].tolist()
                answer.forwards += 1
                end = end_of(tokens)
                if end is not None:
                    answer.tokens += tokens[:end]
                    answer.ended = True
                elif MASK in tokens:
                    waiting.append(i)
                else:
                    answer.tokens += tokens
            busy = torch.tensor(waiting, dtype=torch.long)
        open_rows = [i for i, row in enumerate(alive.tolist()) if not answers[row].ended]
        if not open_rows:
            break
        going = torch.tensor(open_rows)
        alive = alive[going]
        _, cache = forward(model, block[going], [(k[going], v[going]) for k, v in cache])
    return answers
