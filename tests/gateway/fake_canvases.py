"""A small engine with the manners of llama.cpp's pull request 24427: `python -m tests.gateway.fake_canvases PORT`.

As its description has them: one request at a time, whole canvases, a stream that is one piece at the end, which is
always "stop"; it knows no stop strings, and goes on for those who have left. Its text is a word for each token.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CANVAS = 256
SECONDS = 0.3  # a canvas takes
KNOWN = ("model", "messages", "prompt", "max_tokens", "temperature", "top_k", "seed", "ignore_eos", "stream",
         "stream_options")  # fmt: skip
_working = threading.Lock()


def words(tokens: int) -> str:
    """What it writes."""
    return " ".join(f"w{number}" for number in range(tokens))


class Handler(BaseHTTPRequestHandler):
    """Takes what its description names; what else it is told, it would not understand."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        pages = {
            "/health": {"status": "ok"},
            "/props": {"generation_type": "block-diffusion", "total_slots": 1},
            "/v1/models": {"data": [{"id": "m"}]},
        }
        page = pages.get(self.path)
        self._answer(200 if page else 404, page or {"error": {"message": "not here"}})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {os.environ['LLAMA_API_KEY']}":
            self._answer(401, {"error": {"message": "Invalid API Key"}})
            return
        print("asked:", json.dumps(asked), flush=True)
        canvases = -(-asked.get("max_tokens", CANVAS) // CANVAS)
        with _working:
            time.sleep(SECONDS * canvases)
            print("written:", canvases, flush=True)
            text = words(12 if "brief" in json.dumps(asked) else canvases * CANVAS)
            self._tell(asked, text)

    def _tell(self, asked: dict[str, Any], text: str) -> None:
        chat = self.path.endswith("chat/completions")
        usage = {"prompt_tokens": 5, "completion_tokens": len(text.split())}
        if not asked.get("stream"):
            said = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            self._answer(200, {"choices": [said | {"finish_reason": "stop"}], "usage": usage})
            return
        piece = {"delta": {"content": text}} if chat else {"text": text}
        events = [
            {"choices": [piece | {"index": 0, "finish_reason": None}]},
            {"choices": [{"delta": {}, "text": "", "index": 0, "finish_reason": "stop"}], "usage": usage},
        ]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self._send(200, "text/event-stream", body.encode())

    def _answer(self, status: int, payload: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(payload).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
