"""A lane that is a server of OpenAI's API, as those who have requests for it see it."""

from __future__ import annotations

import asyncio

import aiohttp

from unmask.answers.chat import Chat, Continuation
from unmask.gateway.upstream.contact import Contact
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.gateway.upstream.lane_request import LaneRequest
from unmask.gateway.upstream.learning import learned
from unmask.gateway.upstream.pulse import is_silent
from unmask.gateway.upstream.request import Asked, ask_chat, ask_texts
from unmask.gateway.upstream.spellings import Spellings
from unmask.gateway.upstream.tokens import LaneTokenizer
from unmask.gateway.upstream.turns import Turns


class Upstream:
    """Makes requests to ``endpoint``. Belongs to the event loop in which it is made."""

    def __init__(self, endpoint: Endpoint, patience: Patience | None = None) -> None:
        self.endpoint = endpoint
        self.patience = patience or Patience()
        self.contact = Contact()
        self._turns = Turns(endpoint.at_once)
        # A connection for each request: one kept open may be closed by the server just as it is used again, and a
        # request whose answer may have begun cannot be sent twice.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.patience.connect),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[self.contact.tracing()],
        )

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self._turns.waiting

    async def learn(self) -> None:
        """Ask the server what it knows of its model, for ``endpoint``. What it does not tell stays as it was."""
        self.endpoint = await learned(self.endpoint, self._session)

    async def is_silent(self, seconds: float) -> bool:
        """Whether the server takes no notice of a question that costs it nothing, which ``contact`` learns of too."""
        silent = await is_silent(self.endpoint, self._session, seconds)
        if silent:
            self.contact.missed(f"nothing came back within {seconds:g} s")
        return silent

    def chat(self, chat: Chat, cells: Spellings | None = None) -> LaneRequest:
        """The request for ``chat``, checked and not yet sent. ``cells`` are to learn the texts of its tokens. Raises
        what ``ask_chat`` raises.
        """
        return self._request(ask_chat(chat, self.endpoint), cells)

    def complete(self, continuation: Continuation, cells: Spellings | None = None) -> LaneRequest:
        """The same for prompts to go on with. Raises what ``ask_texts`` raises."""
        return self._request(ask_texts(continuation, self.endpoint), cells)

    def tokenizer(self) -> LaneTokenizer:
        """What the lane tells of tokens."""
        return LaneTokenizer(self.endpoint, self._session)

    def _request(self, asked: list[Asked], cells: Spellings | None) -> LaneRequest:
        return LaneRequest(self._session, self.endpoint, asked, self.patience, self._turns, cells or Spellings())

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await asyncio.sleep(0)  # lets their sockets go
