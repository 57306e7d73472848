"""The verbs that talk to a running server, where none is, or another one."""

from __future__ import annotations

import http.server
import socket
import threading

import pytest

from unmask.cli.server_client import ServerClient
from unmask.cli.tables import columns, few
from unmask.errors import InvalidValueError, ServerUnreachableError


@pytest.fixture
def nobody():
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("verb", [["ps"], ["stop", "m"], ["logs", "m"], ["why", "--last"]])
def test_no_server_is_an_error_that_says_so(command, verb, nobody):
    ended = command(*verb, "--url", nobody)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert f"No server answers at {nobody}: Connection refused. [server_unreachable]" in ended.stderr
    assert "hint: Start one with 'unmask serve', or say where it is with --url." in ended.stderr


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x", "http://", "http://x:y", "http://x:0", "http://x:99999", ""]
)
def test_what_is_no_address(url):
    with pytest.raises(InvalidValueError):
        ServerClient(url)


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (404, b'{"detail": "Not Found"}'), (500, b""), (200, b"[]"), (404, b'{"error": 1}')],
)
def test_what_is_no_server_of_ours(status, body):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        serving = threading.Thread(target=other.handle_request)
        serving.start()
        with pytest.raises(ServerUnreachableError, match="no server of Unmask's"):
            ServerClient(f"http://127.0.0.1:{other.server_port}/v1").models()
        serving.join()


@pytest.mark.parametrize(
    "arguments", [["why"], ["why", "a", "--last"], ["logs", "m", "--json", "--follow"], ["logs", "m", "-n", "0"]]
)
def test_what_makes_no_sense_is_a_usage_error(command, arguments):
    assert command(*arguments).returncode == 2


def test_names_cannot_command_the_terminal():
    table = columns(("NAME", "NOTE"), [("a\x1b[2J", None), ("bb", "x")])
    assert table == "NAME      NOTE\na\\x1b[2J  -\nbb        x"


def test_a_cell_has_few_names():
    assert [few(["a", "b", "c", "d"][:count]) for count in range(5)] == ["", "a", "a, b", "a, b, +1", "a, b, +2"]
