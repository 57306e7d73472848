"""Whether a lane's server takes notice of anybody, busy or not: a question that costs it nothing, answered or not."""

from __future__ import annotations

import aiohttp

from unmask.gateway.upstream.endpoint import Endpoint


async def is_silent(endpoint: Endpoint, session: aiohttp.ClientSession, seconds: float) -> bool:
    """Whether nothing at all comes back within ``seconds``. Any answer is one, and so is a connection that is refused:
    of a process that has ended others tell, and it may be we who have no socket left.
    """
    root = endpoint.base_url.rstrip("/")
    # SGLang may answer after its health with a token that it first has to write.
    url = f"{root.removesuffix('/v1')}/health" if endpoint.kind == "llama.cpp" else f"{root}/models"
    limit = aiohttp.ClientTimeout(total=seconds, sock_connect=seconds)
    try:
        async with session.get(url, headers=endpoint.headers, timeout=limit, allow_redirects=False):
            return False
    except TimeoutError:
        return True
    except (aiohttp.ClientError, OSError):
        return False
