"""`unmask serve` as a process: it starts, says why it cannot, and stops in order."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest

from tests.serving.processes import UNMASK, environment, serve
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.errors import PortBusyError
from unmask.serving.server import claim


@pytest.fixture
def refused(command):
    """What a `serve` that must fail writes on stderr."""

    def call(*arguments: str, **variables: str) -> str:
        done = command("serve", *arguments, **variables)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert 1 <= len(done.stderr.strip().splitlines()) <= 3
        return done.stderr

    return call


@pytest.fixture(scope="module")
def model_copy(tmp_path_factory):
    """A copy of the embedded model that a test may spoil."""
    path = tmp_path_factory.mktemp("models") / "spoilt"
    shutil.copytree(open_checkpoint(EMBEDDED_MODEL).path, path)
    return path


def test_a_wrong_path_is_named(refused):
    words = refused("/no/such/model")
    assert "/no/such/model" in words
    assert "checkpoint_not_found" in words
    assert "hint:" in words
    done = subprocess.run(
        [UNMASK, "serve", "/no/such/model"], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", words)


def test_an_unknown_architecture_is_named(refused, model_copy):
    config = json.loads((model_copy / "config.json").read_text())
    config |= {"architectures": ["FrobnicateForCausalLM"], "model_type": "frobnicate"}
    (model_copy / "config.json").write_text(json.dumps(config))
    words = refused(str(model_copy), "--port", "0")
    assert "no_lane" in words
    assert "frobnicate" in words.lower()


def test_a_busy_port_is_named_before_anything_loads(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = refused("/no/such/model", "--port", str(port))
    assert str(port) in words
    assert "port_busy" in words
    assert "--port" in words


def test_of_two_servers_the_second_is_refused_before_it_loads(refused):
    with claim("127.0.0.1", 0) as first:  # as a server holds it while its model loads
        port = first.getsockname()[1]
        with pytest.raises(PortBusyError):
            claim("127.0.0.1", port)
        assert "port_busy" in refused("/no/such/model", "--port", str(port))
    claim("127.0.0.1", port).close()


def test_a_foreign_address_is_refused(refused):
    assert "192.0.2.1" in refused("--host", "192.0.2.1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_server_and_engine(number):
    with serve() as server:
        engines = psutil.Process(server.process.pid).children(recursive=True)
        assert engines
        begun = time.monotonic()
        assert server.stop(number) == 0
        assert time.monotonic() - begun < 2  # 0.2 on a machine that nobody else uses
        assert not any(engine.is_running() for engine in engines)
        assert "Traceback" not in "".join(server.log)


DOWNLOADING = """
import sys, time
from unmask.cli.main import main
from unmask.serving.opening import HousePlan
HousePlan.open = lambda plan: (print("downloading", flush=True), time.sleep(60))
sys.argv = ["unmask", "serve", "--port", "0"]
main()
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_ends_a_download(number, status):
    script = [sys.executable, "-c", DOWNLOADING]
    with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout.readline() == b"downloading\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=10)
    assert process.returncode == status
    assert b"Traceback" not in said


def test_a_second_signal_ends_the_grace():
    body = {"prompt": "a", "max_tokens": 1000, "stream": True}
    body["unmask"] = {"rule": "low_confidence", "cache": "none", "end_tokens": "never"}
    with serve("--grace", "60") as server:
        request = urllib.request.Request(
            f"{server.url}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            response.readline()
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            assert server.process.poll() is None
            begun = time.monotonic()
            server.process.send_signal(signal.SIGINT)
            last = response.read().split(b"\n\n")[-2]
        assert server.process.wait(20) == 0
        assert time.monotonic() - begun < 2
        assert b'"code":"shutting_down"' in last
        assert "Traceback" not in "".join(server.log)


def test_a_signal_while_loading_stops_both():
    process = subprocess.Popen([UNMASK, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment())
    engines: list[psutil.Process] = []
    try:
        while not engines:
            engines = psutil.Process(process.pid).children()
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, words = process.communicate(timeout=30)
        assert process.returncode != 0
        assert "Traceback" not in words
        _, alive = psutil.wait_procs(engines, timeout=5)
        assert not alive
    finally:
        process.kill()
        process.wait()


def wait_until_not_ready(url: str) -> None:
    wait_until_status(url, 503, seconds=5)


def wait_until_ready(url: str) -> None:
    wait_until_status(url, 200, seconds=60)


def wait_until_status(url: str, wanted: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while status(f"{url}/ready") != wanted:
        assert time.monotonic() < deadline, f"/ready did not become {wanted}"
        time.sleep(0.01)


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as response:
            return response.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_a_killed_engine_is_started_again():
    request_body = b'{"prompt": "7 + 8 =", "max_tokens": 8, "temperature": 0}'
    with serve() as server:

        def complete() -> str:
            request = urllib.request.Request(
                f"{server.url}/v1/completions", request_body, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request) as response:
                return json.loads(response.read())["choices"][0]["text"]

        before = complete()
        for engine in psutil.Process(server.process.pid).children():
            engine.kill()
        wait_until_not_ready(server.url)
        with urllib.request.urlopen(f"{server.url}/health") as response:
            assert response.status == 200
        wait_until_ready(server.url)
        assert complete() == before
        assert any("model died" in line for line in server.log)


def test_what_is_said_at_the_start():
    with serve("--served-model-name", "house-model", "--host", "0.0.0.0") as server:
        with urllib.request.urlopen(f"{server.url}/v1/models") as response:
            assert json.loads(response.read())["data"][0]["id"] == "house-model"
        assert any("curl" in line for line in server.log)
        assert any(line.startswith("warning:") and "--api-key" in line for line in server.log)


def test_the_environment_sets_options(refused):
    assert "/from/the/environment" in refused(UNMASK_MODEL="/from/the/environment")
