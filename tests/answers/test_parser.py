"""The parts of an answer do not depend on how its text is cut; nothing leaks or is lost; it takes linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.answers.reading import GEMMA4, QWEN, answer, build, read, texts
from unmask.answers.parser import AnswerParser
from unmask.answers.parts import Content, Reasoning, ToolPiece
from unmask.answers.syntax import NO_SYNTAX

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
F = ("f", '{"a": 1}')

QWEN_PIECES = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "\n", "\n\n", " ", "word",
    '{"name": "f", "arguments": {"a": 1}}', '{"arguments": {"b": "\\"}"}, "name": "g"}',
    '{"name": "h", "parameters": {}}', '"', "\\", "{", "}", "[", "]", "<", CALL,
)  # fmt: skip
GEMMA_PIECES = (
    "<|channel>", "<|channel>thought\n", "<|channel>final\n", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>',
    "call:f{", "call:g{a:1,b:true}", 'call:h{s:<|"|>x"\n<|"|>,l:[1,{k:null}]}', "\n", "thought", ":", ",",
    "{", "}", "[", "]", '"', "\\", "<",
)  # fmt: skip


@st.composite
def cut_texts(draw, pieces):
    text = draw(texts(*pieces))
    return text, sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))


class TestAnyCut:
    @settings(max_examples=150, deadline=None)
    @given(cut_texts(QWEN_PIECES), st.booleans(), st.booleans())
    def test_hermes_and_think(self, text_and_cuts, tools, opened):
        text, cuts = text_and_cuts
        whole = read(text, QWEN, tools=tools, opened=opened)
        assert read(text, QWEN, cuts, tools=tools, opened=opened) == whole
        assert read(text, QWEN, range(1, len(text)), tools=tools, opened=opened) == whole

    @settings(max_examples=150, deadline=None)
    @given(cut_texts(GEMMA_PIECES), st.booleans())
    def test_gemma(self, text_and_cuts, opened):
        text, cuts = text_and_cuts
        whole = read(text, GEMMA4, opened=opened)
        assert read(text, GEMMA4, cuts, opened=opened) == whole
        assert read(text, GEMMA4, range(1, len(text)), opened=opened) == whole

    @settings(deadline=None)
    @given(cut_texts(QWEN_PIECES))
    def test_no_word_is_lost_or_doubled(self, text_and_cuts):
        text, cuts = text_and_cuts
        content, reasoning, calls = build(read(text, QWEN, cuts, tools=False))
        assert (content + reasoning).count("word") == text.count("word")
        assert not calls

    @settings(max_examples=100, deadline=None)
    @given(cut_texts(QWEN_PIECES))
    def test_forced(self, text_and_cuts):
        text, cuts = text_and_cuts
        assert read(text, QWEN, cuts, forced=True) == read(text, QWEN, forced=True)

    @settings(deadline=None)
    @given(st.text(alphabet='ab<> \n{}"\\'))
    def test_text_without_markers_stays_as_it_is(self, text):
        assert build(read(text, QWEN))[0] == text
        assert build(read(text, GEMMA4))[0] == text

    @settings(deadline=None)
    @given(cut_texts(QWEN_PIECES))
    def test_without_a_syntax_everything_is_content_at_once(self, text_and_cuts):
        text, cuts = text_and_cuts
        parser = AnswerParser(NO_SYNTAX, tools=True)
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            assert build(parser.feed(text[start:end])) == (text[start:end], "", [])
        assert parser.finish() == []


class TestReasoning:
    def test_before_the_answer(self):
        assert answer("<think>\nhm\n\nso\n</think>\n\nYes.\n") == ("Yes.\n", "hm\n\nso", [])

    def test_empty(self):
        assert read("<think>\n\n</think>\n\nYes.") == [Content("Yes.")]

    def test_not_closed(self):
        assert answer("<think>\nhm") == ("", "hm", [])
        assert answer("<think>\nhm</thi") == ("", "hm</thi", [])

    def test_opened_by_the_prompt(self):
        assert answer("hm\n</think>\nYes.", opened=True) == ("Yes.", "hm", [])
        assert answer("<think>\nhm\n</think>\nYes.", opened=True) == ("Yes.", "hm", [])

    def test_closing_marker_without_an_opening_one_does_not_leak(self):
        assert answer("hm\n</think>\n\nYes.") == ("hm\n\nYes.", "", [])

    def test_content_may_speak_of_the_markers(self):
        text = "Put <think> before and </think> behind it."
        assert answer(text) == (text, "", [])
        assert answer(f"<think>x</think>{text} </think>") == (f"{text} </think>", "x", [])

    def test_blocks_are_parted_by_a_line_break(self):
        assert answer("<think>a</think>\n<think>b\n</think>c") == ("c", "a\nb", [])

    def test_no_leading_or_trailing_line_breaks_even_if_they_come_one_by_one(self):
        assert answer("\n\n<think>\n\n\na\n\n\n</think>\n\n\n  b") == ("  b", "a", [])


class TestCalls:
    def test_several_in_one_piece(self):
        assert answer(f"{CALL}\n{CALL}{CALL}") == ("", "", [F, F, F])

    def test_all_kinds_of_parts(self):
        text = f"<think>\nhm\n</think>\n\nOne moment.\n{CALL}\n{CALL}\nDone."
        assert answer(text) == ("One moment.\nDone.", "hm", [F, F])
        kinds = [type(part) for part in read(text)]
        assert kinds == [Reasoning, Content, ToolPiece, ToolPiece, Content]

    def test_arguments_come_as_they_are_written(self):
        parser = AnswerParser(QWEN, tools=True)
        assert parser.feed('<tool_call>\n{"name": "f", "arguments": {"a"') == [ToolPiece(0, '{"a"', "f")]
        assert parser.feed(': "x') == [ToolPiece(0, ': "x')]
        assert parser.feed('}\\"y"}') == [ToolPiece(0, '}\\"y"}')]
        assert parser.feed("}\n</tool_call>") == parser.finish() == []

    def test_markers_and_brackets_within_strings(self):
        arguments = '{"a": "}</tool_call>\\n<think>", "b": ["{", {"c": "\\\\"}]}'
        assert answer(f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>') == (
            "",
            "",
            [("f", arguments)],
        )

    @pytest.mark.parametrize(
        ("body", "call"),
        [
            ('{"arguments": {"a": 1}, "name": "f"}', F),
            ('{"name": "f", "parameters": {"a": 1}}', F),
            ('{"id": {"x": 1}, "name": "f", "arguments": {"a": 1}}', F),
            ('{"name": "f", "arguments": {"a": 1}, "id": "}"}', F),
            ('{"name": "f", "arguments": "{\\"a\\": 1}"}', F),
            ('{ "name" :"f","arguments":{"a": 1} }', F),
            ('{"name": "f"}', ("f", "{}")),
            ('{"name": "f", "arguments": null}', ("f", "{}")),
            ('{"name": "\\u0066", "arguments": {"a": 1}}', F),
            ('{"name": "f", "arguments": {"a": "\n"}}', ("f", '{"a": "\n"}')),
        ],
    )
    def test_other_ways_to_write_one(self, body, call):
        assert answer(f"<tool_call>\n{body}\n</tool_call>") == ("", "", [call])

    @pytest.mark.parametrize(
        "body",
        ["", "f(1)", "{}", '{"name": 3, "arguments": {}}', '{"name": "f", "arguments": 3}', '{"name": "f" "x"}', "[1]",
         '{"name": "f", "arguments": "{"}', '{"name": "", "arguments": {}}', '{"a": {}',
         r'{"arguments": {}, "name": "\ud800"}', r'{"name": "f", "arguments": "{\"a\": \"\ud800\"}"}'],
    )  # fmt: skip
    def test_what_is_none_stays_text_with_its_markers(self, body):
        text = f"See\n\n<tool_call>\n{body}\n</tool_call>\nthere.\n"
        assert answer(text) == (text, "", [])
        assert answer(text + CALL) == (text[:-1], "", [F])

    def test_cut_before_it_was_shown(self):
        for end in range(1, len('<tool_call>\n{"name": "f", "arguments": ') + 1):
            text = f"A\n{CALL[:end]}"
            assert answer(text) == (text, "", [])

    def test_cut_after_it_was_shown(self):
        assert answer('<tool_call>{"name": "f", "arguments": {"a') == ("", "", [("f", '{"a')])
        assert answer('<tool_call>{"name": "f", "arguments": {"a": 1}') == ("", "", [F])

    def test_a_call_that_breaks_off_ends_at_its_closing_marker(self):
        for arguments in ('{"a": 1', '{"a": "x\n', '{"a": [{"b": "\\"\n'):
            text = f'<tool_call>{{"name": "f", "arguments": {arguments}</tool_call>\n{CALL}'
            assert answer(text) == ("", "", [("f", arguments.removesuffix("\n")), F])

    def test_closing_marker_forgotten(self):
        text = CALL.removesuffix("</tool_call>")
        assert answer(f"{text}{CALL}\nDone.") == ("Done.", "", [F, F])

    def test_opening_marker_twice(self):
        assert answer(f"<tool_call>\n{CALL}") == ("<tool_call>", "", [F])

    def test_no_tools_offered(self):
        assert answer(f"<think>a</think>{CALL}", tools=False) == (CALL, "a", [])

    def test_in_reasoning_it_is_reasoning(self):
        assert answer(f"<think>{CALL}</think>x") == ("x", CALL, [])

    def test_forced(self):
        text = '{"name":"f", "arguments": {"a": 1}}'
        assert answer(text, forced=True) == ("", "", [F])
        assert answer(text[:-4], forced=True) == ("", "", [("f", '{"a":')])
        assert answer(text[:8], forced=True) == (text[:8], "", [])


class TestGemma:
    def test_thought_and_answer(self):
        assert answer("<|channel>thought\nhm\n<channel|>Yes.", GEMMA4) == ("Yes.", "hm", [])
        assert answer("<|channel>thought<channel|>Yes.", GEMMA4) == ("Yes.", "", [])
        assert answer("<|channel>thought\nhm", GEMMA4) == ("", "hm", [])
        assert answer("<|channel>tho", GEMMA4) == ("", "", [])

    def test_other_channels(self):
        text = "<|channel>thought\nhm<channel|>\n<|channel>final\nYes.<channel|>"
        assert answer(text, GEMMA4) == ("Yes.", "hm", [])
        assert answer("<|channel>thoughtful words<channel|>Yes.", GEMMA4) == ("Yes.", "thoughtful words", [])

    def test_opened_by_the_prompt(self):
        assert answer("hm<channel|>Yes.", GEMMA4, opened=True) == ("Yes.", "hm", [])

    def test_closing_marker_alone(self):
        assert answer("Yes.<channel|> No.<channel|>", GEMMA4) == ("Yes. No.", "", [])

    @pytest.mark.parametrize(
        ("written", "arguments"),
        [
            ('city:<|"|>Pa"r\nis<|"|>', '{"city":"Pa\\"r\\nis"}'),
            ("", "{}"),
            ("n:-3,x:1.5e3,b:true,z:null", '{"n":-3,"x":1.5e3,"b":true,"z":null}'),
            ("b:True,z:None", '{"b":true,"z":null}'),
            ('l:[1,<|"|>,]<|"|>,[]],o:{k:{}}', '{"l":[1,",]",[]],"o":{"k":{}}}'),
            ('<|"|>a b<|"|>:1', '{"a b":1}'),
            ('a:"x\\"}<|",b:1', '{"a":"x\\"}<|","b":1}'),
            ("a: 1 , b:[ 2 ],", '{"a":1,"b":[2]}'),
            ("when:12:30,to:a b", '{"when":"12:30","to":"a b"}'),
            ('a:<|"|><|"|>', '{"a":""}'),
        ],
    )
    def test_arguments(self, written, arguments):
        text = f"One moment.<|tool_call>call:f-1.g_h{{{written}}}<tool_call|>"
        assert answer(text, GEMMA4) == ("One moment.", "", [("f-1.g_h", arguments)])

    def test_several(self):
        text = '<|channel>thought\nhm<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:g{s:<|"|>x<|"|>}<tool_call|>'
        assert answer(text, GEMMA4) == ("", "hm", [("f", '{"a":1}'), ("g", '{"s":"x"}')])

    @pytest.mark.parametrize("body", ["", "call", "call:{}", "call:f g{}", "f{a:1}", "call:" + "x" * 300])
    def test_what_is_none_stays_text(self, body):
        text = f"A <|tool_call>{body}<tool_call|> b"
        assert answer(text, GEMMA4) == (text, "", [])

    def test_cut(self):
        assert answer('<|tool_call>call:f{s:<|"|>x', GEMMA4) == ("", "", [("f", '{"s":"x')])
        assert answer("<|tool_call>call:f{s:[1,2<tool_call|>Yes.", GEMMA4) == ("Yes.", "", [("f", '{"s":[1')])
        assert answer("<|tool_call>call:f", GEMMA4) == ("<|tool_call>call:f", "", [])


class TestTime:
    """Four times the text takes about four times as long; were it quadratic, sixteen times."""

    @pytest.mark.parametrize(
        ("syntax", "opening", "unit"),
        [
            (QWEN, "<think>", "so it goes on. "),
            (QWEN, "<think>", "\n"),
            (QWEN, "<think>", "</thin"),
            (QWEN, "x", "<tool_call"),
            (QWEN, "x", "\n"),
            (QWEN, "", "<tool_call>"),
            (QWEN, "", CALL),
            (QWEN, '<tool_call>{"arguments": {"a": "', "word "),
            (QWEN, '<tool_call>{"name": "f", "arguments": {"a": "', "\\"),
            (QWEN, '<tool_call>{"name": "f", "arguments": ', "["),
            (QWEN, "<tool_call>", " "),
            (GEMMA4, "<|tool_call>call:f{a:", "["),
            (GEMMA4, "<|tool_call>call:f{a:", "word "),
            (GEMMA4, '<|tool_call>call:f{a:<|"|>', '<|"'),
            (GEMMA4, "<|tool_call>", "call:"),
            (GEMMA4, "", "<|channel>thought\n"),
        ],
    )
    @pytest.mark.parametrize("size", [1, 10**6])
    def test_is_linear(self, syntax, opening, unit, size):
        def seconds(length):
            text = opening + unit * (length // len(unit))
            start = time.thread_time()
            read(text, syntax, range(size, len(text), size))
            return time.thread_time() - start

        small = min(seconds(2000) for _ in range(3))
        assert min(seconds(8000) for _ in range(2)) < 9 * small + 0.01


def test_only_what_could_become_a_marker_is_held_back():
    parser = AnswerParser(QWEN, tools=True)
    given_back = [build(parser.feed(character))[0] for character in "a <b\n<tool_box"]
    assert given_back == ["a", " ", "", "<b", "", "", *[""] * 5, "\n<tool_b", "o", "x"]
