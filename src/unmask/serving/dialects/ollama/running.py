"""GET and HEAD /: with what Ollama's clients see whether anybody is there. Browsers, which ask for a page, get none."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

from unmask.serving.conditional_route import route_for
from unmask.serving.security.needs import needs


def _asks_for_no_page(headers: Headers) -> bool:
    return "text/html" not in headers.get("accept", "")


router = APIRouter(route_class=route_for(_asks_for_no_page), include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
@needs("nothing")
async def running() -> Response:
    """That somebody is."""
    return PlainTextResponse("Ollama is running", headers={"vary": "accept"})
