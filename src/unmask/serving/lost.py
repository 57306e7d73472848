"""Paths and methods that are not there, and those that were probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from starlette.exceptions import HTTPException

from unmask.shown import cut, printable


def explain_lost(error: HTTPException, path: str, known: Iterable[str]) -> str:
    """What to say of a 404 or 405 of ``path``, where the paths ``known`` are served; else the error's own words."""
    where = printable(cut(path))
    if error.status_code == 405:
        allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        return f"{where} does not take this method. Use {allowed}." if allowed else str(error.detail)
    if error.status_code != 404 or error.detail != "Not Found":
        return str(error.detail)
    meant = _meant(path.rstrip("/"), list(known))
    return f"There is no {where}." + (f" Did you mean {meant}?" if meant else "")


def _meant(path: str, known: list[str]) -> str | None:
    """The path of a client whose base URL has one ``/v1`` too few or too many, or one that is spelled alike."""
    for other in (f"/v1{path}", path.removeprefix("/v1")):
        if other in known:
            return other
    return next(iter(get_close_matches(path[:100], known, n=1, cutoff=0.85)), None)
