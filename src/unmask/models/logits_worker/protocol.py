"""What is said to a process that gives logits: llama.cpp's pull request 24423, ``llama-diffusion-gemma-server MODEL``.

It says ``READY VOCABULARY`` once the model is loaded. A request is a line with the path of a file, which holds int32
P and C, where the model remembers its last logits int32 USE and float32 TEMPERATURE, then P + C int32 tokens, the
canvas last. The answer is C * VOCABULARY float32 in the file of that path and ``.resp``, and a line ``OK C``; or a line
``ERR REASON``. With USE 1 the canvas is conditioned on the logits of the request before, divided by the temperature
that stood in that one. ``QUIT``, or the end of input, ends it. (Checked against the source of the pull request.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_PATH_BYTES = 3900  # of a folder: the buffer for a line holds 4096


@dataclass(frozen=True, slots=True)
class Question:
    """One forward: ``tokens`` int32 [P + C], of which the last ``canvas`` are the canvas.

    ``temperature``, in models that remember their last logits: what divides these here once they are remembered; None
    in others. ``conditioned``: those of the question before are to be used.
    """

    tokens: NDArray[np.int32]
    canvas: int
    temperature: float | None = None
    conditioned: bool = False

    def as_bytes(self) -> bytes:
        """The file of the request."""
        head = struct.pack("=ii", len(self.tokens) - self.canvas, self.canvas)
        if self.temperature is not None:
            head += struct.pack("=if", self.conditioned, self.temperature)
        return head + np.ascontiguousarray(self.tokens, dtype=np.int32).tobytes()


def vocabulary_of(line: str) -> int | None:
    """The vocabulary's size that a process says when it is ready; None if ``line`` says something else."""
    word, _, number = line.partition(" ")
    return int(number) if word == "READY" and number.isascii() and number.isdigit() else None


def answered(line: str, question: Question) -> bool:
    """Whether ``line`` says that the logits are there."""
    return line == f"OK {question.canvas}"


def refused(line: str) -> str | None:
    """The reason for which a process gives no logits; None if ``line`` says something else."""
    return line.removeprefix("ERR ") if line.startswith("ERR ") else None
