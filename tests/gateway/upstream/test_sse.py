"""Events are the same for any cut of their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.gateway.upstream import sse
from unmask.gateway.upstream.sse import EventReader, EventTooLargeError

LINES = ("data: one", "data:two", "data", "data: ", ": comment", "event: x", "id: 7", "retry: 9", "", '{"a": 1}',
         'error: {"code": 500}', "nonsense", "data: ümläut 🦙")  # fmt: skip


def read(raw: bytes, cuts=()):
    reader = EventReader()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        found += reader.feed(raw[start:end])
    return found + reader.finish()


@st.composite
def cut_bytes(draw):
    lines = draw(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(("\n", "\r\n", "\r", "\n\n", "\r\n\r\n")))))
    raw = "".join(line + end for line, end in lines).encode() + draw(st.binary(max_size=8))
    return raw, sorted(draw(st.lists(st.integers(0, len(raw)), max_size=12)))


@given(cut_bytes())
def test_any_cut_gives_the_same_events(raw_and_cuts):
    raw, cuts = raw_and_cuts
    whole = read(raw)
    assert read(raw, cuts) == whole
    assert read(raw, range(1, len(raw))) == whole
    assert all(event.strip() for event in whole)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_all_kinds(end):
    raw = f": hello{end}event: x{end}data: one{end}data:two{end}{end}data: three{end}{end}".encode()
    assert read(raw) == [b"one\ntwo", b"three"]


def test_events_without_data_are_none():
    assert read(b"event: ping\n\n: x\n\nretry: 3\n\ndata:\n\ndata: \n\n") == []


def test_a_last_event_without_its_line_break_counts():
    assert read(b"data: one\n\ndata: two") == [b"one", b"two"]


def test_errors_that_are_no_events():
    assert read(b'error: {"code":500}\n\n') == [b'{"code":500}']
    assert read(b'{"error": "x"}\n') == [b'{"error": "x"}']
    assert read(b'\xef\xbb\xbfdata: {"a":1}\n\n') == [b'{"a":1}']


@pytest.mark.parametrize("raw", [b"data: " + b"x" * 2000, b"data: x\n" * 400, b"y" * 2000])
def test_an_event_that_does_not_end_is_given_up(raw, monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    with pytest.raises(EventTooLargeError):
        read(raw)


def test_what_is_not_kept_does_not_count(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    assert read(b": keep-alive\n" * 400 + b"data: one\n\n" * 400) == [b"one"] * 400
