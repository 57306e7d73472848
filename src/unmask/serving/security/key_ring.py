"""The keys that open this server: the one of ``--api-key``, and those of the key file as it is now."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import structlog

from unmask.errors import InvalidApiKeyError, InvalidKeyFileError
from unmask.serving.security import key_file
from unmask.serving.security.account import KeyAccount
from unmask.serving.security.key import SCOPES, Key, digest

_log = structlog.get_logger()


class KeyRing:
    """Accounts of keys, by their digests. The file is read again when it has changed; a broken one changes nothing.

    Raises ``InvalidKeyFileError`` if the file is broken from the beginning.
    """

    def __init__(self, api_key: str | None, path: Path | None) -> None:
        self.path = path
        now = time.monotonic()
        self._own: list[KeyAccount] = []
        if api_key is not None:
            own = Key(name=key_file.API_KEY_NAME, sha256=digest(api_key.encode()), scopes=SCOPES)
            self._own.append(KeyAccount(own, now))
        self._accounts: dict[str, KeyAccount] = {}
        self._stamp: key_file.Stamp | None = None
        if path is not None:
            self._load(path, now)

    def find(self, candidates: Iterable[bytes]) -> KeyAccount:
        """The account of the first of ``candidates`` that is a key. Raises ``InvalidApiKeyError``."""
        self._refresh()
        given = [digest(candidate) for candidate in candidates]
        for one in given:
            # All keys, each in the same time: how long it takes tells nothing of a digest.
            matches = [account for account in self._all() if secrets.compare_digest(account.key.sha256, one)]
            if matches:
                return _unexpired(matches[0])
        raise InvalidApiKeyError(
            "Incorrect API key." if given else "This server asks for an API key.",
            hint="Send 'Authorization: Bearer <key>' or 'x-api-key: <key>'.",
        )

    def _all(self) -> list[KeyAccount]:
        return [*self._own, *self._accounts.values()]

    def _refresh(self) -> None:
        """Read the file if it is another one than last time, broken or not."""
        if self.path is None or (found := key_file.stamp(self.path)) == self._stamp:
            return
        try:
            self._load(self.path, time.monotonic())
            _log.info("the key file was read again", keys=len(self._accounts))
        except InvalidKeyFileError as error:
            self._stamp = found
            _log.error("the keys stay as they were", reason=error.message)

    def _load(self, path: Path, now: float) -> None:
        keys, self._stamp = key_file.read(path)
        old, self._accounts = self._accounts, {}
        for key in keys:
            account = old.get(key.name)
            if account is None:
                account = KeyAccount(key, now)
            elif account.key != key:
                account.renew(key, now)
            self._accounts[key.name] = account


def _unexpired(account: KeyAccount) -> KeyAccount:
    expires = account.key.expires
    if expires is not None and datetime.now(UTC) >= expires:
        raise InvalidApiKeyError(f"The API key '{account.key.name}' has expired.", hint="Ask for a new one.")
    return account
