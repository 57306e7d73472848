"""An event loop whose clock jumps to the next timer as soon as there is nothing else to do: hours pass at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any


class _Impatient(selectors.DefaultSelector):
    """Passes the time that it should wait. To wait without a timer is a deadlock, since nothing comes from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits for everybody else"
            self.time += max(timeout, 0.0)
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Impatient()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.time


def at_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on such a loop; its clock starts at 0."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
