"""What a lane's chunks become: the same parts for any way in which it cut its text, and an honest end."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.answers.reading import texts
from tests.gateway.upstream.fake import chat, chunk, endpoint, usage
from unmask.answers.chat import Continuation
from unmask.answers.parser import AnswerParser
from unmask.answers.parts import Content, Reasoning, ToolCall, ToolPiece, merged
from unmask.answers.syntax import HERMES, THINK, AnswerSyntax
from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import EngineCrashedError, UnmaskError, UpstreamError
from unmask.gateway.upstream.chunk import decode_chunk
from unmask.gateway.upstream.reader import AnswerReader
from unmask.gateway.upstream.request import ask_chat, ask_texts
from unmask.gateway.upstream.spellings import Spellings
from unmask.params import GenerationParams

QWEN = AnswerSyntax(THINK, HERMES)
WEATHER = Tool("weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}})
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
PIECES = ("<think>", "</think>", "\n", "word ", "STOP", "S", CALL, '{"a": 1}', "<tool_call>")


def reader(question=None, cells=None, **more):
    where = endpoint(**more)
    asked = ask_chat(question or chat(), where)[0]
    return AnswerReader(asked, where, cells or Spellings())


def read(chunks, question=None, cut=None, **more):
    """The news of all ``chunks`` and the answer, whose parts they add up to."""
    one = reader(question, **more)
    news = [one.feed(decode_chunk(json.dumps(payload).encode())) for payload in chunks if not one.stopped]
    last, answer = one.end(cut)
    news.append(last)
    assert merged(part for each in news for part in each.parts) == answer.parts
    return news, answer


def answer(*chunks, question=None, cut=None, **more):
    return read(chunks, question, cut, **more)[1]


def call(arguments=None, name=None, **more):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return more | ({"function": function} if function else {})


def calls_of(*deltas, finish="tool_calls", **options):
    """The calls that ``deltas``, lists of calls, add up to."""
    chunks = [chunk(tool_calls=delta) for delta in deltas]
    found = answer(*chunks, chunk(finish), question=chat(tools=[WEATHER], **options))
    return [(one.name, one.arguments) for one in found.tool_calls]


NAMES = (
    "choices", "delta", "message", "content", "reasoning", "tool_calls", "function", "name", "arguments", "index", "id",
    "finish_reason", "logprobs", "top_logprobs", "token", "tokens", "bytes", "logprob", "usage", "timings", "text",
    "prompt_tokens", "completion_tokens", "predicted_n", "error", "diffusion_meta", "diffusion_content",
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 300) | st.sampled_from(["", "a", "{}", "stop", "length", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=4)
noted_objects = objects.map(lambda entry: chunk(choice={"logprobs": {"content": [entry]}}, content="a"))


@settings(max_examples=100)
@given(st.lists(objects | objects.map(lambda delta: chunk(**delta)) | noted_objects))
def test_no_chunk_brings_the_reader_down(chunks):
    one = reader(chat(tools=[WEATHER], logprobs=2, stop=("x",)))
    try:
        for payload in chunks:
            one.feed(decode_chunk(json.dumps(payload).encode()))
        one.end()
    except (ValueError, UnmaskError):
        pass


class TestText:
    @settings(max_examples=150)
    @given(st.data(), texts(*PIECES))
    def test_any_cut_of_marked_text_gives_the_same_answer(self, data, text):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
        question = chat(stop=("STOP",), tools=[WEATHER])

        def at(places):
            pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
            return answer(*(chunk(content=piece) for piece in pieces), chunk("stop"), question=question, syntax=QWEN)

        whole = at([])
        assert (at(cuts).parts, at(cuts).finish) == (whole.parts, whole.finish)
        assert at(range(1, len(text))).parts == whole.parts
        before, _, _ = text.partition("STOP")
        parser = AnswerParser(QWEN, tools=True)
        assert merged([*parser.feed(before), *parser.finish()]) == whole.parts
        assert whole.completion.stopped_by == ("STOP" if "STOP" in text else None)

    def test_reasoning_has_two_names(self):
        for name in ("reasoning_content", "reasoning"):
            found = answer(chunk(role="assistant", content=None), chunk(**{name: "hm"}), chunk(content="yes"),
                           chunk("stop", content=""))  # fmt: skip
            assert found.parts == [Reasoning("hm"), Content("yes")]

    def test_content_in_typed_parts_and_refusals(self):
        found = answer(chunk(content=[{"type": "text", "text": "a"}]), chunk(refusal="no"), chunk("stop"))
        assert found.content == "ano"

    def test_a_whole_answer_in_one_piece(self):
        message = {"role": "assistant", "content": "yes", "reasoning_content": "hm"}
        found = answer({"choices": [{"message": message, "finish_reason": "length"}]} | usage(3, 2) | {
            "choices": [{"message": message, "finish_reason": "length"}]})  # fmt: skip
        assert (found.content, found.reasoning, found.finish) == ("yes", "hm", "length")
        assert (found.completion.prompt_tokens, found.completion.completion_tokens) == (3, 2)

    def test_half_characters_and_numbers_that_are_none(self):
        assert decode_chunk(b'{"choices":[{"delta":{"content":"a\\ud83db"}}]}').choices[0].added.text == "a?b"
        assert decode_chunk(b'{"choices":[{"logprobs":{"content":[{"logprob":-Infinity}]}}]}').choices is not None

    def test_nothing_is_no_answer(self):
        with pytest.raises(UpstreamError):
            answer()
        with pytest.raises(UpstreamError):
            answer(usage(3, 0))
        assert answer(chunk("stop")).content == ""


class TestStops:
    def test_a_stop_string_over_chunks_and_what_begins_like_one(self):
        found = answer(*(chunk(content=c) for c in "ab ST STxSTOP and more"), question=chat(stop=("STOP",)))
        assert (found.content, found.finish, found.completion.stopped_by) == ("ab ST STx", "stop", "STOP")

    def test_the_first_of_several_counts(self):
        found = answer(chunk(content="a one two"), question=chat(stop=("two", "one")))
        assert (found.content, found.completion.stopped_by) == ("a ", "one")

    def test_it_does_not_go_over_parts(self):
        found = answer(chunk(content="aST"), chunk(reasoning="x"), chunk(content="OP"), chunk("stop"),
                       question=chat(stop=("STOP",)))  # fmt: skip
        assert found.parts == [Content("aST"), Reasoning("x"), Content("OP")]

    def test_in_reasoning_it_ends_the_answer(self):
        found = answer(chunk(reasoning="hm STOP"), chunk(content="yes"), question=chat(stop=("STOP",)))
        assert (found.parts, found.completion.stopped_by) == ([Reasoning("hm ")], "STOP")

    @pytest.mark.parametrize("name", ["stop_reason", "matched_stop"])
    def test_lanes_that_look_themselves_tell_which(self, name):
        told = answer(chunk(content="a"), chunk("stop", choice={name: "x"}), question=chat(stop=("x", "y")))
        assert told.completion.stopped_by == "x"
        assert answer(chunk(content="a"), chunk("stop", choice={name: 2})).completion.stopped_by is None


class TestCalls:
    def test_in_pieces(self):
        found = calls_of(
            [call("", "f", index=0, id="a")], [call('{"x"', index=0)], [call(": 1}", index=0)],
            [call("", "g", index=1, id="b")], [call("{}", index=1)],
        )  # fmt: skip
        assert found == [("f", '{"x": 1}'), ("g", "{}")]

    def test_whole_at_once(self):
        assert calls_of([call('{"x": 1}', "f", index=0, id="a"), call("{}", "f", index=1, id="b")]) == [
            ("f", '{"x": 1}'), ("f", "{}")]  # fmt: skip

    def test_without_an_index(self):
        found = calls_of([call('{"x"', "f", id="a")], [call(": 1}")], [call("{}", "g", id="b"), call("{}", "h")])
        assert found == [("f", '{"x": 1}'), ("g", "{}"), ("h", "{}")]

    def test_without_an_id(self):
        assert calls_of([call('{"x"', "f", index=0)], [call(": 1}", index=0)], [call("{}", "g", index=1)]) == [
            ("f", '{"x": 1}'), ("g", "{}")]  # fmt: skip

    def test_all_with_the_index_0(self):
        assert calls_of([call("{}", "f", index=0, id="a")], [call("{}", "g", index=0, id="b")]) == [
            ("f", "{}"), ("g", "{}")]  # fmt: skip
        assert calls_of([call("{}", "f", index=0)], [call("{}", "f", index=0)]) == [("f", "{}"), ("f", "{}")]

    def test_another_id_is_another_call_whatever_came_before(self):
        assert calls_of([call("", "f", index=0, id="a")], [call("{}", "g", index=0, id="b")]) == [
            ("f", "{}"), ("g", "{}")]  # fmt: skip

    def test_id_and_name_on_every_delta(self):
        deltas = [[call(piece, "f", index=0, id="a")] for piece in ('{"x"', ": ", "1}")]
        assert calls_of(*deltas) == [("f", '{"x": 1}')]

    def test_arguments_as_an_object_and_none_at_all(self):
        assert calls_of([call({"x": "é"}, "f", index=0)], [call(None, "g", index=1)]) == [
            ("f", '{"x":"é"}'), ("g", "{}")]  # fmt: skip

    def test_arguments_before_the_name(self):
        assert calls_of([call('{"x"', index=0)], [call(": 1}", "f", index=0)]) == [("f", '{"x": 1}')]

    @pytest.mark.parametrize(
        "deltas",
        [
            ([call("{}", "f", index=0)], [call("{}", "g", index=1)], [call(" ", index=0)]),
            ([call("{}", index=0)],),
            ([call("{}", index=0)], [call("{}", "g", index=1)]),
        ],
    )
    def test_what_cannot_be_told_in_order_is_an_error(self, deltas):
        with pytest.raises(UpstreamError, match="my-lane"):
            calls_of(*deltas)

    def test_its_pieces_stand_in_a_row(self):
        """Dialects tell calls one by one: what comes within one waits for its end."""
        found = answer(
            chunk(content="a", tool_calls=[call('{"x"', "f", index=0)]), chunk(content="b"), chunk(reasoning="c"),
            chunk(tool_calls=[call(": 1}", index=0)]), chunk(content="d"), chunk(tool_calls=[call("", "g", index=1)]),
            chunk(content="e"), chunk(tool_calls=[call("", index=1)]), chunk("stop"), question=chat(tools=[WEATHER]),
        )  # fmt: skip
        f, g = ToolPiece(0, '{"x": 1}', "f"), ToolPiece(1, "{}", "g")
        assert found.parts == [Content("a"), f, Content("b"), Reasoning("c"), Content("d"), g, Content("e")]
        with pytest.raises(UpstreamError, match="after its end"):
            answer(chunk(tool_calls=[call("{}", "f", index=0)]), chunk(content="a"),
                   chunk(tool_calls=[call("x", index=0)]), question=chat(tools=[WEATHER]))  # fmt: skip

    def test_one_without_arguments_that_was_cut(self):
        found = answer(chunk(tool_calls=[call("", "f", index=0)]), chunk("length"), question=chat(tools=[WEATHER]))
        assert (found.tool_calls, found.finish, found.broken_off) == ([ToolCall("f", "")], "length", True)

    def test_one_call_and_no_more(self):
        deltas = [[call("{}", "f", index=0, id="a")], [call("{}", "g", index=1, id="b")]]
        assert calls_of(*deltas, one_call=True) == [("f", "{}")]

    def test_their_finish_is_ours(self):
        cut = answer(chunk(tool_calls=[call('{"x', "f", index=0)]), chunk("length"), question=chat(tools=[WEATHER]))
        assert (cut.finish, cut.broken_off) == ("length", True)
        stopped = answer(chunk(tool_calls=[call("{}", "f", index=0)]), chunk("stop"), question=chat(tools=[WEATHER]))
        assert (stopped.finish, stopped.broken_off) == ("tool_calls", False)
        none = answer(chunk(content="no"), chunk("tool_calls"), question=chat(tools=[WEATHER]))
        assert none.finish == "stop"

    def test_told_and_marked_ones_are_numbered_together(self):
        found = answer(chunk(content=CALL), chunk(tool_calls=[call("{}", "f", index=0)]), chunk(content=CALL),
                       chunk("stop"), question=chat(tools=[WEATHER]), syntax=QWEN)  # fmt: skip
        assert [one.name for one in found.tool_calls] == ["weather", "f", "weather"]
        assert [part.index for part in found.parts if isinstance(part, ToolPiece)] == [0, 1, 2]

    def test_spelled_out_ones_are_read_here(self):
        found = answer(*(chunk(content=c) for c in f"So: {CALL}"), chunk("stop"), question=chat(tools=[WEATHER]),
                       tools=False)  # fmt: skip
        assert (found.content, found.finish) == ("So: ", "tool_calls")
        assert found.tool_calls == [ToolCall("weather", '{"city": "Paris"}')]
        assert answer(chunk(content=CALL), chunk("stop"), tools=False).content == CALL

    def test_llama_cpp_is_held_to_a_demanded_call_by_its_schema(self):
        question = chat(tools=[WEATHER], choice=ToolChoice("named", "weather"))
        text = '{"name": "weather", "arguments": {"city": "Rome"}}'
        found = answer(*(chunk(content=c) for c in text), chunk("stop"), question=question, kind="llama.cpp")
        assert found.tool_calls == [ToolCall("weather", '{"city": "Rome"}')]
        assert found.finish == "tool_calls"


class TestCounts:
    def test_in_the_last_chunk(self):
        told = usage(
            7, 5, prompt_tokens_details={"cached_tokens": 3}, completion_tokens_details={"reasoning_tokens": 2}
        )
        found = answer(chunk(reasoning="hm"), chunk(content="yes"), chunk("stop"), told)
        completion = found.completion
        assert (completion.prompt_tokens, completion.completion_tokens, completion.stats.cached) == (7, 5, 3)
        assert (found.reasoning_tokens, completion.estimated) == (2, False)

    def test_of_reasoning_as_sglang_tells_them(self):
        assert answer(chunk(reasoning="a b c d"), chunk("stop"), usage(1, 9, reasoning_tokens=4)).reasoning_tokens == 4

    def test_with_each_chunk(self):
        chunks = [chunk(reasoning="a b c"), chunk(reasoning="d"), chunk(content="yes"), chunk("stop")]
        counts = [3, 5, 6, 7]
        found = answer(*(one | {"usage": {"prompt_tokens": 9, "completion_tokens": n}}
                         for one, n in zip(chunks, counts, strict=True)))  # fmt: skip
        assert (found.reasoning_tokens, found.completion.completion_tokens) == (5, 7)

    def test_in_timings(self):
        found = answer(chunk(content="a"), chunk("stop") | {"timings": {"cache_n": 4, "prompt_n": 5, "predicted_n": 6}})
        completion = found.completion
        assert (completion.prompt_tokens, completion.completion_tokens, completion.stats.cached) == (9, 6, 4)
        assert not completion.estimated

    @pytest.mark.parametrize("told", [[], [usage(0, 0)], [usage(None, None)], [{"choices": [], "usage": None}]])
    def test_what_is_not_told_is_estimated_and_never_0(self, told):
        found = answer(*(chunk(content=c) for c in "abcdef"), chunk("stop"), *told)
        assert found.completion.estimated
        assert found.completion.completion_tokens == 6  # a chunk has at least a token
        assert found.completion.prompt_tokens > 5

    def test_whole_texts_are_estimated_by_their_length(self):
        found = answer(chunk(content="x" * 400), chunk("stop"))
        assert (found.completion.completion_tokens, found.completion.estimated) == (100, True)

    def test_an_answer_of_nothing_has_no_tokens(self):
        found = answer(chunk("stop"), usage(3, 0))
        assert (found.completion.completion_tokens, found.completion.estimated) == (0, False)

    def test_more_tokens_than_allowed_were_cut(self):
        question = chat(max_tokens=4)
        assert answer(chunk(content="a"), chunk("stop"), usage(1, 4), question=question).finish == "stop"
        assert answer(chunk(content="a"), chunk("stop"), usage(1, 256), question=question).finish == "length"
        assert answer(chunk(content="a"), usage(1, 4), question=question).finish == "length"


class TestFinish:
    @pytest.mark.parametrize(
        ("told", "finish"),
        [("stop", "stop"), ("eos", "stop"), ("length", "length"), ("content_filter", "length"), ("whatever", "stop")],
    )
    def test_words(self, told, finish):
        assert answer(chunk(content="a"), chunk(told)).finish == finish

    @pytest.mark.parametrize(("told", "kind"), [("abort", EngineCrashedError), ("error", UpstreamError)])
    def test_ends_that_are_none(self, told, kind):
        with pytest.raises(kind, match="my-lane"):
            answer(chunk(content="a"), chunk(told))

    def test_cut_by_time(self):
        found = answer(chunk(content="a ST"), question=chat(stop=("STOP",)), cut="timeout")
        assert (found.content, found.completion.finish_reason, found.finish) == ("a ST", "timeout", "length")


META = {"diffusion_meta": {"diffusion_content": True, "diffusion_progress": 0.0}}


class TestSnapshots:
    def snapshots(self, *texts, finish="stop"):
        *noisy, last = texts
        return [
            *(chunk(role="assistant", content=text, tool_calls=[]) | META for text in noisy),
            chunk(finish, role="assistant", content=last, tool_calls=[]) | META,
            chunk(finish),
        ]

    def test_only_the_last_one_is_certain(self):
        news, found = read([*self.snapshots("tho cat", "the cat st", "the cat sat"), usage(3, 4)], snapshots=True)
        assert found.content == "the cat sat"
        assert [each.parts for each in news if each.parts] == [[Content("the cat sat")]]
        assert not any(each.frame for each in news)

    def test_the_others_are_frames_if_they_were_asked_for(self):
        cells = Spellings()
        news, _ = read(self.snapshots("tho", "tho", "the", "the!"), chat(frames=True), cells=cells, snapshots=True)
        frames = [each.frame for each in news if each.frame is not None]
        assert [cells.decode(frame.guesses) for frame in frames] == [["tho"], ["the"], ["the!"]]
        for frame in frames:
            assert (cells.decode(frame.tokens), frame.decided, frame.committed) == ([None], [0], 0)

    def test_the_same_again_is_no_progress(self):
        news, _ = read(self.snapshots("tho", "tho", "the"), snapshots=True)
        assert [each.progress for each in news[:3]] == [True, False, True]

    def test_arguments_are_added_once_and_the_text_comes_last(self):
        def told(piece, name=None):
            return chunk(content="I lok", tool_calls=[call(piece, name, index=0)]) | META

        found = answer(
            told("", "weather"), told('{"city"'), told(': "Rome"}'), *self.snapshots("I look.", finish="tool_calls"),
            question=chat(tools=[WEATHER]), snapshots=True,
        )  # fmt: skip
        assert found.tool_calls == [ToolCall("weather", '{"city": "Rome"}')]
        assert (found.content, found.finish) == ("I look.", "tool_calls")

    def test_noise_is_not_counted(self):
        found = answer(*self.snapshots(*["x" * 400] * 50, "y" * 40), snapshots=True)
        assert (found.completion.completion_tokens, found.completion.estimated) == (10, True)

    def test_cut_by_time_nothing_was_certain(self):
        found = answer(chunk(content="noise") | META, snapshots=True, cut="timeout")
        assert (found.content, found.completion.finish_reason) == ("", "timeout")

    def test_stop_strings(self):
        found = answer(*self.snapshots("STOP", "yes STOP no"), question=chat(stop=("STOP",)), snapshots=True)
        assert (found.content, found.completion.stopped_by) == ("yes ", "STOP")


def entry(text, logprob=-0.5, top=(), spelled=None):
    spelled = list(text.encode()) if spelled is None else list(spelled)
    tops = [{"token": other, "logprob": value, "bytes": None} for other, value in top]
    return {"token": text, "logprob": logprob, "bytes": spelled, "top_logprobs": tops}


def noted(*entries, finish=None, **delta):
    return chunk(finish, choice={"logprobs": {"content": list(entries)}}, **delta)


class TestLogprobs:
    def test_belong_to_the_content(self):
        cells = Spellings()
        news, found = read(
            [
                noted(entry("hm"), reasoning="hm"),
                noted(entry("a", top=[("a", -0.5), ("b", -1.5), ("c", -9)]), content="a"),
                noted(entry(" b"), entry("c"), content=" bc"),
                chunk(reasoning="so"),
                noted(entry("d"), content="d"),
                chunk("stop"),
            ],
            chat(logprobs=2), cells=cells,
        )  # fmt: skip
        assert [cells.spell(one.token_id)[0] for one in found.logprobs] == ["a", " b", "c", "d"]
        assert [one.offset for one in found.logprobs] == [0, 1, 3, 4]
        assert [cells.spell(number)[0] for number, _ in found.logprobs[0].alternatives] == ["a", "b"]
        assert [run for each in news for run in each.runs] == [0, 0, 0, 1]

    def test_a_character_of_several_tokens(self):
        cells = Spellings()
        llama = "🦙".encode()
        found = answer(
            noted(entry("\\x", spelled=llama[:2]), entry("\\y", spelled=llama[2:]), entry("!"), content="🦙!"),
            chunk("stop"), question=chat(logprobs=0), cells=cells,
        )  # fmt: skip
        assert [cells.spell(one.token_id)[1] for one in found.logprobs] == [[*llama[:2]], [*llama[2:]], [33]]
        assert [one.offset for one in found.logprobs] == [0, 0, 1]

    def test_tokens_without_a_text_of_their_own(self):
        cells = Spellings()
        llama = "🦙".encode()
        found = answer(
            noted(entry("", spelled=llama[:2]), content=""), noted(entry("", spelled=llama[2:]), content="🦙"),
            noted(entry("<end>"), content="", finish="stop"), question=chat(logprobs=0), cells=cells,
        )  # fmt: skip
        assert [cells.spell(one.token_id)[1] for one in found.logprobs] == [[*llama[:2]], [*llama[2:]]]

    def test_those_of_a_stop_string_are_left_out(self):
        cells = Spellings()
        found = answer(
            *(noted(entry(text), content=text) for text in ("a", "bS", "TO", "P", "c")),
            question=chat(logprobs=0, stop=("STOP",)), cells=cells,
        )  # fmt: skip
        assert found.content == "ab"
        assert [cells.spell(one.token_id)[0] for one in found.logprobs] == ["a", "bS"]

    def test_lists_of_text_completions(self):
        where = endpoint()
        cells = Spellings()
        one = AnswerReader(
            ask_texts(Continuation(params=GenerationParams(logprobs=1), texts=["x"]), where)[0], where, cells
        )
        logprobs = {
            "tokens": ["a", "b"],
            "token_logprobs": [None, -0.5],
            "top_logprobs": [None, {"c": -2, "b": -0.5, "d": None}],
        }
        choice = {"text": "ab", "index": 0, "finish_reason": "stop", "logprobs": logprobs}
        one.feed(decode_chunk(json.dumps({"choices": [choice]}).encode()))
        _, found = one.end()
        assert math.isnan(found.logprobs[0].logprob)
        assert [cells.spell(number)[0] for number, _ in found.logprobs[1].alternatives] == ["b"]

    def test_not_asked_for_they_are_none(self):
        assert answer(noted(entry("a"), content="a"), chunk("stop")).logprobs is None
