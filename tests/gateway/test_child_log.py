"""What children write is kept within bounds, whatever it is and wherever it goes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.conftest import running
from unmask.gateway.child_log import LINE_BYTES, TAIL_LINES, ChildLog, LineCutter
from unmask.gateway.log_file import LogFile


@given(text=st.binary(max_size=60).map(lambda raw: raw.replace(b"0", b"\n")), cuts=st.lists(st.integers(0, 60)))
def test_lines_are_the_same_for_any_chunks(text, cuts):
    borders = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    cutter = LineCutter(limit=8)
    lines = [line for begin, end in pairwise(borders) for line in cutter.feed(text[begin:end])]
    *complete, rest = text.split(b"\n")
    short = [line if len(line) <= 8 else line[:8] + b"..." for line in [*complete, rest]]
    assert [*lines, cutter.rest()] == [*(line.removesuffix(b"\r") for line in short[:-1]), short[-1]]


def test_only_the_last_lines_are_kept_and_the_telling_one(tmp_path):
    source, sink = os.pipe()
    log = ChildLog(source, LogFile(tmp_path / "m.log"))
    log.note("starting \udcff")
    with os.fdopen(sink, "wb") as pipe:
        pipe.write(b"E ggml_aligned_malloc: insufficient memory (attempted to allocate 90.00 MB)\n")
        for number in range(3 * TAIL_LINES):
            pipe.write(b"#%d frame of a debugger\r\n" % number)
        pipe.write(b"a\x1b[31mred\xff, without an end")
    log.close(5)
    tail = log.tail()
    assert len(tail) == TAIL_LINES
    assert tail[-2:] == [f"#{3 * TAIL_LINES - 1} frame of a debugger", "a\\x1b[31mred\ufffd, without an end"]
    assert log.tail(1) == tail[-1:]
    assert "insufficient memory" in log.telling_line()
    written = (tmp_path / "m.log").read_text().splitlines()
    assert written[0] == "--- starting \\udcff"
    assert written[-TAIL_LINES:] == tail
    assert (tmp_path / "m.log").stat().st_mode & 0o077 == 0


def test_without_a_telling_line_the_last_one_of_the_child_tells(tmp_path):
    source, sink = os.pipe()
    log = ChildLog(source, LogFile(tmp_path / "m.log"))
    os.write(sink, b"first\nlast\n--- ended (status 3)\n")
    os.close(sink)
    log.close(5)
    assert log.telling_line() == "last"


def test_a_log_on_disk_is_bounded_and_goes_on_after_a_restart(tmp_path):
    path = tmp_path / "m.log"
    for start in range(0, 100, 10):
        file = LogFile(path, half_bytes=200)
        for number in range(start, start + 10):
            file.write(b"line %03d" % number)
        file.close()
    older, newer = (tmp_path / "m.log.1").read_text(), path.read_text()
    assert max(len(older), len(newer)) <= 200
    lines = (older + newer).splitlines()
    assert lines == [f"line {number:03d}" for number in range(100 - len(lines), 100)]
    assert len(lines) > 20
    assert file.lost == 0


def test_a_folder_that_is_gone_costs_lines_only(tmp_path):
    file = LogFile(tmp_path / "gone" / "m.log")
    file.write(b"lost")
    (tmp_path / "gone").mkdir()
    file.write(b"kept")
    file.close()
    assert file.lost == 1
    assert file.path.read_text() == "kept\n"


def test_a_disk_that_becomes_full_within_a_line_costs_lines_only(tmp_path):
    """With a limit on sizes of files in place of a disk; it is of the whole process, hence another one."""
    program = """
import resource, sys
from pathlib import Path
from unmask.gateway.log_file import LogFile
file = LogFile(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (25, resource.RLIM_INFINITY))
for number in range(5):
    file.write(b"line %d." % number)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.write(b"again")
print(file.lost)
"""
    path = tmp_path / "m.log"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
    assert path.read_text() == "line 0.\nline 1.\nline 2.\nl\nagain\n"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


async def test_a_child_whose_log_finds_no_room_serves_on(fake, directory):
    directory.log_path("m").symlink_to("/dev/full")
    async with running(fake("--say", "one", "--say", "two"), directory) as child:
        assert [line for line in child.tail() if not line.startswith("---")] == ["one", "two"]
        assert child.lost_lines == 3
        assert child.status is None


async def test_megabytes_without_a_line_end_hold_nobody_up(fake, directory):
    async with running(fake("--garbage", str(20 * 2**20)), directory) as child:
        assert child.load_seconds < 5
    tail = child.tail()
    assert max(len(line) for line in tail) < 8 * LINE_BYTES  # escaped
    assert sum(path.stat().st_size for path in Path(directory.path).glob("m.log*")) < 3 * 2**20
