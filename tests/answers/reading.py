"""Reading texts in pieces, and texts of answers as models write them."""

from __future__ import annotations

from hypothesis import strategies as st

from unmask.answers.parser import AnswerParser
from unmask.answers.parts import AnswerBuilder, merged
from unmask.answers.syntax import CHANNEL, GEMMA, HERMES, THINK, AnswerSyntax

QWEN = AnswerSyntax(THINK, HERMES)
GEMMA4 = AnswerSyntax(CHANNEL, GEMMA)


def read(text, syntax=QWEN, cuts=(), *, tools=True, **options):
    """The parts of ``text`` fed in the pieces between ``cuts``."""
    parser = AnswerParser(syntax, tools=tools, **options)
    parts = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        given = parser.feed(text[start:end])
        assert given == merged(given)
        parts += given
    parts += parser.finish()
    assert all(getattr(part, "text", "-") and (getattr(part, "name", "-") or part.arguments) for part in parts)
    return merged(parts)


def build(parts):
    builder = AnswerBuilder()
    for part in parts:
        builder.add(part)
    return builder.content, builder.reasoning, [(call.name, call.arguments) for call in builder.tool_calls]


def answer(text, syntax=QWEN, **options):
    """Content, reasoning and calls of ``text``; the same for every way to cut it in two, and in single characters."""
    whole = read(text, syntax, **options)
    for cuts in [range(1, len(text)), *([cut] for cut in range(1, len(text)))]:
        assert read(text, syntax, list(cuts), **options) == whole, cuts
    return build(whole)


def texts(*pieces):
    """Texts of such ``pieces``, of single characters, and of parts of pieces."""
    part = st.sampled_from(pieces).flatmap(
        lambda piece: st.tuples(st.just(piece), st.integers(0, len(piece))).map(lambda cut: cut[0][: cut[1]])
    )
    return st.lists(st.one_of(st.sampled_from(pieces), part, st.text(max_size=3)), max_size=12).map("".join)
