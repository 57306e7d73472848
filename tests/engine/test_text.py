"""Text out of events: the same for every grouping of tokens, with and without stop strings."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.fakes import MODEL
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.engine.completion import TextRequest
from unmask.engine.text import CellDecoder, TextAssembler
from unmask.events import CanvasEvent, RequestStats
from unmask.params import GenerationParams
from unmask.resolve import resolve

TOKENIZER = Tokenizer(TokenizerSource.from_directory(open_checkpoint(EMBEDDED_MODEL).path), mask_id=6)
PARAMS = resolve(GenerationParams(seed=1), MODEL, 3)

texts = st.text(alphabet=st.sampled_from("ab#é漢🙂\n "), max_size=30)
token_ids = st.one_of(texts.map(TOKENIZER.encode_text), st.lists(st.integers(7, TOKENIZER.size - 1), max_size=20))


def assemble(groups: list[list[int]], stop=(), finish="length", ended_by_token=False):
    """Feed ``groups`` of tokens; the deltas up to the last."""
    assembler = TextAssembler(TOKENIZER, TextRequest([1, 2, 3], PARAMS, tuple(stop)))
    given, events = 0, []
    for n, group in enumerate(groups):
        given += len(group)
        events.append(CanvasEvent("x", group, RequestStats(forwards=n, committed=given)))
    events.append(CanvasEvent("x", [], RequestStats(forwards=len(groups), committed=given + 5), finish, ended_by_token))
    deltas = []
    for event in events:
        deltas.append(assembler.feed(event))
        if deltas[-1].completion is not None:
            break
    return deltas


def regroup(ids, cuts):
    bounds = sorted({0, len(ids), *(cut % (len(ids) + 1) for cut in cuts)})
    return [ids[a:b] for a, b in pairwise(bounds)]


@given(ids=token_ids, cuts=st.lists(st.integers(0, 100), max_size=8))
def test_pieces_equal_the_whole(ids, cuts):
    deltas = assemble(regroup(ids, cuts))
    assert "".join(delta.text for delta in deltas) == TOKENIZER.decode(ids)
    assert deltas[-1].completion.completion_tokens == len(ids)
    assert [token for delta in deltas for token in delta.token_ids] == ids


@given(
    ids=token_ids,
    cuts=st.lists(st.integers(0, 100), max_size=8),
    stop=st.lists(st.text(alphabet="ab#é漢 ", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_stop_strings_cut_the_same_way_for_any_grouping(ids, cuts, stop):
    one_by_one = assemble([[token] for token in ids], tuple(stop))
    grouped = assemble(regroup(ids, cuts), tuple(stop))
    text = "".join(delta.text for delta in grouped)
    assert text == "".join(delta.text for delta in one_by_one)
    assert grouped[-1].completion.completion_tokens == one_by_one[-1].completion.completion_tokens
    assert grouped[-1].completion.finish_reason == one_by_one[-1].completion.finish_reason
    assert not any(string in text for string in stop)
    whole = TOKENIZER.decode(ids)
    stopped_by = grouped[-1].completion.stopped_by
    assert stopped_by == one_by_one[-1].completion.stopped_by
    if grouped[-1].completion.finish_reason == "stop":
        assert stopped_by in stop
        assert whole.startswith(text + stopped_by)
    else:
        assert stopped_by is None
        assert text == whole


def test_the_end_token_counts_but_is_not_shown():
    deltas = assemble([TOKENIZER.encode_text("a b")], finish="stop", ended_by_token=True)
    assert "".join(delta.text for delta in deltas) == "a b"
    assert [delta.completion is None for delta in deltas] == [True, False]
    assert deltas[-1].completion.completion_tokens == len(TOKENIZER.encode_text("a b")) + 1


@given(ids=token_ids, cuts=st.lists(st.integers(0, 100), max_size=8), stop=st.sampled_from([(), ("a",), ("b#",)]))
def test_the_completion_is_its_deltas_put_together(ids, cuts, stop):
    deltas = assemble(regroup(ids, cuts), stop)
    completion = deltas[-1].completion
    assert completion.text == "".join(delta.text for delta in deltas)
    assert completion.token_ids == [token for delta in deltas for token in delta.token_ids]
    assert completion.stats == deltas[-1].stats
    assert completion.discarded_tokens == deltas[-1].stats.committed - completion.completion_tokens >= 0


def test_cells_show_masks_as_none_and_decode_a_token_once(monkeypatch):
    decoded = []
    pieces = TOKENIZER.pieces
    monkeypatch.setattr(TOKENIZER, "pieces", lambda ids: decoded.extend(ids) or pieces(ids))
    cells = CellDecoder(TOKENIZER)
    first, second = TOKENIZER.encode_text("a")[0], TOKENIZER.encode_text("b")[0]
    assert cells.decode([first, TOKENIZER.mask_id, first]) == ["a", None, "a"]
    assert cells.decode([first, second, TOKENIZER.mask_id]) == ["a", "b", None]
    assert decoded == [first, second]


def test_text_that_may_become_a_stop_string_is_held_back():
    deltas = assemble([TOKENIZER.encode_text("a#"), TOKENIZER.encode_text("#b")], stop=("##",))
    assert deltas[0].text == "a"
    assert deltas[-1].completion.finish_reason == "stop"
    assert "".join(delta.text for delta in deltas) == "a"


def test_a_stop_string_hit_reports_the_forwards_of_its_own_event():
    """Whatever the engine did afterwards, so that counts are reproducible."""
    deltas = assemble([TOKENIZER.encode_text("a"), TOKENIZER.encode_text("#"), TOKENIZER.encode_text("b")], stop=("#",))
    assert deltas[-1].stats.forwards == 1


@pytest.mark.parametrize("split", range(1, 4))
def test_a_character_over_several_tokens_is_never_torn(split):
    ids = TOKENIZER.encode_text("🙂")
    assert len(ids) >= 4, "this test needs a character of several tokens"
    deltas = assemble([ids[:split], ids[split:]])
    assert deltas[0].text == ""
    assert "".join(delta.text for delta in deltas) == "🙂"
