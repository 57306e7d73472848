"""Keeps out what a browser sends for a web page of somebody else: checks of ``Host`` and ``Origin``.

A page may name its own site in its address and have that name lead here (DNS rebinding); then the browser takes us for
that site, and only ``Host`` tells. Or it may simply send requests here; then ``Origin`` tells whose they are.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from unmask.errors import HostNotAllowedError, OriginNotAllowedError, UnmaskError
from unmask.serving.errors import ErrorResponder
from unmask.shown import shown

ANY = "*"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::\d{1,5})?")


class SiteGuard:
    """Refuses hosts that are neither this machine nor in ``allowed_hosts``, and origins of other sites that are not
    in ``allowed_origins``. ``host`` is the address that the server listens on.

    An address of digits is never refused where the server listens on all addresses: no name was led astray.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        allowed_hosts: Sequence[str],
        allowed_origins: Sequence[str],
        errors: ErrorResponder,
    ) -> None:
        self._app = app
        self._errors = errors
        self._names = {name.lower() for name in (host, *allowed_hosts)}
        self._everywhere = _address(host) is not None and ipaddress.ip_address(host).is_unspecified
        if self._everywhere:
            self._names.add(socket.gethostname().lower())
        self._origins = {origin.lower() for origin in allowed_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        hosts = _values(scope, b"host")
        refusal = self._check_host(hosts) or self._check_origin(_values(scope, b"origin"), hosts)
        if refusal is not None:
            return await self._errors.response(scope["path"], refusal)(scope, receive, send)
        await self._app(scope, receive, send)

    def _check_host(self, hosts: list[str]) -> UnmaskError | None:
        """A request without a host comes from no browser."""
        if ANY in self._names or not hosts:
            return None
        parts = _HOST.fullmatch(hosts[0])
        if len(hosts) == 1 and parts is not None and self._is_here(parts[1].strip("[]").rstrip(".")):
            return None
        return HostNotAllowedError(
            f"The host {shown(hosts[0])} is not this server's.",
            hint="If it is, start the server with --allowed-host and that name, without a port.",
        )

    def _is_here(self, name: str) -> bool:
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        address = _address(name)
        return address is not None and (self._everywhere or address.is_loopback)

    def _check_origin(self, origins: list[str], hosts: list[str]) -> UnmaskError | None:
        """The page's own site is this server's if scheme apart both are the same."""
        if not origins or ANY in self._origins:
            return None
        origin = origins[0]
        own = [f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")]
        if len(origins) == 1 and (origin in own or origin in self._origins):
            return None
        return OriginNotAllowedError(
            f"Web pages of {shown(origin)} may not use this server.",
            hint="If they should, start the server with --allowed-origin and that origin.",
        )


def _values(scope: Scope, name: bytes) -> list[str]:
    """All values of a header, in lower case."""
    return [value.decode("latin-1").strip().lower() for key, value in scope["headers"] if key == name]


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
