"""From options to automata: what is asked, what is refused, what a vocabulary spells, and how long it may take."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from tests.constraints.local import LocalCompiler
from tests.serving.fakes import MODEL
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.constraints import compiler as compiler_module
from unmask.constraints.automaton import Automaton
from unmask.constraints.compiler import ConstraintCompiler
from unmask.constraints.literal import unanchored
from unmask.constraints.request import form_of
from unmask.constraints.token_bytes import TokenBytes
from unmask.errors import (
    InvalidValueError,
    NotInstalledError,
    QueueFullError,
    ShuttingDownError,
    UnmaskError,
    UnsupportedValueError,
)
from unmask.params import GenerationParams


@pytest.fixture(scope="module")
def tokenizer():
    return PromptEncoder(EMBEDDED_MODEL, MODEL).tokenizer


def spelled(constraint, tokenizer, text):
    """Whether the automaton accepts ``text``, as the tokenizer cuts it."""
    automaton = Automaton.from_bytes(constraint.automaton)
    state = automaton.start
    for token in tokenizer.encode_text(text):
        state = automaton.next_states[state, automaton.class_of[token]]
        if state < 0:
            return False
    return bool(automaton.accepting[state])


FORMS = [
    ({"regex": "^[a-c]+$"}, ["abc"], ["", "d"]),
    ({"regex": "a|ab|a*?c|"}, ["", "a", "ab", "aac"], ["b", "abc"]),
    ({"choices": ("yes", "a.b", "yes!")}, ["yes", "a.b", "yes!"], ["axb", "yes?"]),
    ({"template": "Is it {{x}}? (y/n)"}, ["Is it ? (y/n)", "Is it a\nb? (y/n)"], ["Is it a? y/n"]),
    ({"template": "{{ a }}+{{b}}", "holes": {"b": {"choices": ["1", "2"]}}}, ["x+2", "+1"], ["x+3"]),
    ({"template": "no hole"}, ["no hole"], ["no"]),
    ({"template": "{{a}}", "holes": {"a": {"json_schema": {"const": [1]}}}}, ["[1]"], ["1"]),
    ({"json_schema": {"type": "null"}}, ["null"], ["nul"]),
]


@pytest.mark.parametrize(("options", "good", "bad"), FORMS)
def test_forms(tokenizer, options, good, bad):
    constraint = LocalCompiler(tokenizer, MODEL).compile(GenerationParams(**options))
    assert constraint.kind == next(iter(options))
    assert [text for text in good if not spelled(constraint, tokenizer, text)] == []
    assert [text for text in bad if spelled(constraint, tokenizer, text)] == []


def test_errors_inside_a_hole_name_it():
    with pytest.raises(UnsupportedValueError, match=r"holes\.a.*oneOf") as error:
        form_of(GenerationParams(template="{{a}}", holes={"a": {"json_schema": {"oneOf": []}}}))
    assert error.value.param == "holes"


@pytest.mark.parametrize(
    "options",
    [
        {"regex": "a)(b"},
        {"template": "x{{a}}", "holes": {"a": {"regex": "a)|(b"}}},
        {"template": "x{{a}}", "holes": {"a": {"regex": "("}, "b": {"regex": ")"}}},
        {"template": "{{a}}{{b}}", "holes": {"a": {"regex": "(a"}, "b": {"regex": "b)"}}},
    ],
)
def test_an_expression_does_not_reach_out_of_its_brackets(tokenizer, options):
    compiler = LocalCompiler(tokenizer, MODEL)
    compiler.compile(GenerationParams(template="x{{a}}", holes={"a": {"choices": ["a"]}}))
    with pytest.raises(InvalidValueError):
        compiler.compile(GenerationParams(**options))


def test_one_that_is_no_expression_is_not_taken_for_another_of_equal_text(tokenizer):
    compiler = LocalCompiler(tokenizer, MODEL)
    compiler.compile(GenerationParams(regex="(?:a)|(b)"))
    with pytest.raises(InvalidValueError):
        compiler.compile(GenerationParams(template="{{a}}", holes={"a": {"regex": "a)|(b"}}))


def test_braces_that_never_close_take_no_time():
    begun = time.monotonic()
    form_of(GenerationParams(template="{{" * 2**15))
    assert time.monotonic() - begun < 1  # an expression took minutes over them


@pytest.mark.parametrize(
    "options",
    [
        {"template": "{{" + "?" * 9000 + "}}"},
        {"template": "{{a}}", "holes": {"b" * 9000: {"choices": ["1"]}}},
        {"template": "{{" + "a" * 9000 + "}}", "holes": {"a" * 9000: {}}},
        {"template": "{{" + "a" * 9000 + "}}", "holes": {"a" * 9000: {"choices": []}}},
        {"regex": "a$b" + "c" * 9000},
    ],
)
def test_refusals_are_short(tokenizer, options):
    with pytest.raises(InvalidValueError) as error:
        LocalCompiler(tokenizer, MODEL).compile(GenerationParams(**options))
    assert len(str(error.value)) < 500


def test_closing_ends_what_is_being_built(tokenizer):
    compiler = ConstraintCompiler(tokenizer, MODEL)
    threading.Timer(1, compiler.close).start()
    begun = time.monotonic()
    with pytest.raises(ShuttingDownError):
        compiler.compile(GenerationParams(regex="(a|b)*a(a|b){20}"))
    assert time.monotonic() - begun < 10
    with pytest.raises(ShuttingDownError):
        compiler.compile(GenerationParams(regex="a"))


async def test_nothing_is_built_that_nobody_waits_for(tokenizer):
    compiler = ConstraintCompiler(tokenizer, MODEL)
    hostile = [
        asyncio.create_task(compiler.compile_beside(GenerationParams(regex=f"(a|b)*a(a|b){{{times}}}")))
        for times in range(20, 30)
    ]
    await asyncio.sleep(1)
    for task in hostile:
        task.cancel()
    async with asyncio.timeout(10):
        assert await compiler.compile_beside(GenerationParams(regex="a")) is not None


async def test_only_so_many_forms_wait_to_be_built(tokenizer, monkeypatch):
    monkeypatch.setattr(compiler_module, "_MOST_WAITING", 3)
    compiler = ConstraintCompiler(tokenizer, MODEL)
    hostile = [
        asyncio.create_task(compiler.compile_beside(GenerationParams(regex=f"(a|b)*a(a|b){{{times}}}")))
        for times in range(20, 23)
    ]
    await asyncio.sleep(0.5)
    with pytest.raises(QueueFullError) as caught:
        await compiler.compile_beside(GenerationParams(regex="a"))
    assert caught.value.retry_after == 20
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)
    async with asyncio.timeout(10):
        assert await compiler.compile_beside(GenerationParams(regex="a")) is not None


def test_anchors_at_the_ends_say_nothing():
    assert unanchored("^a$") == "a"
    assert unanchored(r"a\$") == r"a\$"
    assert unanchored(r"a\\$") == r"a\\"
    assert unanchored("$") == ""


def test_an_automaton_is_built_once_and_the_oldest_is_forgotten(tokenizer, monkeypatch):
    built = []

    class Counting(LocalCompiler):
        def _run(self, job, form):
            built.append(form.pattern)
            return super()._run(job, form)

    monkeypatch.setattr(compiler_module, "_MOST_KEPT", 2)
    compiler = Counting(tokenizer, MODEL)
    for pattern in "abacabca":
        compiler.compile(GenerationParams(regex=pattern))
    assert built == ["a", "b", "c", "a", "b", "c", "a"]


def test_what_takes_too_long_is_refused(tokenizer, monkeypatch):
    monkeypatch.setattr(compiler_module, "MAX_SECONDS", 1.5)
    compiler = ConstraintCompiler(tokenizer, MODEL)
    with pytest.raises(InvalidValueError, match=r"after 1\.5 seconds"):
        compiler.compile(GenerationParams(regex="(.{1,1000}){1,1000}"))
    begun = time.monotonic()
    with pytest.raises(InvalidValueError, match=r"after 1\.5 seconds"):
        compiler.compile(GenerationParams(regex="(.{1,1000}){1,1000}"))
    assert time.monotonic() - begun < 1, "a refusal is remembered"
    monkeypatch.setattr(compiler_module, "MAX_SECONDS", 20.0)
    assert spelled(compiler.compile(GenerationParams(regex="[0-9]+")), tokenizer, "12")


def test_what_is_too_large_is_refused(tokenizer, monkeypatch):
    monkeypatch.setattr("unmask.constraints.build.MAX_STATES", 50)
    with pytest.raises(InvalidValueError, match="at most 50"):
        LocalCompiler(tokenizer, MODEL).compile(GenerationParams(regex="a{100}"))


def test_without_the_package_the_remedy_is_named(tokenizer, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotInstalledError, match=re.escape("pip install outlines-core")) as error:
        ConstraintCompiler(tokenizer, MODEL).compile(GenerationParams(regex="a"))
    assert (error.value.status, error.value.param) == (501, "regex")


def test_what_no_token_spells_is_refused():
    toy = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    toy.decoder = decoders.ByteLevel()
    tokens = TokenBytes(toy, frozenset({1}))
    assert tokens.ids == {b"a": [0]}


def sentence_piece(strip):
    pieces = ["<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁the", "é", "a", "▁▁", "<0x", "x"]
    toy = Tokenizer(models.BPE(vocab={piece: n for n, piece in enumerate(pieces)}, merges=[], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    toy.decoder = decoders.Sequence([*steps, *([decoders.Strip(" ", 1, 0)] if strip else [])])
    toy.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    return toy


def byte_level():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    toy = Tokenizer(models.BPE(vocab={piece: n for n, piece in enumerate([*alphabet, "Ġthe", "Ã©"])}, merges=[]))
    toy.decoder = decoders.ByteLevel()
    toy.add_tokens([AddedToken("<tool é>", special=False)])
    toy.add_special_tokens([AddedToken("<end>", special=True)])
    return toy


@pytest.mark.parametrize(
    "toy", [sentence_piece(False), sentence_piece(True), byte_level()], ids=["spm", "strip", "byte"]
)
def test_tokens_put_together_are_the_text(toy):
    """The library's own decoding is the oracle, for any tokens in any order."""
    tokens = TokenBytes(toy, frozenset())
    pieces = {index: piece for piece, ids in tokens.ids.items() for index in ids}
    specials = {index for index, token in toy.get_added_tokens_decoder().items() if token.special}
    assert specials.isdisjoint(pieces)
    rng = random.Random(0)
    whole = 0
    for _ in range(3000):
        ids = rng.choices(sorted(pieces), k=rng.randrange(1, 6))
        spelled_ = tokens.begin.encode() + b"".join(pieces[index] for index in ids)
        try:
            text = spelled_.decode()
        except UnicodeDecodeError:
            continue
        whole += 1
        cut = text.removeprefix(tokens.begin) if tokens.begin else text
        before = [next(index for index, piece in pieces.items() if piece == b" ")] if tokens.begin else []
        assert toy.decode(before + ids) == cut
    assert whole > 200


def test_other_tokenizers_are_refused():
    toy = sentence_piece(False)
    for decoder in (decoders.WordPiece(), decoders.Sequence([decoders.Replace(Regex("a+"), "b")])):
        toy.decoder = decoder
        with pytest.raises(UnmaskError, match="puts texts together"):
            TokenBytes(toy, frozenset())


def test_strings_of_bounded_length_are_built_at_once(tokenizer):
    """Expressions that the library by itself takes a time for that doubles with every character."""
    schema = {"type": "string", "maxLength": 200}
    started = time.process_time()
    constraint = LocalCompiler(tokenizer, MODEL).compile(GenerationParams(json_schema=schema))
    assert time.process_time() - started < 5
    assert spelled(constraint, tokenizer, '"' + "x" * 200 + '"')
    assert not spelled(constraint, tokenizer, '"' + "x" * 201 + '"')
