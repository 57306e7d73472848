"""A log is read from its end, and along while it is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unmask.gateway.log_file import LogFile
from unmask.gateway.log_tail import read_since, read_tail


def test_of_no_file_there_is_nothing(tmp_path):
    piece = read_tail(tmp_path / "m.log", 10)
    assert piece.lines == []
    LogFile(tmp_path / "m.log").write(b"first")
    assert read_since(tmp_path / "m.log", piece.position).lines == ["first"]


def test_the_last_lines_reach_into_the_older_file(tmp_path):
    file = LogFile(tmp_path / "m.log", half_bytes=64)
    for number in range(12):
        file.write(f"line number {number:02}".encode())
    assert (tmp_path / "m.log.1").exists()
    told = [f"line number {number:02}" for number in range(12)]
    assert read_tail(file.path, 6).lines == told[-6:]
    assert read_tail(file.path, 100).lines == told[-len(read_tail(file.path, 100).lines) :]


def test_a_line_that_is_not_whole_is_left_for_the_next_time(tmp_path):
    path = tmp_path / "m.log"
    path.write_bytes("one\ntwo\u2028still two\nthr".encode())
    piece = read_tail(path, 10)
    assert piece.lines == ["one", "two\u2028still two"]
    path.write_bytes(path.read_bytes() + b"ee\n")
    assert read_since(path, piece.position).lines == ["three"]


def test_a_position_in_a_file_that_is_gone_begins_anew(tmp_path):
    (tmp_path / "m.log").write_bytes(b"new\n")
    assert read_since(tmp_path / "m.log", "1:999").lines == ["new"]


@given(bursts=st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_whoever_reads_along_sees_each_line_once(bursts, tmp_path_factory):
    """As long as no more is written between two looks than the files hold."""
    file = LogFile(tmp_path_factory.mktemp("log") / "m.log", half_bytes=64)
    position, seen, written = read_tail(file.path, 1).position, [], 0
    for burst in bursts:
        for _ in range(burst):
            file.write(f"line {written:06}".encode())
            written += 1
        piece = read_since(file.path, position)
        position = piece.position
        seen += piece.lines
    file.close()
    assert seen == [f"line {number:06}" for number in range(written)]
