"""Where responses are kept: for whom, how many, how long, and in what files."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess

import pytest

from tests.serving.processes import UNMASK, environment
from unmask.errors import StoreError
from unmask.serving.response_store import KeptResponse, ResponseStore, StoreLimits

PLENTY = StoreLimits()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def response(name: str, size: int = 10) -> KeptResponse:
    return KeptResponse(name, b"[]", b"x" * (size - 2))


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """make(limits): a store, closed afterwards."""
    made = []

    def make(limits=PLENTY, clock=Clock()) -> ResponseStore:  # noqa: B008 (shared on purpose: it stands still)
        path = None if request.param == "memory" else tmp_path / "responses.db"
        made.append(ResponseStore(path, limits, clock))
        return made[-1]

    yield make
    for store in made:
        store.close()


async def names(store, *asked, owner="me") -> list[str]:
    return [name for name in asked if await store.find(owner, name) is not None]


async def test_what_is_kept_is_found_again_by_its_owner_only(make):
    store = make()
    kept = KeptResponse("a", b'[{"x": 1}]', b'{"id": "a"}')
    assert await store.keep("me", kept)
    assert await store.find("me", "a") == kept
    assert await store.find("you", "a") is None
    assert not await store.delete("you", "a")
    assert await store.delete("me", "a")
    assert not await store.delete("me", "a")
    assert await store.find("me", "a") is None


async def test_the_oldest_make_room_for_new_rows(make):
    store = make(StoreLimits(rows=3))
    for name in "abcde":
        await store.keep("me", response(name))
    assert await names(store, *"abcde") == ["c", "d", "e"]


async def test_the_oldest_make_room_for_new_bytes(make):
    store = make(StoreLimits(size=100))
    for name in "abc":
        await store.keep("me", response(name, 40))
    assert await names(store, *"abc") == ["b", "c"]
    await store.keep("me", response("d", 100))
    assert await names(store, *"abcd") == ["d"]


async def test_what_is_larger_than_all_room_is_not_kept_and_pushes_nobody_out(make):
    store = make(StoreLimits(size=100))
    await store.keep("me", response("a", 40))
    assert not await store.keep("me", response("b", 101))
    assert await names(store, "a", "b") == ["a"]


async def test_what_is_too_old_is_gone(make):
    clock = Clock()
    store = make(StoreLimits(age=60), clock)
    await store.keep("me", response("a"))
    clock.now += 60
    assert await names(store, "a") == ["a"]
    clock.now += 1
    assert await names(store, "a") == []
    await store.keep("me", response("b"))
    clock.now -= 30
    assert await names(store, "a", "b") == ["b"], "it was dropped, not only hidden"


async def test_many_at_once(make):
    store = make(StoreLimits(rows=50))
    wanted = [f"r{number}" for number in range(100)]
    assert all(await asyncio.gather(*(store.keep("me", response(name)) for name in wanted)))
    found = await asyncio.gather(*(store.find("me", name) for name in wanted))
    assert sum(one is not None for one in found) == 50


async def test_the_event_loop_goes_on_while_another_process_holds_the_file(tmp_path):
    path = tmp_path / "responses.db"
    store = ResponseStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    keeping = asyncio.create_task(store.keep("me", response("a")))
    ticks = 0
    for _ in range(20):
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks == 20
    assert not keeping.done()
    other.execute("COMMIT")
    other.close()
    assert await keeping
    store.close()


async def test_two_servers_may_share_a_file(tmp_path):
    one, other = (ResponseStore(tmp_path / "responses.db") for _ in range(2))
    await one.keep("me", response("a"))
    await other.keep("me", response("b"))
    assert await names(one, "a", "b") == await names(other, "a", "b") == ["a", "b"]
    one.close()
    other.close()


async def test_a_file_outlives_its_store_and_is_private(tmp_path):
    path = tmp_path / "responses.db"
    first = ResponseStore(path)
    await first.keep("me", response("a"))
    first.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    second = ResponseStore(path)
    assert await names(second, "a") == ["a"]
    await second.delete("me", "a")
    second.close()
    assert b"xxxxxxxx" not in path.read_bytes(), "deleted text is overwritten"


def foreign(path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE pets (name)")
    database.close()


def newer(path) -> None:
    ResponseStore(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()


def damaged(path) -> None:
    ResponseStore(path).close()
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    path.write_bytes(content)


def no_database(path) -> None:
    path.write_bytes(b"a diary\n" * 1000)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (foreign, "another program's"),
        (newer, "newer version"),
        (damaged, "damaged|malformed"),
        (no_database, "not a database"),
        (lambda path: path.mkdir(), "directory"),
    ],
)
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, spoil, words):
    path = tmp_path / "responses.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError, match=words) as refusal:
        ResponseStore(path)
    assert str(path) in str(refusal.value)
    assert "--store" in refusal.value.hint
    assert before == (path.read_bytes() if path.is_file() else b"")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        ResponseStore(tmp_path / "nowhere" / "responses.db")


async def test_a_file_that_breaks_later_is_a_named_error(tmp_path):
    path = tmp_path / "responses.db"
    store = ResponseStore(path)
    other = sqlite3.connect(path)
    other.execute("DROP TABLE responses")
    other.close()
    for job in (store.keep("me", response("a")), store.find("me", "a"), store.delete("me", "a")):
        with pytest.raises(StoreError, match="no such table"):
            await job
    store.close()


def test_serve_says_what_is_wrong_with_its_file_before_it_loads_the_model(tmp_path):
    path = tmp_path / "responses.db"
    no_database(path)
    ended = subprocess.run(
        [UNMASK, "serve", "--port", "0", "--store", str(path)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert ended.returncode == 1
    assert "not a database" in ended.stderr
    assert "Traceback" not in ended.stderr
