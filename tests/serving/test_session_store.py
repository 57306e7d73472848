"""A server of our own engine that is started again goes on with the conversations it had, if that is wanted."""

from __future__ import annotations

import subprocess

import aiohttp
import pytest

from tests.serving.processes import UNMASK, environment, serve
from unmask.session_store import held_in

LONG = " ".join(f"{number} + {number} = {2 * number}." for number in range(12))


async def ask(url: str) -> tuple[str, dict[str, int]]:
    """The answer, and what is counted of tokens."""
    body = {"messages": [{"role": "user", "content": LONG}], "temperature": 0, "max_tokens": 16}
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{url}/v1/chat/completions", json=body) as response:
            text = (await response.json())["choices"][0]["message"]["content"]
        async with http.get(f"{url}/metrics") as response:
            lines = (await response.text()).splitlines()
    names = {
        "cached": "unmask_prompt_tokens_cached_total{",
        "restored": r'unmask_session_tokens_total{action="restored"',
    }
    counted = {name: [line for line in lines if line.startswith(start)] for name, start in names.items()}
    return text, {name: int(float(found[0].split()[-1])) for name, found in counted.items() if found}


@pytest.mark.slow
async def test_a_server_that_is_started_again_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "unmask" / "sessions"
    with serve("unmask-tiny", "--session-store", "10MB") as server:
        first, counted = await ask(server.url)
        assert counted == {"cached": 0, "restored": 0}
        assert server.stop() == 0
    files, taken = held_in(folder)
    assert files == 1
    assert 0 < taken <= 10**7
    with serve("unmask-tiny", "--session-store", "10MB") as server:
        again, counted = await ask(server.url)
        assert again == first
        assert counted["cached"] > 64
        assert counted["restored"] >= counted["cached"]
        server.process.kill()
    assert held_in(folder) == (files, taken)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--session-store", "1GiB"], "others may write there. [invalid_value]"),
        (["--session-store", "80%"], "'80%' is no size, like 4GiB."),
    ],
)
def test_what_cannot_be_kept_is_said_at_once(tmp_path, options, words):
    folder = tmp_path / "unmask" / "sessions"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    done = subprocess.run(
        [UNMASK, "serve", "unmask-tiny", *options],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment() | {"XDG_DATA_HOME": str(tmp_path), "COLUMNS": "200"},
    )
    assert done.returncode != 0
    assert words in done.stderr
