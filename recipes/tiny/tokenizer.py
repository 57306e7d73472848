"""A byte-level BPE of 1,024 tokens in which every whole number up to 100 is one token.

Words are learned from the tasks themselves, with the digits taken out; numbers get fixed merges, with and
without a leading space, so that a sum is a fact about three tokens and not a procedure over digits.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .tasks import MIXTURE, draw

SPECIALS = (
    "<|endoftext|>", "<|startoftext|>", "<|user|>", "<|assistant|>", "<|eot|>", "<|system|>", "<|mdm_mask|>",
)  # fmt: skip
END, MASK = 0, 6
SPACE = "Ġ"
"""How byte-level tokenizers write a space."""


def corpus(samples: int, seed: int) -> Iterator[str]:
    """Questions and answers of the training mixture."""
    rng = Random(seed)
    kinds, weights = list(MIXTURE), [w**0.5 for w in MIXTURE.values()]
    for _ in range(samples):
        sample = draw(rng, rng.choices(kinds, weights)[0])
        yield sample.question
        yield sample.answer
    for word in "abcdefghijklmnopqrstuvwxyz":
        yield from [f" {word}"] * samples


def number_merges() -> list[tuple[str, str]]:
    """Merges that build ``0`` to ``100`` and the same with a leading space, in an unambiguous order."""
    digits = "0123456789"
    merges = [(SPACE, a) for a in digits]
    merges += [(SPACE + a, b) for a in digits[1:] for b in digits]
    merges += [(SPACE + "10", "0")]
    merges += [(a, b) for a in digits[1:] for b in digits]
    return [*merges, ("10", "0")]


def train(size: int = 1024, samples: int = 60_000, seed: int = 0) -> Tokenizer:
    """Learn the word merges and put the number merges before them."""
    numbers = number_merges()
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(numbers) - len(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator((re.sub(r" ?[0-9]+", "", text) for text in corpus(samples, seed)), trainer)
    model = json.loads(learned.to_str())["model"]
    by_id = sorted(model["vocab"], key=model["vocab"].__getitem__)
    words = [tuple(merge) for merge in model["merges"]]
    names = [*SPECIALS, *by_id[:256], *(a + b for a, b in numbers), *by_id[256:]]
    merged = models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[*numbers, *words])
    tokenizer = Tokenizer(merged)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(" ?[0-9]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


def load(path: Path) -> Tokenizer:
    """Read a tokenizer, or train it once and write it there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train().save(str(path))
    return Tokenizer.from_file(str(path))
