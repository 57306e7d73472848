"""A lane that is a server of OpenAI's API, as those who have requests for it see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp

from unmask.answers.chat import Chat
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.gateway.upstream.lane_request import LaneRequest
from unmask.gateway.upstream.request import ask_chat, ask_texts
from unmask.params import GenerationParams


class Upstream:
    """Makes requests to ``endpoint``. Belongs to the event loop in which it is made."""

    def __init__(self, endpoint: Endpoint, patience: Patience | None = None) -> None:
        self.endpoint = endpoint
        self._patience = patience or Patience()
        # A connection for each request: one kept open may be closed by the server just as it is used again, and a
        # request whose answer may have begun cannot be sent twice.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._patience.connect),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    def chat(self, chat: Chat) -> LaneRequest:
        """The request for ``chat``, checked and not yet sent. Raises what ``ask_chat`` raises."""
        return LaneRequest(self._session, self.endpoint, ask_chat(chat, self.endpoint), self._patience)

    def complete(
        self, prompts: Sequence[str] | Sequence[list[int]], params: GenerationParams, copies: int = 1
    ) -> LaneRequest:
        """The request to go on with ``prompts``, ``copies`` times each. Raises what ``ask_texts`` raises."""
        asked = ask_texts(prompts, params, self.endpoint, copies)
        return LaneRequest(self._session, self.endpoint, asked, self._patience)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await asyncio.sleep(0)  # lets their sockets go
