"""Ctrl-C while modules are imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from unmask.cli.main import INTERRUPTED


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """An interrupt ends the process in here, where nothing was begun yet that would have to be put in order.

    Python's own way, an exception wherever it happens to be, is lost in those callbacks of imports that ignore theirs.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # who started us wants none, or his own
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
