"""A small engine with llama-server's manners, and faults on demand: `python -m tests.gateway.fake_engine PORT ...`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NO_LOGITS = "the current context does not logits computation. skipping"  # as llama.cpp had it until August 2026


class Handler(BaseHTTPRequestHandler):
    """Health for everybody, completions for who knows the secret."""

    protocol_version = "HTTP/1.1"
    options: argparse.Namespace
    ready_at: float

    def do_GET(self) -> None:
        self._answer(*self._loading() or (200, {"status": "ok"}))

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        if self.headers.get("Authorization") != f"Bearer {os.environ['LLAMA_API_KEY']}":
            self._answer(401, {"error": {"message": "Invalid API Key"}})
        elif loading := self._loading():
            self._answer(*loading)
        elif self.options.unable:
            self._answer(500, {"error": {"code": 500, "message": NO_LOGITS}})
        elif body.get("stream"):
            self._stream()
        else:
            tokens = 0 if self.options.mute else 1
            self._answer(200, {"choices": [{"text": "x" * tokens}], "usage": {"completion_tokens": tokens}})

    def _loading(self) -> tuple[int, dict] | None:
        """llama-server's answer as long as it loads."""
        if time.monotonic() >= self.ready_at:
            return None
        return 503, {"error": {"code": 503, "message": "Loading model"}}

    def _answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        """Without an end."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            self.wfile.write(b"9\r\ndata: x\n\n\r\n")
            time.sleep(0.02)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def serve(options: argparse.Namespace) -> None:
    """For ever."""
    Handler.options = options
    Handler.ready_at = time.monotonic() + options.loading
    try:
        server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    except OSError:
        print(f"E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {options.port}", flush=True)
        sys.exit(1)
    server.serve_forever()


def garbage(bytes_in_all: int) -> None:
    """No line ends, and nothing that is UTF-8."""
    for _ in range(bytes_in_all // 2**16):
        os.write(1, b"\xff\x1b[2J" * (2**16 // 5))


def main() -> None:
    """Serve, with the faults asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--loading", type=float, default=0.0, help="seconds of 503")
    parser.add_argument("--unable", action="store_true", help="every completion is a 500")
    parser.add_argument("--mute", action="store_true", help="every completion has no token")
    parser.add_argument("--deaf", action="store_true", help="never listens")
    parser.add_argument("--stubborn", action="store_true", help="does not end at SIGTERM")
    parser.add_argument("--family", action="store_true", help="has a child")
    parser.add_argument("--runaway", action="store_true", help="has a child in another session")
    parser.add_argument("--garbage", type=int, default=0, help="bytes")
    parser.add_argument("--say", action="append", default=[], help="a line")
    parser.add_argument("--exit", type=int, help="status")
    parser.add_argument("--signal", type=int, help="dies by it")
    options = parser.parse_args()
    for line in options.say:
        print(line, flush=True)
    if options.exit is not None:
        sys.exit(options.exit)
    if options.signal is not None:
        os.kill(os.getpid(), options.signal)
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.family:
        subprocess.Popen(["sleep", "1000"])
    if options.runaway:
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if options.garbage:
        threading.Thread(target=garbage, args=(options.garbage,), daemon=True).start()
    if options.deaf:
        time.sleep(1000)
    serve(options)


if __name__ == "__main__":
    main()
