"""What a task is: a named generator of questions with one right answer."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

HELD_OUT_SHARE = 20
"""One prompt in this many is held out, chosen by its hash."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation that ends in a question, and the answer to it."""

    kind: str
    question: str
    answer: str
    history: tuple[tuple[str, str], ...] = ()
    system: str | None = None

    def prompt(self) -> str:
        """Render everything before the answer, special tokens included."""
        parts = ["<|startoftext|>"]
        if self.system is not None:
            parts.append(f"<|system|>{self.system}")
        for question, answer in self.history:
            parts.append(f"<|user|>{question}<|assistant|>{answer}<|eot|>")
        parts.append(f"<|user|>{self.question}<|assistant|>")
        return "".join(parts)

    def messages(self) -> list[dict[str, str]]:
        """The same conversation in the chat layout of common APIs."""
        out = [] if self.system is None else [{"role": "system", "content": self.system}]
        for question, answer in self.history:
            out += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return [*out, {"role": "user", "content": self.question}]

    def held_out(self) -> bool:
        """Whether this prompt belongs to the test split and is never trained on."""
        digest = hashlib.sha256(self.prompt().encode()).digest()
        return int.from_bytes(digest[:8], "big") % HELD_OUT_SHARE == 0

    def correct(self, text: str) -> bool:
        """Exact match: the only metric of this recipe."""
        return text == self.answer


Generator = Callable[[Random, float], Sample]
"""Draws a sample; the float is the difficulty, from 0 (short, small) to 1 (as tested)."""


def upto(rng: Random, low: int, high: int, difficulty: float) -> int:
    """A size between ``low`` and ``high``, whose upper end grows with the difficulty."""
    return rng.randint(low, low + round((high - low) * difficulty))
