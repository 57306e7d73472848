"""Entries of tokens go with the text that they made, however events group them and wherever stop strings cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_text import MODEL, TOKENIZER, regroup, token_ids
from unmask.engine.completion import TextRequest
from unmask.engine.text import CellDecoder, TextAssembler
from unmask.events import CanvasEvent, RequestStats, TokenLogprob
from unmask.params import GenerationParams
from unmask.resolve import resolve

cuts = st.lists(st.integers(0, 100), max_size=8)
stops = st.lists(st.text(alphabet="ab#é漢 ", min_size=1, max_size=3), max_size=3)


def assemble(groups, stop=(), logprobs=0):
    """The deltas of ``groups`` of tokens; the n-th token's log-probability is -n."""
    params = resolve(GenerationParams(logprobs=logprobs), MODEL, 3)
    assembler = TextAssembler(TOKENIZER, TextRequest([1, 2, 3], params, tuple(stop)))
    deltas, number = [], 0
    for group, finish in [*((group, None) for group in groups), ([], "length")]:
        entries = [TokenLogprob(token, -float(number + n), []) for n, token in enumerate(group)]
        number += len(group)
        event = CanvasEvent("x", group, RequestStats(), finish, logprobs=None if logprobs is None else entries)
        deltas.append(assembler.feed(event))
        if deltas[-1].completion is not None:
            return deltas
    raise AssertionError("the last event ends the text")


def listed(deltas):
    return [entry for delta in deltas for entry in delta.logprobs]


@given(ids=token_ids, cuts=cuts)
def test_without_stop_strings_every_token_is_listed_once(ids, cuts):
    deltas = assemble(regroup(ids, cuts))
    entries = listed(deltas)
    assert [entry.token_id for entry in entries] == ids == deltas[-1].completion.token_ids
    assert [entry.logprob for entry in entries] == [-n for n in range(len(ids))]
    assert deltas[-1].completion.logprobs == entries


@given(ids=token_ids, cuts=cuts, stop=stops)
def test_the_same_entries_for_any_grouping(ids, cuts, stop):
    assert listed(assemble(regroup(ids, cuts), stop)) == listed(assemble([[token] for token in ids], stop))


@given(ids=token_ids, cuts=cuts, stop=stops)
def test_what_is_listed_is_what_the_shown_text_took(ids, cuts, stop):
    """The tokens listed are the first ones; they cover the text, and without the last one they would not."""
    deltas = assemble(regroup(ids, cuts), stop)
    text, entries = deltas[-1].completion.text, listed(deltas)
    tokens = [entry.token_id for entry in entries]
    assert tokens == ids[: len(tokens)]
    assert TOKENIZER.decode(tokens).startswith(text)
    if deltas[-1].completion.finish_reason == "stop" and tokens:
        assert entries[-1].offset < len(text) or not text
    if deltas[-1].completion.finish_reason == "stop" and not text:
        assert tokens == []


@given(ids=token_ids, cuts=cuts, stop=stops)
def test_an_entry_comes_with_the_end_of_its_text(ids, cuts, stop):
    """Never before its text can be shown, and offsets say where that is."""
    shown = 0
    for delta in assemble(regroup(ids, cuts), stop):
        shown += len(delta.text)
        for entry in delta.logprobs:
            assert entry.offset <= shown
    offsets = [entry.offset for entry in listed(assemble(regroup(ids, cuts), stop))]
    assert offsets == sorted(offsets)


def test_held_back_text_holds_its_tokens_back():
    a, hash_, b = (TOKENIZER.encode_text(text)[0] for text in "a#b")
    deltas = assemble([[a, hash_], [b]], stop=("##",))
    assert [[entry.token_id for entry in delta.logprobs] for delta in deltas] == [[a], [hash_, b], []]
    assert [[entry.offset for entry in delta.logprobs] for delta in deltas] == [[0], [1, 2], []]


def test_tokens_of_a_stop_string_are_not_listed():
    a, hash_ = (TOKENIZER.encode_text(text)[0] for text in "a#")
    deltas = assemble([[a], [hash_], [hash_], [a]], stop=("##",))
    assert [entry.token_id for entry in listed(deltas)] == [a]
    assert deltas[-1].completion.token_ids == [a, hash_, hash_]


def test_parts_of_a_character_are_listed_together_with_their_bytes():
    ids = TOKENIZER.encode_text("🙂")
    assert len(ids) == 4
    deltas = assemble([[token] for token in ids])
    assert [len(delta.logprobs) for delta in deltas] == [0, 0, 0, 4, 0]
    spelled = [CellDecoder(TOKENIZER).spell(token) for token in ids]
    assert b"".join(bytes(part) for _, part in spelled).decode() == "🙂"


@given(st.integers(7, TOKENIZER.size - 1))
def test_a_whole_token_is_spelled_as_its_text(token):
    text, spelled = CellDecoder(TOKENIZER).spell(token)
    assert "\ufffd" in text or bytes(spelled).decode() == text == TOKENIZER.pieces([token])[0]


def test_who_does_not_ask_is_told_nothing():
    deltas = assemble([TOKENIZER.encode_text("ab")], logprobs=None)
    assert [delta.logprobs for delta in deltas] == [None, None]
    assert deltas[-1].completion.logprobs is None
