"""What a server would need: models, engines, and its port."""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path

import msgspec

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.cli.checks.finding import Finding
from unmask.cli.checks.listener import process_at
from unmask.errors import InvalidConfigError, UnmaskError
from unmask.gateway.config.reading import read_config
from unmask.gateway.lanes import known_lanes
from unmask.models.card import inspect_model

_SECONDS = 2.0


def lanes() -> list[Finding]:
    """The engines that are known here."""
    try:
        known = known_lanes()
    except UnmaskError as error:
        return [Finding("engines", "fail", error.message, error.hint)]
    return [
        Finding(f"engine {lane.name}", "warn", f"It cannot be used: {lane.missing}.", lane.remedy)
        if lane.missing
        else Finding(f"engine {lane.name}", "ok", f"serves {' and '.join(sorted(lane.formats))} files")
        for lane in known
    ]


def embedded_model() -> list[Finding]:
    """Whether the model that comes with Unmask is whole."""
    card = inspect_model(EMBEDDED_MODEL)
    if card.refusal is not None:
        return [Finding("embedded model", "fail", card.refusal.message, "Install Unmask anew.")]
    return [Finding("embedded model", "ok", f"{EMBEDDED_MODEL}, {card.parameters:,} parameters")]


def configuration() -> list[Finding]:
    """The file that ``UNMASK_CONFIG`` names."""
    file = os.environ.get("UNMASK_CONFIG")
    if not file:
        return []
    try:
        found = read_config(Path(file))
    except InvalidConfigError as error:
        return [Finding("configuration", "fail", error.message, error.hint or "Mend the file.")]
    return [Finding("configuration", "ok", f"{file} names {len(found.models)} models")]


def port() -> list[Finding]:
    """Whether the port that ``unmask serve`` takes is free, and if not, whether a server of ours has it."""
    host, number = os.environ.get("UNMASK_HOST") or "127.0.0.1", os.environ.get("UNMASK_PORT") or "8000"
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    if not number.isascii() or not number.isdigit() or int(number) > 65535:
        return [Finding("port", "fail", f"UNMASK_PORT is '{number}'.", "Give a number from 0 to 65535.")]
    if number == "0":
        return [Finding("port", "ok", "a free one is taken")]
    try:
        socket.create_connection((host, int(number)), timeout=_SECONDS).close()
    except ConnectionRefusedError:
        return [Finding("port", "ok", f"{host}:{number} is free")]
    except OSError as error:
        return [Finding("port", "warn", f"{host}:{number} cannot be asked: {error}.")]
    return [_taken(host, int(number))]


def _taken(host: str, number: int) -> Finding:
    where, ours = f"{host}:{number}", _greeting(host, number)
    if not ours.startswith("unmask/"):
        remedy = "End it, or take another port with --port or UNMASK_PORT."
        return Finding("port", "warn", f"Another program listens on {where}.", remedy)
    process = process_at(number)
    by = f"{ours}, process {process}" if process is not None else ours
    return Finding("port", "ok", f"{where} has a server of ours ({by})", "A second one needs another port: --port.")


def _greeting(host: str, number: int) -> str:
    """How the server there calls itself, if it answers as ours do."""
    connection = http.client.HTTPConnection(host, number, timeout=_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = msgspec.json.decode(connection.getresponse().read(4096))
        return str(answer["server"])
    except (OSError, http.client.HTTPException, msgspec.DecodeError, KeyError, TypeError, ValueError):
        return ""
    finally:
        connection.close()
