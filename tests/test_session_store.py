"""Files that outlive a server: whole or not there, for their user alone, and never more than they may be."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unmask.errors import InvalidValueError
from unmask.session_store import Kept, SessionStore, held_in, key_of, mark_of

KEY, OTHER = key_of("one"), key_of("other")


def soon() -> float:
    return time.monotonic() + 30


@pytest.fixture
def store(tmp_path) -> SessionStore:
    return SessionStore(tmp_path / "sessions", 1000)


def put(store: SessionStore, content: bytes, key: str = KEY, part: int = 0) -> Kept:
    with store.draft(key, part) as draft:
        draft.path.write_bytes(content)
        return draft.seal(soon())


def test_what_was_put_is_there_for_its_user_alone(store):
    kept = put(store, b"abc")
    assert store.kept(KEY) == [kept]
    assert store.kept(OTHER) == []
    assert store.intact(kept, soon())
    assert kept.path.read_bytes() == b"abc"
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert held_in(store.directory) == (1, 3)


def test_a_file_is_its_users_alone_while_it_is_written(store):
    with store.draft(KEY, 0) as draft:
        assert stat.S_IMODE(draft.path.stat().st_mode) == 0o600
    assert list(store.directory.iterdir()) == []


def test_a_new_one_takes_the_place_of_the_same_part_alone(store):
    first, second, other = put(store, b"1", part=0), put(store, b"2", part=1), put(store, b"3", OTHER)
    again = put(store, b"4", part=0)
    assert store.kept(KEY) == [again, second]
    assert store.kept(OTHER) == [other]
    assert not first.path.exists()
    same = put(store, b"4", part=0)
    assert (same, store.kept(KEY)) == (again, [again, second])


def test_those_go_that_were_not_used_for_longest(store):
    files = [put(store, bytes(300), key_of(number)) for number in range(3)]
    for age, one in enumerate(files):
        os.utime(one.path, ns=(age, age))
    assert store.intact(files[0], soon())  # which is a use
    put(store, bytes(400), OTHER)
    assert [one.path.exists() for one in files] == [True, False, True]
    assert held_in(store.directory) == (3, 1000)


def test_files_of_a_clock_that_was_wrong_go_first(store):
    before = put(store, bytes(600))
    os.utime(before.path, (time.time() + 10**6,) * 2)
    kept = put(store, bytes(600), OTHER)
    assert (kept.path.exists(), before.path.exists()) == (True, False)


def test_what_is_no_file_is_left_alone(store, tmp_path):
    """A pipe would be waited for, and what a link leads to is not the store's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(bytes(5000))
    (store.directory / f"{KEY}-0-{'a' * 64}.kv").symlink_to(elsewhere)
    os.mkfifo(store.directory / f"{KEY}-1-{'a' * 64}.kv")
    os.mkfifo(store.directory / f"tmp-{'a' * 32}")
    (store.directory / f"{KEY}-2-{'a' * 64}.kv").mkdir()
    kept = put(store, b"abc", part=3)
    assert store.kept(KEY) == [kept]
    assert held_in(store.directory) == (1, 3)


def test_one_that_is_too_large_is_not_kept_and_pushes_none_out(store):
    kept = put(store, bytes(900))
    with pytest.raises(OSError, match="1001 bytes are more than the store may hold, 1000"):
        put(store, bytes(1001), OTHER)
    assert list(store.directory.iterdir()) == [kept.path]


def test_what_takes_too_long_is_given_up(store):
    with store.draft(KEY, 0) as draft:
        draft.path.write_bytes(b"abc")
        with pytest.raises(TimeoutError):
            draft.seal(time.monotonic() - 1)
    assert list(store.directory.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.binary(min_size=1, max_size=200), st.data())
def test_no_damage_goes_unnoticed(store, content, data):
    kept = put(store, content)
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    harm = data.draw(st.sampled_from(["flip", "cut", "longer"]))
    damaged = bytearray(content)
    if harm == "flip":
        damaged[bit // 8] ^= 1 << bit % 8
    kept.path.write_bytes({"flip": damaged, "cut": content[: bit // 8], "longer": content + b"\0"}[harm])
    assert not store.intact(kept, soon())
    store.forget(kept)
    assert store.kept(KEY) == []


def test_a_file_that_cannot_be_read_is_an_error_of_the_system(store):
    kept = put(store, b"abc")
    kept.path.unlink()
    kept.path.mkdir()  # root may read everything, but not this
    with pytest.raises(OSError, match="directory"):
        store.intact(kept, soon())


KILLED = """
import sys, time
from pathlib import Path
from unmask.session_store import SessionStore
store = SessionStore(Path(sys.argv[1]), 1000)
with store.draft("0" * 32, 0) as draft:
    draft.path.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_server_was_writing_is_swept_once_it_is_dead(store):
    mine = store.draft(KEY, 0)
    with mine as draft, subprocess.Popen([sys.executable, "-c", KILLED, str(store.directory)],
                                         stdout=subprocess.PIPE) as writer:  # fmt: skip
        try:
            assert writer.stdout.readline() == b"writing\n"
            store.sweep()
            assert len(list(store.directory.iterdir())) == 2, "both are being written"
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        SessionStore(store.directory, 1000).sweep()
        assert list(store.directory.iterdir()) == [draft.path]
        draft.path.write_bytes(b"mine")
        draft.seal(soon())
    assert len(store.kept(KEY)) == 1


def test_files_of_others_are_left_alone(store):
    stranger = store.directory / "notes.txt"
    stranger.write_bytes(bytes(5000))
    put(store, bytes(1000))
    store.sweep()
    assert stranger.exists()
    assert held_in(store.directory) == (1, 1000)


def test_a_folder_where_others_may_write_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(InvalidValueError, match="others may write there"):
        SessionStore(tmp_path / "open", 1)
    (tmp_path / "seen").mkdir(mode=0o755)
    SessionStore(tmp_path / "seen", 1)
    assert stat.S_IMODE((tmp_path / "seen").stat().st_mode) == 0o700


def test_several_servers_at_once(store):
    """Eight writers of the same and of different keys: no error, nothing torn, nothing beyond the bound."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        own = SessionStore(store.directory, 1000)
        try:
            for turn in range(40):
                key = KEY if turn % 2 else key_of(number)
                put(own, bytes([number, turn]) * 60, key, turn % 3)
                own.sweep()
                for one in own.kept(KEY):
                    try:
                        assert own.intact(one, soon())
                    except FileNotFoundError:
                        continue  # another one has just replaced it
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert held_in(store.directory)[1] <= 1000
    assert all(name.suffix == ".kv" for name in store.directory.iterdir())


def test_names_of_facts(tmp_path):
    assert key_of({"a": 1, "b": (2, "x")}) == key_of({"b": [2, "x"], "a": 1})
    assert len({key_of(fact) for fact in (1, "1", [1], None, {"1": 1})}) == 5
    file = tmp_path / "m"
    file.write_bytes(b"abc")
    before = mark_of(file)
    assert mark_of(file) == before
    times = file.stat()
    file.write_bytes(b"abd")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a copy that keeps times would
    assert mark_of(file) != before
    assert mark_of(Path(os.path.relpath(file)))[0] == str(file)
