"""A running server, asked by the commands that operate it."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from unmask.errors import InvalidValueError, ServerUnreachableError, UnmaskError
from unmask.shown import shown

_SECONDS = 30.0


class ServerClient:
    """The operators' API of the server at ``url``. Raises ``InvalidValueError`` for what is no such address.
    ``seconds``: for an answer that waits for nothing but the server.

    All methods raise ``ServerUnreachableError``, or the error that the server answers with.
    """

    def __init__(self, url: str, api_key: str | None = None, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._url = url.rstrip("/").removesuffix("/v1")
        parts = urlsplit(self._url)
        try:
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            raise InvalidValueError(
                f"{shown(url)} is no address of a server.", hint="It looks like http://127.0.0.1:8000.", param="url"
            )
        self._parts = parts
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

    def models(self) -> list[dict[str, Any]]:
        """Where each of its models is in its life, as ``GET /unmask/models`` tells."""
        models: list[dict[str, Any]] = self._ask("GET", "/unmask/models")["models"]
        return models

    def stop(self, name: str) -> dict[str, Any]:
        """Stop a model; what that ended. Waits until its memory is free."""
        return self._ask("POST", f"/unmask/models/{quote(name)}/stop", patient=True)

    def log(self, name: str, *, lines: int | None = None, after: str | None = None) -> dict[str, Any]:
        """Lines of the log of a model's child: the last ones, or those ``after`` a position."""
        query = {key: value for key, value in (("lines", lines), ("after", after)) if value is not None}
        return self._ask("GET", f"/unmask/models/{quote(name)}/log?{urlencode(query)}")

    def request(self, request_id: str) -> dict[str, Any]:
        """What happened to a request."""
        return self._ask("GET", f"/unmask/requests/{quote(request_id, safe='')}")

    def requests(self, limit: int) -> list[dict[str, Any]]:
        """The same of the latest, the newest first."""
        requests: list[dict[str, Any]] = self._ask("GET", f"/unmask/requests?limit={limit}")["requests"]
        return requests

    def _ask(self, method: str, path: str, *, patient: bool = False) -> dict[str, Any]:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        seconds = None if patient else self._seconds
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=seconds)
        try:
            connection.request(method, self._parts.path + path, headers=self._headers)
            response = connection.getresponse()
            return _body(response.status, response.read(), self._url)
        except (OSError, HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise _unreachable(f"No server answers at {self._url}: {why}.") from None
        finally:
            connection.close()


def _body(status: int, body: bytes, url: str) -> dict[str, Any]:
    """The JSON of an answer. Raises the error that it tells of."""
    try:
        told = msgspec.json.decode(body, type=dict[str, Any])
        if status < 400:
            return told
        error = told["error"]
        raise UnmaskError.from_code(str(error["code"]), str(error["message"]))
    except (msgspec.DecodeError, LookupError, TypeError):
        raise _unreachable(
            f"What answers at {url} is no server of Unmask's, or an old one (status {status})."
        ) from None


def _unreachable(message: str) -> ServerUnreachableError:
    return ServerUnreachableError(message, hint="Start one with 'unmask serve', or say where it is with --url.")
