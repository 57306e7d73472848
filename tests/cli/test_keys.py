"""`unmask keys`: from a new key to a revoked one, with a server that reads the file meanwhile."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.serving.processes import environment, serve
from unmask.cli.main import main
from unmask.serving.security import key_file
from unmask.serving.security.key import digest


@pytest.fixture
def keys(monkeypatch, capsys):
    """`unmask keys` in this process: what it writes on standard output, or on standard error if it must fail."""
    for name in environment().keys() ^ os.environ.keys():
        monkeypatch.delenv(name)

    def call(*arguments: str, fails: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["unmask", "keys", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        assert bool(end.value.code) == fails, told.err
        return told.err if fails else told.out

    return call


def status(url: str, key: str) -> int:
    request = urllib.request.Request(f"{url}/v1/models", headers={"x-api-key": key})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_a_key_from_its_making_to_its_end(keys, tmp_path):
    file = tmp_path / "keys.json"
    key = keys("new", "ann", "--keys", str(file)).strip()
    assert re.fullmatch("unmask_[0-9a-f]{64}", key)
    assert digest(key.encode()) in file.read_text()
    assert key not in file.read_text()
    with serve("--keys", str(file)) as server:
        assert status(server.url, key) == 200
        other = keys("new", "ben", "--keys", str(file)).strip()
        assert status(server.url, other) == 200
        keys("revoke", "ann", "--keys", str(file))
        assert [status(server.url, one) for one in (key, other)] == [401, 200]
        assert any("$UNMASK_API_KEY" in line for line in server.log)


def test_what_a_key_may_do_is_told(keys, tmp_path):
    file = str(tmp_path / "keys.json")
    limits = ("--requests-per-minute", "60", "--tokens-per-minute", "20000", "--tokens-per-day", "1000000")
    keys("new", "ann", "--keys", file, "--scope", "generate", "--scope", "metrics", *limits, "--batch", "--days", "30")
    keys("new", "ben", "--keys", file)
    ann, ben = keys("list", "--keys", file).splitlines()
    for part in ("ann", "generate, metrics", "60 requests", "20,000 tokens per minute", "1,000,000 tokens", "batch"):
        assert part in ann
    assert re.search(r"until 20\d\d-", ann)
    assert ben == "ben  generate, models"
    told = json.loads(keys("list", "--keys", file, "--json"))["keys"]
    assert [key["name"] for key in told] == ["ann", "ben"]
    (key, _), _ = key_file.read(Path(file))
    assert (key.expires - key.created).days == 30
    assert (key.requests_per_minute, key.tokens_per_minute, key.tokens_per_day) == (60, 20000, 1000000)
    assert key.priority == "batch"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("new", "ann"), "already"),
        (("new", "a b"), "A name has"),
        (("new", "api-key"), "already"),
        (("new", "cid", "--scope", "everything"), "scopes"),
        (("new", "cid", "--tokens-per-day", "0"), "tokens_per_day"),
        (("revoke", "cid"), "no key named"),
    ],
)
def test_what_cannot_be_done_is_named_and_changes_nothing(keys, tmp_path, arguments, words):
    file = tmp_path / "keys.json"
    key_file.write(file, [key_file.Key(name="ann", sha256="0" * 64)])
    before = file.read_text()
    assert words in keys(*arguments, "--keys", str(file), fails=True)
    assert file.read_text() == before


def test_a_broken_file_is_named_and_not_written_over(keys, command, tmp_path):
    file = tmp_path / "keys.json"
    file.write_text("no keys")
    for arguments in (("new", "ann"), ("list",), ("revoke", "ann")):
        assert "invalid_key_file" in keys(*arguments, "--keys", str(file), fails=True)
    assert file.read_text() == "no keys"
    done = command("serve", "--port", "0", "--keys", str(file))
    assert done.returncode == 1
    assert "invalid_key_file" in done.stderr
    assert "Traceback" not in done.stderr
    assert "nowhere" in keys("new", "ann", "--keys", str(tmp_path / "nowhere" / "k"), fails=True)


def test_a_link_to_the_file_stays_one(keys, tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "real" / "keys.json")
    keys("new", "ann", "--keys", str(link))
    keys("new", "ben", "--keys", str(link))
    assert link.is_symlink()
    assert len(key_file.read(link)[0]) == 2
