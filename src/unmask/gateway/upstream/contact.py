"""Whether a server elsewhere could be reached when it was asked the last time."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import aiohttp

from unmask.shown import cut, printable

_LOST = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class Contact:
    """What the requests of a session have met: whatever answers was reached, be it with an error.

    ``lost``: why there was no connection the last time, "" if there was one, or nobody has tried.
    """

    def __init__(self) -> None:
        self.lost = ""
        self._last = -math.inf

    @property
    def age(self) -> float:
        """The seconds since the last contact, endless before the first one."""
        return time.monotonic() - self._last

    def missed(self, why: str) -> None:
        """It could not be reached."""
        self.lost, self._last = printable(cut(why)), time.monotonic()

    def tracing(self) -> aiohttp.TraceConfig:
        """What a session is to be made with."""
        config = aiohttp.TraceConfig()
        config.on_request_end.append(self._answered)
        config.on_request_exception.append(self._failed)
        return config

    async def _answered(self, *_: Any) -> None:
        self.lost, self._last = "", time.monotonic()

    async def _failed(self, _session: Any, _context: Any, failed: aiohttp.TraceRequestExceptionParams) -> None:
        if isinstance(failed.exception, _LOST):
            self.missed(unreached(failed.exception))


def unreached(error: BaseException) -> str:
    """Why there was no connection, without what aiohttp says of how it would have been encrypted."""
    return printable(cut(re.sub(r" ssl:.*? \[", " [", str(error), count=1)))
