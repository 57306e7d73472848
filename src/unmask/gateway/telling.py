"""Why a child failed, from what it said and how it ended: a table of signs, each with the error it stands for.

The lines were measured with llama-server b11434 and xllamacpp b11549; older builds write some of them otherwise.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from unmask.errors import (
    CheckpointNotFoundError,
    EngineCrashedError,
    InsufficientMemoryError,
    InvalidCheckpointError,
    ModelLoadFailedError,
    ModelUnsupportedEngineError,
    NotInstalledError,
    PortBusyError,
    UnknownArchitectureError,
    UnmaskError,
)
from unmask.shown import cut, printable

_FRESH_SECONDS = 60.0  # what was said earlier is no cause of a death


@dataclass(frozen=True, slots=True)
class Sign:
    """A line that tells why: its ``pattern``, the ``kind`` of error, what to say and what to do. In ``message`` come
    ``{model}`` and what was ``{found}``, the pattern's group.

    ``kind`` is None for what can happen at any time: then the load has failed, or the engine has crashed.
    ``deadly``: whether a process ends by it.
    """

    pattern: re.Pattern[str]
    kind: type[UnmaskError] | None
    message: str
    hint: str
    deadly: bool = True


_NO_MEMORY_OF_TOKENS = (
    "The engine loads model '{model}' and calls itself healthy, but cannot write text with it: it keeps no keys and "
    "values for such a model.",
    "That is so for diffusion language models, and for encoders. `unmask inspect` tells which it is; serve diffusion "
    "models with Unmask's own engine.",
)

# The most telling first: of several signs the first counts.
SIGNS = (
    Sign(  # "unsupported": it has the name, and no code for it, as b11434 and gptj
        re.compile(r"un(?:known|supported) model architecture: '([^']*)'"),
        UnknownArchitectureError,
        "The engine of model '{model}' does not know its architecture, '{found}'.",
        "Use an engine that serves it, or a newer version of this one; `unmask inspect` tells what the model is.",
    ),
    Sign(  # "does not logits computation" until August 2026
        re.compile(r"the current context does (?:not support|not) logits computation"),
        ModelUnsupportedEngineError,
        *_NO_MEMORY_OF_TOKENS,
        deadly=False,
    ),
    Sign(  # with one slot the two tokens of the warm-up are one too many for a model without a cache
        re.compile(r"GGML_ASSERT\(n_outputs_max <= cparams\.n_outputs_max\)"),
        ModelUnsupportedEngineError,
        *_NO_MEMORY_OF_TOKENS,
    ),
    Sign(
        re.compile(r"(?i)(?:insufficient|out of) memory|failed to allocate|cudaMalloc failed|std::bad_alloc"),
        InsufficientMemoryError,
        "The engine of model '{model}' could not get the memory it needs.",
        "Give it a smaller context or fewer slots, stop other models, or use a smaller file.",
    ),
    Sign(
        re.compile(r"(?i)couldn't bind|address already in use|failed to bind"),
        PortBusyError,
        "The engine of model '{model}' could not listen on its port.",
        "Try again; another program took the port while the model was loaded.",
    ),
    Sign(
        re.compile(r"failed to open GGUF file '.*' \(No such file"),
        CheckpointNotFoundError,
        "The engine of model '{model}' does not find its file.",
        "Check the path, and that the engine may read it.",
    ),
    Sign(
        re.compile(
            r"error loading model: (.*(?:not within the file bounds|tensor '.*' not found|missing tensor|wrong shape|"
            r"wrong number of tensors|key not found).*)|invalid magic characters|failed to read magic"
        ),
        InvalidCheckpointError,
        "The engine of model '{model}' cannot read its file: it is damaged, cut short, or made for another version.",
        "Fetch the file anew, or convert it anew.",
    ),
    Sign(
        re.compile(r"unknown pre-tokenizer type: '([^']*)'"),
        ModelLoadFailedError,
        "The engine of model '{model}' does not know how to cut words as its tokenizer does: '{found}'.",
        "Use a newer version of the engine.",
    ),
    Sign(
        re.compile(r"error: invalid argument: (\S+)|unrecognized arguments: (.*)"),
        ModelLoadFailedError,
        "The engine of model '{model}' does not know the option {found}.",
        "Use a newer version of the engine.",
    ),
    Sign(
        re.compile(r"No module named '([^']*)'"),
        NotInstalledError,
        "The engine of model '{model}' lacks the package {found}.",
        "Install it beside Unmask.",
    ),
    Sign(
        re.compile(r"(GGML_ASSERT\(.*\) failed|GGML_ABORT.*|Assertion .* failed|terminate called after .*)"),
        None,
        "The engine of model '{model}' ended itself over a condition that did not hold: {found}.",
        "This is a bug of the engine, or the file is none that it can serve; try a newer version.",
    ),
    Sign(
        re.compile(r"error loading model: (.*)|failed to load model|model loading error"),
        ModelLoadFailedError,
        "The engine of model '{model}' could not load it.",
        "Its log has more; a newer version of the engine may load it.",
    ),
)

# What it means to be ended by a signal.
_SIGNALS = {
    signal.SIGKILL: (
        "was killed (signal 9)",
        "The system does that when memory runs out: use a smaller context, fewer slots, or a smaller file.",
    ),
    signal.SIGILL: (
        "met a CPU instruction that this machine lacks (signal 4)",
        "Install a build of the engine for this CPU; one that only tells its version may still lack instructions.",
    ),
    signal.SIGABRT: ("ended itself (signal 6)", "A condition in the engine did not hold; its log may tell which."),
    signal.SIGSEGV: ("crashed (signal 11)", "This is a bug of the engine; try a newer version."),
    signal.SIGBUS: ("crashed (signal 7)", "A file changed while it was in use, or a disk or memory is full."),
    signal.SIGTERM: ("was told to end (signal 15)", "Somebody stopped it."),
}
_SHELL = 128  # a status above it is a signal's number, as programs in between write it


class Clues:
    """The newest line for each sign, as lines go by."""

    def __init__(self) -> None:
        self._seen: dict[Sign, tuple[float, str]] = {}

    def see(self, line: str) -> None:
        """Remember ``line`` if it tells something."""
        if found := _find(line):
            self._seen[found[0]] = time.monotonic(), line

    def best(self) -> str | None:
        """The most telling line among those of the last minute that a process may end by."""
        oldest = time.monotonic() - _FRESH_SECONDS
        for sign in SIGNS:
            when, line = self._seen.get(sign, (0.0, ""))
            if sign.deadly and line and when >= oldest:
                return line
        return None


def _find(line: str) -> tuple[Sign, re.Match[str]] | None:
    for sign in SIGNS:
        if match := sign.pattern.search(line):
            return sign, match
    return None


def explain_line(line: str, model: str, otherwise: type[UnmaskError] = EngineCrashedError) -> UnmaskError | None:
    """The error that ``line``, of a log or of an answer, stands for; ``otherwise`` where that could be any."""
    if (found := _find(line)) is None:
        return None
    sign, match = found
    group = next((group for group in match.groups() if group), "")
    return (sign.kind or otherwise)(sign.message.format(model=model, found=printable(cut(group))), hint=sign.hint)


def explain_signal(status: int) -> tuple[str, str] | None:
    """What it means that a process ended with ``status``, and what to do; None if that was no signal."""
    number = -status if status < 0 else status - _SHELL
    return _SIGNALS[signal.Signals(number)] if number in _SIGNALS else None


def explain_end(
    status: int, model: str, kind: type[UnmaskError], clue: str | None, last: str, own: Sequence[str] = ()
) -> UnmaskError:
    """Why a process ended with ``status``, negative for a signal, from the ``clue`` if there is one.

    Else it is an error of this ``kind``, ``ModelLoadFailedError`` or ``EngineCrashedError``, with the ``last`` words.
    What these say of one of the flags in ``own``, the model's ``engine_args``, is to be mended there.
    """
    mend = _mend(clue or last, own)
    told = explain_line(clue, model, kind) if clue else None
    if told is not None:
        return type(told)(told.message, hint=mend) if mend else told
    how, hint = explain_signal(status) or (f"ended by itself (exit code {status})", "Its log may tell why.")
    words = f" It last said: '{printable(cut(last))}'." if last else ""
    return kind(f"The engine of model '{model}' {how}.{words}", hint=mend or hint)


def _mend(said: str, own: Sequence[str]) -> str:
    """What to do if ``said`` names one of the flags in ``own``, else "". Whoever speaks of options speaks of them."""
    flags = [word.partition("=")[0] for word in own if word.startswith("-")]
    named = next((flag for flag in flags if re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", said)), "")
    return f"It comes from the model's 'engine_args' in the configuration: correct {named} there." if named else ""
