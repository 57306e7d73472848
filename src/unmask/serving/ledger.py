"""What one HTTP request costs: for its line in the log, and for the budgets of its key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from unmask.params import GenerationParams
from unmask.serving.security.account import KeyAccount


@dataclass(slots=True)
class Ledger:
    """Tokens used, and how each answer ended. ``account`` pays; there is none on a server without keys."""

    account: KeyAccount | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ends: list[str] = field(default_factory=list)

    @property
    def payer(self) -> str:
        """The name of the key, "" without one."""
        return "" if self.account is None else self.account.key.name

    def ended(self, how: str, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        """An answer ended, and cost this much."""
        self.ends.append(how)
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        if self.account is not None:
            self.account.charge(prompt_tokens + completion_tokens, time.monotonic())

    def bound(self, params: GenerationParams) -> GenerationParams:
        """``params`` within what the key allows. Raises ``InsufficientScopeError``."""
        return params if self.account is None else self.account.bound(params)


_current: ContextVar[Ledger] = ContextVar("ledger")


@contextmanager
def new_ledger() -> Iterator[Ledger]:
    """The ledger of the request that is served in this context, and in tasks that begin in it."""
    ledger = Ledger()
    token = _current.set(ledger)
    try:
        yield ledger
    finally:
        _current.reset(token)


def current_ledger() -> Ledger:
    """The present request's ledger; outside of any request one that nobody reads."""
    return _current.get(None) or Ledger()
