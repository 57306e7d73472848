"""Tokenizers out of GGUF metadata give the ids of the tokenizers that the files were made from."""

from __future__ import annotations

import itertools
import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.gguf_files import byte_symbol, convert, write_metadata
from tests.infos import model_info
from unmask.checkpoints.chat_template import ChatTemplate
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.gguf_header import read_gguf_header
from unmask.checkpoints.gguf_tokenizer import gguf_tokenizer
from unmask.checkpoints.prompts import PromptEncoder
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.errors import InvalidCheckpointError, InvalidValueError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
TEXTS = (
    "Hello world",
    "  two  spaces\n\nand lines ",
    "it's 12345 o'clock!!",
    "naïve café, 日本語 🎉",
    "a\tb\r\nc",
    "",
)


def build(tmp_path, **keys):
    """The tokenizer of a file with ``tokenizer.ggml.<keys>``; ``None`` leaves a key out."""
    path = write_metadata(
        tmp_path / "m.gguf", {f"tokenizer.ggml.{key}": value for key, value in keys.items() if value is not None}
    )
    return TokenizerSource.from_gguf(read_gguf_header(path))


def byte_level(*more: str, **keys):
    """Keys of a byte-level vocabulary: all bytes, then ``more``."""
    tokens = [byte_symbol(index) for index in range(256)] + list(more)
    return {"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "merges": ["a b"], **keys}


def spaced(model: str, pieces: dict[str, float], **keys):
    """Keys of a vocabulary as SentencePiece makes it: <unk>, <s>, </s>, all bytes, then ``pieces`` with scores."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{index:02X}>" for index in range(256)), *pieces]
    return {
        "model": model,
        "tokens": tokens,
        "scores": [0.0] * 259 + list(pieces.values()),
        "token_type": [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces),
        "unknown_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **keys,
    }


def shown(source: TokenizerSource, text: str) -> list[str]:
    return source.tokenizer.encode(text, add_special_tokens=False).tokens


def test_the_embedded_tokenizer_by_way_of_gguf(tmp_path):
    original = TokenizerSource.from_directory(open_checkpoint(EMBEDDED_MODEL).path)
    model = json.loads(original.tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    source = build(
        tmp_path,
        model="gpt2",
        pre="gpt-2",
        tokens=tokens,
        merges=[" ".join(merge) for merge in model["merges"]],
        token_type=[CONTROL] * 7 + [NORMAL] * (len(tokens) - 7),
        bos_token_id=1,
        eos_token_id=0,
        mask_token_id=6,
    )
    ours, theirs = Tokenizer(source, 6), Tokenizer(original, 6)
    assert (ours.size, ours.specials) == (theirs.size, theirs.specials)
    assert ours.special_text("mask_token") == "<|mdm_mask|>"
    assert not source.config["add_bos_token"]
    for text in (*TEXTS, "what is 7 plus 12?", "say <|mdm_mask|> <|eot|>"):
        ids = theirs.encode_text(text)
        assert ours.encode_text(text) == ids
        assert ours.decode(ids) == theirs.decode(ids) == text


# What the rules make of one text; where two rules differ is where a wrong one would go unnoticed.
SAMPLE = "I'LL add  12345+67 = abc's!!\n\n x\n"
WORDS = {
    "gpt-2": ["I", "'", "LL", " add", " ", " 12345", "+", "67", " =", " abc", "'s", "!!", "\n\n", " x", "\n"],
    "default": [
        "I", "'", "LL", " add", " ", " ", "123", "45", "+", "67", " ", "=", " abc", "'", "s", "!!", "\n\n", " x", "\n",
    ],
    "llama-bpe": ["I", "'LL", " add", " ", " ", "123", "45", "+", "67", " =", " abc", "'s", "!!\n\n", " x", "\n"],
    "qwen2": ["I", "'LL", " add", " ", " ", *"12345", "+", *"67", " =", " abc", "'s", "!!\n\n", " x", "\n"],
    "bailingmoe2": ["I", "'LL", " add", " ", " ", *"12345", "+", *"67", " =", " abc", "'s", "!!\n\n", " x", "\n"],
    "llada-moe": ["I", "'LL", " add", " ", " ", *"12345", "+", *"67", " =", " abc", "'s", "!!\n\n", " x", "\n"],
}  # fmt: skip


@pytest.mark.parametrize("rule", WORDS)
def test_how_the_rules_cut_words(tmp_path, rule):
    source = build(tmp_path, **byte_level(pre=rule))
    pieces = source.tokenizer.pre_tokenizer.pre_tokenize_str(SAMPLE)
    assert [SAMPLE[begin:end] for _, (begin, end) in pieces] == WORDS[rule]
    for text in TEXTS:
        assert source.tokenizer.decode(source.tokenizer.encode(text).ids) == text


def test_a_rule_nobody_knows_is_refused_by_name(tmp_path):
    with pytest.raises(InvalidCheckpointError, match=r"'tekken'; Unmask knows default, gpt-2, llama-bpe.*llada-moe"):
        build(tmp_path, **byte_level(pre="tekken"))
    absent = build(tmp_path, **byte_level(pre=None)).tokenizer.pre_tokenizer.pre_tokenize_str(SAMPLE)
    assert [SAMPLE[begin:end] for _, (begin, end) in absent] == WORDS["default"]


def test_qwen_composes_characters_and_llama_keeps_whole_words(tmp_path):
    assert build(tmp_path, **byte_level(pre="qwen2")).tokenizer.encode("e\u0301").ids == [0xC3, 0xA9]
    assert len(build(tmp_path, **byte_level(pre="gpt-2")).tokenizer.encode("e\u0301").ids) == 3
    assert shown(build(tmp_path, **byte_level("hello", pre="llama-bpe")), "hello") == ["hello"]
    assert shown(build(tmp_path, **byte_level("hello", pre="gpt-2")), "hello") == list("hello")


def test_merges_in_their_order(tmp_path):
    source = build(
        tmp_path, **byte_level("he", "el", "hel", "lo", "Ġhe", merges=["h e", "e l", "l o", "he l", "Ġ he", "x y"])
    )
    assert shown(source, "hello he") == ["hel", "lo", "Ġhe"]


def test_kinds_of_tokens(tmp_path):
    source = build(
        tmp_path,
        **byte_level("<|end|>", "<tool>", "[PAD258]", "<|begin|>", "", "twice", "twice"),
        token_type=[NORMAL] * 256 + [CONTROL, USER_DEFINED, UNUSED, NORMAL, NORMAL, NORMAL, NORMAL],
        bos_token_id=259,
        eos_token_id=256,
        padding_token_id=256,
        add_bos_token=True,
    )
    assert source.config == {
        "bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|end|>", "add_bos_token": True,
    }  # fmt: skip
    tokenizer = Tokenizer(source, None)
    assert tokenizer.specials == {"<|end|>": 256, "<|begin|>": 259}
    assert tokenizer.size == 263
    assert tokenizer.encode_text("x<tool>") == [259, ord("x"), 257]
    assert tokenizer.encode_text("<|end|>", add_begin=False) == list(b"<|end|>")
    assert tokenizer.decode([257, 256, 258, 260]) == "<tool>"
    assert source.tokenizer.token_to_id("twice") == 262
    assert tokenizer.check_ids([256, 255]) == [256, 255]  # no mask token to look for
    with pytest.raises(InvalidValueError):
        Tokenizer(source, 255).check_ids([256, 255])


PIECES = {
    "▁": -50.0, "h": -51.0, "e": -52.0, "l": -53.0, "o": -54.0, "w": -55.0, "r": -56.0, "d": -57.0, "s": -58.0,
    "<": -59.0, ">": -60.0, "/": -61.0, "he": -1.0, "ll": -2.0, "▁w": -3.0, "or": -4.0, "hell": -5.0, "hello": -6.0,
    "▁hello": -7.0, "▁wor": -8.0, "ld": -9.0, "▁world": -10.0, "</": -11.0, "s>": -12.0, "lo": -0.5, "▁▁": -13.0,
}  # fmt: skip


def test_sentencepiece_merges_by_score(tmp_path):
    source = build(tmp_path, **spaced("llama", PIECES))
    # "lo" has the best score of all, so that "hello" is never made.
    assert shown(source, "hello world") == ["▁", "he", "l", "lo", "▁world"]
    source = build(tmp_path, **spaced("llama", PIECES | {"lo": -99.0}))
    assert shown(source, "hello world") == ["▁hello", "▁world"]
    assert shown(source, "world") == ["▁world"]
    assert shown(source, "  h") == ["▁▁", "▁", "h"]
    assert shown(source, "hé\n") == ["▁", "h", "<0xC3>", "<0xA9>", "<0x0A>"]
    assert source.config["add_bos_token"] is True
    tokenizer = Tokenizer(source, None)
    for text in ("hello world", "hé\nd", "lo", "🎉 ok", " led by a space"):
        ids = tokenizer.encode_text(text)
        assert ids[0] == 1
        assert tokenizer.decode(ids) == text
        decoder = tokenizer.incremental_decoder()
        assert "".join([*map(decoder.step, ids), decoder.flush()]) == text


def test_what_a_user_writes_never_becomes_a_special_token_or_a_byte(tmp_path):
    literal = {"</s>": -1.0, "<0x": -1.0, "0": -70.0, "x": -71.0, "<0": -2.0, "A>": -1.0, "A": -72.0, "0A>": -1.0}
    tokenizer = Tokenizer(build(tmp_path, **spaced("llama", PIECES | literal)), None)
    for text in ("</s>", "<s>", "<0x0A>", "<unk>"):
        ids = tokenizer.encode_text(text, add_begin=False)
        assert not {0, 1, 2} & set(ids)
        assert tokenizer.decode(ids) == text


def test_sentencepiece_without_the_leading_space(tmp_path):
    source = build(tmp_path, **spaced("llama", PIECES, add_space_prefix=False, add_bos_token=False))
    assert shown(source, "world") == ["w", "or", "ld"]
    assert source.config["add_bos_token"] is False
    assert source.tokenizer.decode(source.tokenizer.encode(" led").ids) == " led"


def test_gemma_merges_as_the_file_says(tmp_path):
    merges = ["h e", "l l", "he ll", "hell o", "▁ w", "o r", "▁w or", "\n \n"]
    pieces = PIECES | {"\n": -1.0, "\n\n": -1.0}
    source = build(tmp_path, **spaced("gemma4", pieces, merges=merges, add_space_prefix=False))
    assert shown(source, "hello world\n\n") == ["hello", "▁wor", "l", "d", "\n\n"]
    assert source.config["add_bos_token"] is True
    tokenizer = Tokenizer(source, None)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode_text(text)) == text


def merged_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """What llama.cpp does: of the neighbours that make a token, merge those of the best score, the left ones first."""
    pieces = list(text.replace(" ", "▁"))
    while True:
        joined = [(scores.get(left + right), -at) for at, (left, right) in enumerate(itertools.pairwise(pieces))]
        best = max((pair for pair in joined if pair[0] is not None), default=None)
        if best is None:
            return pieces
        at = -best[1]
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]


def test_against_a_trained_vocabulary(tmp_path):
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    trained.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{index:02X}>" for index in range(256))]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=700, special_tokens=specials, show_progress=False)
    prose = (ROOT / "LICENSE").read_text()[:8000]
    trained.train_from_iterator([prose], trainer)
    model = json.loads(trained.to_str())["model"]
    learnt = sorted(model["vocab"], key=model["vocab"].__getitem__)[259:]
    # As SentencePiece scores what it learns: the sooner the better.
    scores = {piece: -float(rank) for rank, piece in enumerate(learnt)}
    keys = spaced("llama", scores, add_space_prefix=False)
    by_score = build(tmp_path, **keys)
    by_merges = build(tmp_path, **(keys | {"model": "gemma4", "merges": [" ".join(pair) for pair in model["merges"]]}))
    known = set(prose)
    for text in (prose[:1500], "a test of the tokens", "aaaa  known to merge"):
        assert set(text) <= known
        assert shown(by_merges, text) == trained.encode(text).tokens
        assert shown(by_score, text) == merged_by_score(text, scores)


def test_the_chat_template_of_the_file(tmp_path):
    path = write_metadata(
        tmp_path / "m.gguf",
        {f"tokenizer.ggml.{key}": value for key, value in byte_level().items()}
        | {"tokenizer.chat_template": "{% for m in messages %}[{{ m.content }}]{% endfor %}"},
    )
    source = TokenizerSource.from_gguf(read_gguf_header(path))
    tokenizer = Tokenizer(source, None)
    ids = ChatTemplate(source, tokenizer).encode([{"role": "user", "content": "hi"}])
    assert tokenizer.decode(ids) == "[hi]"
    assert not ChatTemplate(build(tmp_path, **byte_level()), tokenizer).exists


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (byte_level(model=None), "'tokenizer.ggml.model' is missing"),
        (byte_level(model=3), "'tokenizer.ggml.model' is not a text"),
        (byte_level(model="bert"), "'bert' is none of gpt2, gemma4, llama"),
        (byte_level(pre=7), "'tokenizer.ggml.pre' is not a text"),
        (byte_level(tokens=None), "'tokenizer.ggml.tokens' is not an array of str"),
        (byte_level(tokens="abc"), "'tokenizer.ggml.tokens' is not an array of str"),
        (byte_level(tokens=[1, 2]), "'tokenizer.ggml.tokens' is not an array of str"),
        (byte_level(tokens=["x" * 2000]), "a token has 2000 characters"),
        (byte_level(merges=None), "'tokenizer.ggml.merges' is not an array of str"),
        (byte_level(merges=["ab"]), "'ab' is not a merge of two tokens"),
        (byte_level(merges=["a "]), "'a ' is not a merge of two tokens"),
        (byte_level(token_type=[NORMAL] * 255), "'tokenizer.ggml.token_type' has 255 items for 256 tokens"),
        (byte_level(token_type=[1.0] * 256), "'tokenizer.ggml.token_type' is not an array of i32 or u32"),
        (byte_level(token_type=["x"] * 256), "'tokenizer.ggml.token_type' is not an array of i32 or u32"),
        (byte_level(bos_token_id=256), "'tokenizer.ggml.bos_token_id' is 256, not one of its 256 tokens"),
        (byte_level(mask_token_id=True), "'tokenizer.ggml.mask_token_id' is True"),
        (byte_level(eos_token_id="x" * 2000), "'tokenizer.ggml.eos_token_id' is xxx"),
        (byte_level(add_bos_token=1), "'tokenizer.ggml.add_bos_token' is not a flag"),
        (spaced("llama", PIECES, scores=None), "'tokenizer.ggml.scores' is not an array of f32 or f64"),
        (spaced("llama", PIECES, scores=[1.0]), "'tokenizer.ggml.scores' has 1 items"),
        (spaced("llama", PIECES, scores=[1] * 285), "'tokenizer.ggml.scores' is not an array of f32"),
        (spaced("llama", PIECES, add_space_prefix="yes"), "'tokenizer.ggml.add_space_prefix' is not a flag"),
        (spaced("gemma4", PIECES), "'tokenizer.ggml.merges' is not an array of str"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_metadata(tmp_path, keys, fault):
    with pytest.raises(InvalidCheckpointError) as caught:
        build(tmp_path, **keys)
    assert fault in str(caught.value)
    assert caught.value.hint
    assert len(str(caught.value)) < 1000


def test_a_template_that_is_no_text(tmp_path):
    keys = {f"tokenizer.ggml.{key}": value for key, value in byte_level().items()}
    path = write_metadata(tmp_path / "m.gguf", keys | {"tokenizer.chat_template": 7})
    with pytest.raises(InvalidCheckpointError, match=r"'tokenizer\.chat_template' is not a text"):
        gguf_tokenizer(read_gguf_header(path))


def test_the_golden_files_and_the_converted_ones(golden, tmp_path):
    for path in sorted((golden / "gguf").glob("*.gguf")):
        source = TokenizerSource.from_gguf(read_gguf_header(path))
        assert Tokenizer(source, 255).size == 256
        assert source.config["mask_token"] == "<t255>"
    converted = convert(golden / "llada" / "ckpt", tmp_path / "m.gguf")
    prompts = PromptEncoder(str(converted), model_info(vocab_size=256, mask_id=255))
    assert prompts.encode("hello") == [250, *b"hello"]
    assert prompts.tokenizer.decode([*b"hello", 250]) == "hello"
    assert not prompts.template.exists


@settings(max_examples=100, derandomize=True)
@given(st.data())
def test_no_vocabulary_leads_to_a_foreign_error(tmp_path_factory, data):
    words = st.text(alphabet="ab▁Ġ <0x>\n", max_size=4)
    tokens = data.draw(st.lists(words, min_size=1, max_size=12))
    keys = {
        "model": data.draw(st.sampled_from(["gpt2", "gemma4", "llama"])),
        "tokens": tokens,
        "token_type": data.draw(st.lists(st.integers(0, 9), min_size=len(tokens), max_size=len(tokens))),
        "scores": [float(index) for index in range(len(tokens))],
        "merges": data.draw(st.lists(words, min_size=1, max_size=4)),
        "unknown_token_id": data.draw(st.none() | st.integers(0, 12)),
    }
    try:
        source = build(tmp_path_factory.getbasetemp(), **keys)
    except InvalidCheckpointError:
        return
    source.tokenizer.encode(data.draw(words))
