# ruff: noqa: RUF001
"""Signs that a model does not work, told from its text: none in what people write, nearly always in chance."""

from __future__ import annotations

import importlib
import string
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import gguf_files
from tests.answers.genuine import GENUINE
from tests.answers.token_strings import caught, gguf_spellings, random_texts
from unmask.answers.symptoms.alphabets import alphabet
from unmask.answers.symptoms.mask_text import MASK_TEXTS, mask_text
from unmask.answers.symptoms.repetition import loops
from unmask.answers.symptoms.salad import salad
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint


@pytest.mark.parametrize("name", GENUINE)
def test_what_people_write_shows_no_symptom(name):
    text = GENUINE[name]
    assert (salad(text), loops(text, 24), mask_text(text)) == ("", False, "")


@pytest.mark.parametrize("name", [name for name, text in GENUINE.items() if " " in text])
def test_nor_does_it_where_an_answer_is_cut(name):
    words = GENUINE[name].split(" ")
    assert [text for end in range(len(words)) if salad(text := " ".join(words[:end]))] == []


@pytest.mark.parametrize("text", [
    "ok \ufffd\ufffd\x13 and \x1a\x1b so on", "the и of 你 and نعم in हाँ the и of 你 and نعم in हाँ to",
    "приvет мir, это сloвo не тo", "bond botany masterpiecesgin amb predefinedaccharide icos perspective "
    "abundantlyeltic fascinating neglect discretion Exitclf opened Pyramrefresh tonnes Jamestown",
    "ris Salar upE18 waterter1 8777atecond appleloud tigase com21 23etterount retah tigith 88Define bles 28",
])  # fmt: skip
def test_salad(text):
    assert salad(text)


@pytest.fixture(scope="module")
def tiny_tokens(tmp_path_factory):
    path = open_checkpoint(EMBEDDED_MODEL).path
    target = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return gguf_spellings(gguf_files.convert(path, target, vocabulary=gguf_files.vocabulary_of(path, "gpt-2")))


@pytest.mark.parametrize(("length", "share"), [(24, 0.88), (48, 0.95)])
def test_random_tokens_are_salad(tiny_tokens, length, share):
    assert caught(random_texts(tiny_tokens, length, 400), salad) > share


@pytest.mark.parametrize(("length", "share"), [(24, 0.88), (48, 0.95)])
def test_so_are_those_of_a_large_vocabulary(smollm2, length, share):
    assert caught(random_texts(gguf_spellings(smollm2), length, 400), salad) > share


@given(st.text(st.characters(), min_size=20, max_size=60), st.integers(0, 3))
def test_any_characters_are_judged(text, cut):
    salad(text), loops(text, 24), salad(text[cut:])


@pytest.mark.parametrize(
    "text", ["1 " * 47, "!" * 64, "ilver" * 8, "I think so. " * 6, "Well, " + "ha, " * 20, "是的，" * 12]
)
def test_loops(text):
    assert loops(text, 24)


@pytest.mark.parametrize("text", [
    ", ".join(map(str, range(200))), "| a | b |\n|---|---|\n| 1 | 2 |\n" + "-" * 40 + "\nThat was the table.",
    "The sum is 1000000000000, and then some words follow so that it ends well.", " " * 300 + "x", "\n" * 100,
    "def f():\n" + "\n".join(f"    x{n} = y[{n}]" for n in range(30)), string.printable,
])  # fmt: skip
def test_what_is_no_loop(text):
    assert not loops(text, 24)


def test_only_the_end_of_a_text_is_looked_at():
    numbers = " ".join(map(str, range(300)))
    assert not loops("no " * 100 + numbers, 24)
    assert loops(numbers + "no " * 100, 24)


@pytest.mark.parametrize("text", ["a" * 10**6, "ab" * 10**6, "The quick brown fox. " * 10**5, "\ufffd" * 10**6])
def test_long_texts_take_no_longer(text):
    begun = time.perf_counter()
    loops(text, 128), salad(text), mask_text(text)
    assert time.perf_counter() - begun < 0.5


def test_every_familys_mask_is_known():
    registry = importlib.import_module("unmask.models.registry")
    masks = {mask for family in registry.FAMILIES.values() for mask in family.mask_tokens}
    assert masks
    assert masks <= set(MASK_TEXTS)
    assert mask_text("so [MASK] it is") == "[MASK]"
    assert mask_text("so <gap> it is", own=("<gap>",)) == "<gap>"


def test_every_character_has_one_alphabet_or_none():
    assert {alphabet(chr(code)) for code in range(sys.maxunicode) if chr(code).isalpha()} >= {"LATIN", "CJK", "ARABIC"}
    assert [alphabet(one) for one in "aдあ漢ア한1ａ𝑥 "] == ["LATIN", "CYRILLIC", *["CJK"] * 3, "HANGUL", "", "", "", ""]
