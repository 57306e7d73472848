"""The canvas in the terminal while it is denoised: decided cells bright, masked cells dim."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.completion import Completion
from unmask.engine.text import CellDecoder

_MASKED = "\u2591"  # light shade


class CanvasView:
    """Live view of one answer. As a context it owns the screen's last lines; ``finish`` prints the answer."""

    def __init__(self, tokenizer: Tokenizer, end_ids: Sequence[int], console: Console | None = None) -> None:
        self._cells = CellDecoder(tokenizer)
        self._end_ids = frozenset(end_ids)
        self._console = console or Console()
        self._live = Live(console=self._console, transient=True, auto_refresh=False)

    def __enter__(self) -> CanvasView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, canvas: list[int]) -> None:
        """Draw ``canvas``."""
        self._live.update(self.render(canvas), refresh=True)

    def render(self, canvas: list[int]) -> Text:
        """``canvas`` up to its first end token."""
        end = next((i for i, token in enumerate(canvas) if token in self._end_ids), len(canvas))
        text = Text()
        for cell in self._cells.decode(canvas[:end]):
            text.append(_MASKED if cell is None else cell, "dim" if cell is None else "bold")
        return text

    def finish(self, answer: Completion) -> None:
        """Print the answer, and one dim line about its cost."""
        self._console.print(answer.text, markup=False, highlight=False)
        cost = (
            f"tokens: {answer.completion_tokens}, forwards: {answer.stats.forwards}, "
            f"{answer.tokens_per_forward:.2f} tokens per forward, {answer.stats.total:.2f} s"
        )
        self._console.print(cost, style="dim", highlight=False)
