"""Stands in for the package of this name, in servers that have its folder on their path: an engine that writes a fixed
text, and behaves as the model's name says.

``late``: is not ready for a minute. ``noisy``: writes a megabyte of bytes on its standard output. ``garbled``: its
streams turn into what is no JSON. ``steady``: nothing is wrong with it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

TEXT = [f"word{number} " for number in range(40)]
PAUSE_SECONDS = 0.05  # between tokens


class CommonParams(SimpleNamespace):
    """Takes whatever is set."""

    def __init__(self) -> None:
        super().__init__(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


class Server:
    """Answers as long as its process lives."""

    def __init__(self, params: CommonParams) -> None:
        (name,) = params.model_alias
        if name == "late":
            print("reading the weights", file=sys.stderr, flush=True)
            time.sleep(60)
        if name == "noisy":
            os.write(1, os.urandom(2**20) + b"\n")
        handler = type("Handler", (_Handler,), {"name": name, "secret": params.api_keys[0]})
        server = ThreadingHTTPServer((params.hostnames[0], params.port), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://{params.hostnames[0]}:{params.port}"


class _Handler(BaseHTTPRequestHandler):
    name: str
    secret: str

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._json(200, {"status": "ok"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers.get("authorization") != f"Bearer {self.secret}":
            self._json(401, {"error": {"message": "no"}})
        elif asked.get("stream"):
            self._stream(asked.get("max_tokens") or len(TEXT))
        else:
            self._json(200, {"choices": [{"text": TEXT[0]}], "usage": {"completion_tokens": 1}})

    def _stream(self, tokens: int) -> None:
        chat = self.path.endswith("chat/completions")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        words = TEXT[:tokens]
        for number, word in enumerate(words):
            last = number == len(words) - 1
            choice = {"index": 0, "finish_reason": "length" if last else None}
            choice |= {"delta": {"content": word}} if chat else {"text": word}
            self._event(json.dumps({"choices": [choice]}))
            time.sleep(PAUSE_SECONDS)
            if self.name == "garbled" and number == 3:
                self._event("\x00{\xff")
        self._event("[DONE]")

    def _event(self, payload: str) -> None:
        self.wfile.write(f"data: {payload}\n\n".encode("latin-1"))
        self.wfile.flush()

    def _json(self, status: int, payload: dict[str, Any]) -> None:
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
