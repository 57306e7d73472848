"""``/`` and the files of its page, from memory. The page loads nothing from elsewhere, and runs no script but these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from unmask.serving.security.needs import needs

_STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "cache-control": "no-cache",  # kept, but asked about each time: a newer server may have another page
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "vary": "accept",  # at "/" others than browsers get something else
    "x-content-type-options": "nosniff",
}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent. ``etag`` follows from its content."""

    body: bytes
    media_type: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> StaticFile:
        """The file at ``path``."""
        body = path.read_bytes()
        return cls(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')

    def response(self, request: Request) -> Response:
        """The file, or 304 for a client that has it."""
        headers = _HEADERS | {"etag": self.etag}
        if self.etag in _etags(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers, media_type=self.media_type)


def _etags(known: str) -> Iterator[str]:
    """The tags in an ``If-None-Match`` header. What stands between may have weakened them."""
    return (tag.strip().removeprefix("W/") for tag in known.split(","))


_FILES = {
    path.relative_to(_STATIC).as_posix(): StaticFile.read(path) for path in _STATIC.rglob("*") if path.suffix in _TYPES
}


@router.api_route("/", methods=["GET", "HEAD"])
@needs("nothing")
async def page(request: Request) -> Response:
    """The playground."""
    return _FILES["index.html"].response(request)


@router.api_route("/playground/{name:path}", methods=["GET", "HEAD"])
@needs("nothing")
async def file(name: str, request: Request) -> Response:
    """One of its files."""
    if name not in _FILES:
        raise HTTPException(404, "The playground has no such file.")
    return _FILES[name].response(request)
