"""A progress bar on stderr while a model loads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def loading(model: str) -> Iterator[Callable[[float], None]]:
    """Gives a function to call with the share loaded, 0 to 1. The bar goes away once all is loaded."""
    columns = (TextColumn("Loading {task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(model, total=1.0)
    bar.start()

    def show(share: float) -> None:
        bar.update(task, completed=share)
        if share >= 1.0:
            bar.stop()

    try:
        yield show
    finally:
        bar.stop()
