"""Properties of the stream state machines: any chunking of the engine's output gives the same answer."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.serving.fakes import MODEL
from tests.serving.wire import events as decode_events
from tests.serving.wire import finish_of, text_of
from unmask.answers.answer import AnswerAssembler
from unmask.answers.reading import VERBATIM
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.engine.completion import TextRequest
from unmask.engine.text import CellDecoder, TextAssembler
from unmask.events import CanvasEvent, Frame, RequestStats
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.serving.dialects.openai_chat.stream import ChatStream
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_completions.stream import CompletionStream

TOKENIZER = PromptEncoder(EMBEDDED_MODEL, MODEL).tokenizer
HEAD = Head("id-1", 1, "unmask-tiny")
SPECIALS = set(TOKENIZER.specials.values())

tokens = st.lists(st.integers(0, TOKENIZER.size - 1).filter(lambda token: token not in SPECIALS), max_size=40)
texts = st.text(max_size=20).map(lambda text: TOKENIZER.encode_text(text))
answers = st.one_of(tokens, texts)
stops = st.lists(st.text(min_size=1, max_size=3), max_size=3).map(tuple)


@st.composite
def groupings(draw, ids: st.SearchStrategy[list[int]] = answers) -> tuple[list[int], list[list[int]]]:
    """Token ids, and the same ids cut into groups (empty ones too)."""
    whole = draw(ids)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    borders = [0, *cuts, len(whole)]
    return whole, [whole[start:end] for start, end in pairwise(borders)]


def run_events(groups: list[list[int]], frames: bool) -> list[CanvasEvent]:
    given_so_far: list[int] = []
    events = []
    for number, group in enumerate(groups):
        given_so_far += group
        last = number == len(groups) - 1
        events.append(
            CanvasEvent(
                "0",
                group,
                RequestStats(forwards=number + 1, blocks=1, committed=len(given_so_far) + 1),
                finish="stop" if last else None,
                ended_by_token=last,
                frame=Frame([*given_so_far, MODEL.mask_id]) if frames else None,
            )
        )
    return events


def assembler(stop: tuple[str, ...]) -> TextAssembler:
    return TextAssembler(TOKENIZER, TextRequest([1, 2, 3], resolve(GenerationParams(seed=1), MODEL, 3), stop))


def chat_chunks(groups: list[list[int]], stop: tuple[str, ...], frames: bool = False) -> list[dict]:
    stream = ChatStream(HEAD, CellDecoder(TOKENIZER), include_usage=True, copies=1)
    text, answer = assembler(stop), AnswerAssembler(VERBATIM)
    sent = list(stream.start())
    for event in run_events(groups, frames):
        delta = answer.feed(text.feed(event))
        sent += stream.step(0, delta)
        if delta.answer is not None:
            break
    return decode_events(b"".join([*sent, *stream.end()]))


@given(groupings(), stops, st.booleans())
def test_chat_streams_do_not_depend_on_chunking(grouping, stop, frames):
    whole, groups = grouping
    reference = chat_chunks([whole], stop)
    chunks = chat_chunks(groups, stop, frames)
    assert text_of(chunks) == text_of(reference)
    assert finish_of(chunks) == finish_of(reference) == "stop"
    assert chunks[-1]["usage"] == reference[-1]["usage"]
    if not stop:
        assert text_of(chunks) == TOKENIZER.decode(whole)
        assert chunks[-1]["usage"]["completion_tokens"] == len(whole) + 1
    assert not any(text in text_of(chunks) for text in stop)


@given(groupings(), stops, st.booleans())
def test_every_chat_chunk_is_one_that_clients_survive(grouping, stop, frames):
    first, *others, usage = chat_chunks(grouping[1], stop, frames)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    for chunk in others:
        (choice,) = chunk["choices"]
        assert set(choice) == {"index", "delta", "finish_reason", "logprobs"}
        assert choice["index"] == 0
        assert set(choice["delta"]) <= {"content"}
        assert choice["delta"].get("content") != ""
        assert chunk["usage"] is None
    assert others[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []


@given(st.lists(groupings(), min_size=1, max_size=3), stops, st.randoms(use_true_random=False))
def test_interleaved_completions_come_apart_again(grouped, stop, random):
    events = [run_events(groups, frames=False) for _, groups in grouped]
    running = {number: (assembler(stop), AnswerAssembler(VERBATIM)) for number in range(len(grouped))}
    stream = CompletionStream(HEAD, CellDecoder(TOKENIZER), include_usage=True, copies=1)
    sent = list(stream.start())
    while running:
        number = random.choice(list(running))
        text, answer = running[number]
        delta = answer.feed(text.feed(events[number].pop(0)))
        sent += stream.step(number, delta)
        if delta.answer is not None:
            del running[number]
    decoded = decode_events(b"".join([*sent, *stream.end()]))
    total = 0
    for number, (whole, _) in enumerate(grouped):
        reference = chat_chunks([whole], stop)
        assert text_of(decoded, number) == text_of(reference)
        assert finish_of(decoded, number) == "stop"
        total += reference[-1]["usage"]["completion_tokens"]
    assert decoded[-1]["usage"]["completion_tokens"] == total
