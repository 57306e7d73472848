"""`unmask doctor` as a process: what it finds here, and what it says where something is wrong."""

from __future__ import annotations

import http.server
import json
import os
import socket
import threading

import pytest

from tests.cli.test_inspect import python_path
from tests.cli.test_run import unmask
from tests.serving.processes import serve
from unmask.cli.checks import machine, packages, server
from unmask.cli.checks.finding import Finding, worst
from unmask.cli.checks.listener import process_at
from unmask.cli.checks.variables import variables
from unmask.session_store import SessionStore


def checks(**variables: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The exit code, and all findings by what was looked at."""
    done = unmask("doctor", "--json", **variables)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    by_name: dict[str, list[dict[str, str]]] = {}
    for one in found["checks"]:
        by_name.setdefault(one["check"], []).append(one)
    assert found["status"] in ("ok", "warn", "fail")
    assert (done.returncode == 1) == (found["status"] == "fail")
    return done.returncode, by_name


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


def test_a_machine_on_which_the_tests_run_is_sound(tmp_path):
    code, found = checks(UNMASK_HOME=str(tmp_path / "not" / "yet"), UNMASK_PORT=free_port())
    assert code == 0
    sound = ("python", "torch", "home", "processes", "sockets", "engine unmask", "embedded model", "port")
    assert {name: found[name][0]["status"] for name in sound} == dict.fromkeys(sound, "ok")
    assert "variables are set" in found["environment"][0]["message"]
    assert not (tmp_path / "not").exists()


def test_what_is_wrong_is_told_with_what_to_do(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "bad.yaml").write_text("modles: {}")
    broken = python_path(tmp_path, torch="raise ImportError('libfoo.so is missing')", xllamacpp="import os; os.abort()")
    done = unmask(
        "doctor",
        PYTHONPATH=broken,
        UNMASK_HOME=str(tmp_path / "file"),
        UNMASK_CONFIG=str(tmp_path / "bad.yaml"),
        UNMASK_MAX_RUNING="secret",
        UNMASK_PORT="eighty",
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()

    def after(start: str) -> str:
        """What is said, and what to do."""
        number = next(n for n, line in enumerate(lines) if line[4:].startswith(start))
        return lines[number] + lines[number + 1]

    assert "fail" in after("  torch ")
    assert "libfoo.so is missing" in after("  torch ")
    assert "pip install" in after("  torch ")
    assert "signal 6 (Aborted)" in after("  llama.cpp ")
    assert "UNMASK_HOME" in after("  home ")
    assert "Did you mean 'models'" in after("  configuration ")
    assert "Did you mean UNMASK_MAX_RUNNING?" in after("  environment ")
    assert "eighty" in after("  port ")
    assert "secret" not in done.stdout


def test_a_server_of_ours_on_the_port(monkeypatch):
    with serve() as running:
        number = running.url.rpartition(":")[2]
        monkeypatch.setenv("UNMASK_PORT", number)
        (found,) = server.port()
        assert found.status == "ok"
        assert "unmask/" in found.message
        if os.path.exists("/proc/net/tcp"):
            assert f"process {running.process.pid}" in found.message


@pytest.mark.parametrize("answer", [b'{"server": "nginx"}', b"[]", b"<html>", b'{"status": "ok"}', b"\xff"])
def test_another_program_on_the_port_is_not_named(monkeypatch, answer):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        monkeypatch.setenv("UNMASK_PORT", str(other.server_port))
        (found,) = server.port()
        other.shutdown()
    assert (found.status, str(os.getpid()) in found.message) == ("warn", False)
    assert "--port" in found.remedy


def test_a_program_on_the_port_that_says_nothing(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("UNMASK_PORT", str(silent.getsockname()[1]))
        assert server.port()[0].status == "warn"
        if os.path.exists("/proc/net/tcp"):
            assert process_at(silent.getsockname()[1]) == os.getpid()
    assert process_at(silent.fileno()) is None


def test_extras_are_those_of_the_package(tmp_path, monkeypatch):
    folder = tmp_path / "unmask-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Name: unmask\nVersion: 9\nRequires-Dist: numpy<3\n"
        'Requires-Dist: pytest>=8; extra == "good"\n'
        "Requires-Dist: no-such-package<2,>=1; extra == 'plots'\n"
        'Requires-Dist: no-such-package; extra == "dev"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    good, plots = packages.extras()
    assert good.message == f"pytest {pytest.__version__}"
    assert (plots.check, plots.status) == ("extra plots", "ok")
    assert 'pip install "unmask[plots]"' in plots.remedy


def test_a_home_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASK_HOME", "/proc/unmask")
    assert machine.own_folder()[0].status == "fail" or os.geteuid() == 0
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path))
    assert machine.own_folder() == [Finding("home", "ok", f"{tmp_path} can be written")]
    assert list(tmp_path.iterdir()) == []


def test_conversations_that_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path))
    assert machine.sessions() == []
    store = SessionStore(tmp_path / "sessions", 10**6)
    with store.draft("0" * 32, 0) as draft:
        draft.path.write_bytes(bytes(2048))
        draft.seal(float("inf"))
    (found,) = machine.sessions()
    assert (found.check, found.status) == ("sessions", "ok")
    assert found.message == f"conversations take 2.0 KiB, in 1 files in {tmp_path / 'sessions'}"


def test_a_variable_that_no_option_reads(monkeypatch):
    for name in [name for name in os.environ if name.startswith("UNMASK_")]:
        monkeypatch.delenv(name)
    assert variables(["UNMASK_PORT"])[0].status == "ok"
    monkeypatch.setenv("UNMASK_PROT", "1")
    monkeypatch.setenv("UNMASK_PORT", "1")
    (found,) = variables(["UNMASK_PORT"])
    assert (found.status, "UNMASK_PORT" in found.remedy) == ("warn", True)


def test_the_worst_counts():
    kinds = [Finding("a", "ok", ""), Finding("b", "fail", ""), Finding("c", "warn", "")]
    assert [worst(kinds), worst(kinds[::2]), worst(kinds[:1]), worst([])] == ["fail", "warn", "ok", "ok"]
