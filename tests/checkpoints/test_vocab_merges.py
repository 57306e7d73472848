"""Directories without tokenizer.json: vocab.json, merges.txt and added tokens mean what tokenizer.json would say."""

from __future__ import annotations

import json
import os
import re
import time
import tracemalloc
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

import unmask
from tests.foreign_models import tiny_copy
from tests.golden.checkpoints import served_copy
from unmask.checkpoints.byte_level import WORD_RULES
from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.checkpoints.tokenizer_files import TOKENIZER_CLASSES, TokenizerFiles
from unmask.checkpoints.tokenizer_source import TokenizerSource
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.models.card import inspect_model
from unmask.models.registry import describe

# As Qwen publishes them, in tokenizer.json.
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>")
PLAIN = ("<think>", "</think>")
TEXTS = (
    "The cat isn't here; I'LL say: don't, we've THEY'RE.",
    "def f(x):\n    return x + 1  # 12345\r\n\r\n\n\tif y:\n",
    "  leading,   inner   and trailing spaces   ",
    "007 1234567890 3.14159 1,000,000 ٣٤ Ⅷ ½",
    "Café cafe\u0301 A\u030a ﬁ ﬂ Å \u212b",  # NFC joins some of these
    "naïve Zoë Straße ΑΒΓ Привет мир 你好世界。 こんにちは 안녕하세요 שלום مرحبا हिन्दी ไทย",
    "👍🏽 👨‍👩‍👧‍👦 🇩🇪 \u200b\u00a0\u2003\u3000\ufeff\ue000 \U0010ffff \x00\x1c\x85\u2028",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n",
    "<|im_end|><|MASK|> <|endoftext|>x <|im_end <|IM_END|> < think > <think></think>",
    "!!!??? ... --- *** $$$ ###  ## # ``` ~~~\n\n\n",
    "",
)
# A text that rules cut in different ways.
SAMPLE = "I'LL add  12345+67 = abc's!!\n\n x\n cafe\u0301"


def trained(pre_tokenizer, normalizer=None) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*TEXTS, *TEXTS, Path(__file__).read_text()], trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in PLAIN])
    return tokenizer


def trained_qwen() -> tokenizers.Tokenizer:
    words = pre_tokenizers.Split(Regex(QWEN2), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return trained(pre_tokenizers.Sequence([words, level]), normalizers.NFC())


QWEN = trained_qwen()
MODEL = json.loads(QWEN.to_str())
ADDED = {token["content"]: token["id"] for token in MODEL["added_tokens"]}
DECODER = {str(token["id"]): {**token, "id": None} for token in MODEL["added_tokens"]}
SPECIAL_MAP = {
    "eos_token": "<|im_end|>",
    "mask_token": {"content": "<|MASK|>"},
    "additional_special_tokens": [*SPECIAL],
}
CLASS = {"tokenizer_class": "Qwen2Tokenizer"}


def put(path, **files):
    """These files in the directory ``path``; a dict is JSON, ``None`` takes a file away."""
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        file = path / f"{name}.{'txt' if name == 'merges' else 'json'}"
        file.unlink(missing_ok=True)
        if content is not None:
            content = json.dumps(content, ensure_ascii=False) if isinstance(content, dict) else content
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pieces(tokenizer, **others):
    """What a slow tokenizer is saved as, without its added tokens."""
    model = json.loads(tokenizer.to_str())["model"]
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    return {"vocab": model["vocab"], "merges": "#version: 0.2\n" + merges, **others}


FORMS = {
    "decoder": {"tokenizer_config": CLASS | {"added_tokens_decoder": DECODER}},
    "both": {"tokenizer_config": CLASS | {"added_tokens_decoder": DECODER}, "added_tokens": ADDED},
    "the decoder wins": {
        "tokenizer_config": CLASS | {"added_tokens_decoder": DECODER},
        "added_tokens": {"<|im_end|>": 4000, "<|was_there|>": ADDED["<|MASK|>"]},
    },
    "half and half": {
        "tokenizer_config": CLASS | {"added_tokens_decoder": {key: DECODER[key] for key in sorted(DECODER)[1::2]}},
        "added_tokens": ADDED,
        "special_tokens_map": SPECIAL_MAP,
    },
    "legacy": {"tokenizer_config": CLASS, "added_tokens": ADDED, "special_tokens_map": SPECIAL_MAP},
    "roles in the config": {"tokenizer_config": CLASS | SPECIAL_MAP, "added_tokens": ADDED},
    "in the vocabulary": {
        "tokenizer_config": CLASS | SPECIAL_MAP,
        "vocab": MODEL["model"]["vocab"] | ADDED,
        "added_tokens": {text: ADDED[text] for text in PLAIN},
    },
}


@pytest.fixture(scope="module", params=FORMS)
def both(request, tmp_path_factory):
    """Our tokenizer from the pieces, and from tokenizer.json."""
    folder = tmp_path_factory.mktemp("tokenizers")
    ours = TokenizerSource.from_directory(put(folder / "pieces", **pieces(QWEN) | FORMS[request.param]))
    theirs = TokenizerSource.from_directory(put(folder / "whole", tokenizer=QWEN.to_str(), tokenizer_config=CLASS))
    return Tokenizer(ours, None), Tokenizer(theirs, None)


def same(both, text):
    ours, theirs = both
    ids = theirs.encode_text(text)
    assert ours.encode_text(text) == ids
    assert ours.decode(ids, keep_special=True) == theirs.decode(ids, keep_special=True)
    assert ours.pieces(ids) == theirs.pieces(ids)
    rendered = theirs.encode_rendered(text, theirs.guard([]))
    assert ours.encode_rendered(text, ours.guard([])) == rendered
    assert ours.decode(rendered) == theirs.decode(rendered)


def test_the_pieces_are_the_tokenizer(both):
    ours, theirs = both
    assert (ours.size, ours.specials) == (theirs.size, theirs.specials)
    assert ours.pieces(list(range(ours.size))) == theirs.pieces(list(range(theirs.size)))
    for text in (*TEXTS, SAMPLE, Path(__file__).read_text(), "".join(map(chr, range(0x3000)))):
        same(both, text)


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from((*SPECIAL, *PLAIN, "\n", "  ", "12"))), max_size=6))
def test_any_text_has_the_same_ids(both, parts):
    same(both, "".join(parts))


def test_ids_with_gaps_stay(tmp_path):
    ids = {"<|MASK|>": 7000, "<|im_end|>": 900, "<think>": 5000}
    path = put(tmp_path, **pieces(QWEN, tokenizer_config=CLASS, added_tokens=ids))
    tokenizer = TokenizerSource.from_directory(path).tokenizer
    assert {text: tokenizer.token_to_id(text) for text in ids} == ids == TokenizerFiles(path).added_tokens()
    assert tokenizer.encode("a<think>b").ids[1] == 5000
    assert [tokenizer.id_to_token(index) for index in ids.values()] == list(ids)


def test_each_class_cuts_words_by_its_rule(tmp_path):
    gpt2 = trained(pre_tokenizers.ByteLevel(add_prefix_space=False))
    assert set(TOKENIZER_CLASSES.values()) <= set(WORD_RULES)
    for name, rule in TOKENIZER_CLASSES.items():
        original = {"qwen2": QWEN, "gpt-2": gpt2}[rule]
        path = put(tmp_path / name, **pieces(original, tokenizer_config={"tokenizer_class": name}))
        assert TokenizerSource.from_directory(path).tokenizer.encode(SAMPLE).ids == original.encode(SAMPLE).ids, name


@pytest.mark.parametrize(
    "merges",
    [lambda text: text.removeprefix("#version: 0.2\n"), lambda text: text.replace("\n", "\r\n"), str.rstrip],
    ids=["no version", "Windows", "no last newline"],
)
def test_merges_as_people_have_them(tmp_path, merges):
    files = pieces(QWEN, tokenizer_config=CLASS)
    path = put(tmp_path, **files | {"merges": merges(files["merges"])})
    assert TokenizerSource.from_directory(path).tokenizer.encode(SAMPLE).ids == QWEN.encode(SAMPLE).ids


def test_a_number_sign_may_be_merged(tmp_path):
    vocabulary = {"#": 0, "##": 1, "#version:": 2, "a": 3, "#version:a": 4}
    path = put(tmp_path, vocab=vocabulary, merges="#version: 0.2\n# #\n#version: a\n", tokenizer_config=CLASS)
    assert TokenizerSource.from_directory(path).tokenizer.encode("##").ids == [1]


def test_tokenizer_json_goes_before_the_pieces(tmp_path):
    path = put(tmp_path, **pieces(QWEN, added_tokens={"<|x|>": 9000}), tokenizer=QWEN.to_str())
    assert TokenizerSource.from_directory(path).tokenizer.get_vocab() == QWEN.get_vocab()
    assert TokenizerFiles(path).added_tokens() == ADDED


def long_vocabulary(count):
    return MODEL["model"]["vocab"] | {f"token {index}": index for index in range(5000, 5000 + count)}


FAULTS = {
    "no merges": ({"merges": None}, "neither tokenizer.json nor merges.txt"),
    "no vocabulary": ({"vocab": None}, "neither tokenizer.json nor vocab.json"),
    "nothing": ({"vocab": None, "merges": None}, "neither tokenizer.json nor vocab.json and merges.txt"),
    "vocabulary cut short": ({"vocab": json.dumps(MODEL["model"]["vocab"])[:3000]}, "vocab.json' cannot be read"),
    "vocabulary of a list": ({"vocab": "[1, 2]"}, "vocab.json' cannot be read"),
    "vocabulary of texts": ({"vocab": {"a": "1"}}, "vocab.json' cannot be read"),
    "empty vocabulary": ({"vocab": {}, "merges": ""}, "it has no tokens"),
    "empty vocabulary file": ({"vocab": ""}, "vocab.json' cannot be read"),
    "negative id": ({"vocab": {"a": -1}}, "vocab.json' cannot be read"),
    "huge id": ({"vocab": {"a": 2**32}}, "vocab.json' cannot be read"),
    "vocabulary of 40 MB": ({"vocab": {"x" * 40_000_000: 1}}, "over 32 MiB"),
    "many tokens": ({"vocab": b"{" + b"," * 600_000 + b"}"}, "over 524288 values"),
    "one id for two": ({"vocab": MODEL["model"]["vocab"] | {"Ġdouble": 5}}, "have the same id, 5"),
    "merge of three": ({"merges": "a b c\n"}, "line 1 needs 'b c'"),
    "merge of one": ({"merges": "#version: 0.2\na b\nabc\n"}, "line 2 needs 'ab'|line 3 needs ''"),
    "merge of unknown tokens": ({"merges": "#version: 0.2\n\nquite unheard\n"}, "line 3 needs 'quite'"),
    "merges of one line": ({"merges": "x" * 5_000_000}, "line 1 needs 'x{50}'"),
    "merges of 40 MB": ({"merges": "x" * 40_000_000}, "merges.txt' cannot be used: it has over 32 MiB"),
    "many merges": ({"merges": "\n" * 600_000}, "524288 lines"),
    "merges in bytes": ({"merges": b"\xff\xfe"}, "it cannot be read: 'utf-8'"),
    "merges cut short": ({"vocab": long_vocabulary(2000), "merges": ""}, r"none of 2\d{3} tokens"),
    "added id in use": ({"added_tokens": {"<|x|>": 5}}, "have the same id, 5"),
    "added under another id": ({"added_tokens": {"a": 5000}}, "in vocab.json, but also 5000"),
    "added twice": (
        {"added_tokens": {"<|x|>": 5000, "<|y|>": 5000}},
        "added_tokens.json' gives two tokens the same id",
    ),
    "added list": ({"added_tokens": "[]"}, "added_tokens.json' cannot be read"),
    "added text": ({"added_tokens": {"<|x|>": "5000"}}, "added_tokens.json' cannot be read"),
    "added cut short": ({"added_tokens": '{"<|x|>": 50'}, "added_tokens.json' cannot be read"),
    "added nothing": ({"added_tokens": {"": 5000}}, "'' cannot be an added token of the id 5000"),
    "many added": ({"added_tokens": b"{" + b"," * 40_000 + b"}"}, "over 32768 values"),
    "added 5 MB": ({"added_tokens": {"x" * 5_000_000: 5000}}, "over 4 MiB"),
    "roles of 2 MB": ({"special_tokens_map": {"eos_token": "x" * 2_000_000}}, "over 1 MiB"),
    "roles in a list": ({"special_tokens_map": "[]"}, "is not a JSON object"),
}
DECODERS = {
    "list": ([], "its added tokens are malformed"),
    "nothing": (None, "its added tokens are malformed"),
    "word for an id": ({"a": {"content": "x"}}, "its added tokens are malformed"),
    "negative": ({"-1": {"content": "x"}}, "its added tokens are malformed"),
    "text": ({"5000": "x"}, "its added tokens are malformed"),
    "no content": ({"5000": {"special": True}}, "its added tokens are malformed"),
    "flag": ({"5000": {"content": "x", "special": "yes"}}, "its added tokens are malformed"),
    "two ids": ({"5000": {"content": "x!"}, "5001": {"content": "x!"}}, "gives a token two ids"),
    "id in use": ({"5": {"content": "<|x|>"}}, "have the same id, 5"),
    "many": ({str(5000 + index): {"content": str(index)} for index in range(32_800)}, "adds over 32768 tokens"),
}


def refusal(path):
    begun = time.process_time()
    with pytest.raises(InvalidCheckpointError) as caught:
        TokenizerSource.from_directory(path)
    assert time.process_time() - begun < 2
    assert caught.value.hint
    assert len(caught.value.message) < 1000
    return caught.value.message


@pytest.mark.parametrize("kind", FAULTS)
def test_broken_pieces_are_named(tmp_path, kind):
    files, fault = FAULTS[kind]
    message = refusal(put(tmp_path, **pieces(QWEN, tokenizer_config=CLASS) | files))
    assert re.search(fault, message), message


@pytest.mark.parametrize("kind", DECODERS)
def test_a_broken_decoder_is_named(tmp_path, kind):
    decoder, fault = DECODERS[kind]
    assert fault in refusal(put(tmp_path, **pieces(QWEN, tokenizer_config=CLASS | {"added_tokens_decoder": decoder})))


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json"])
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "dangling"])
def test_what_is_no_file(tmp_path, name, kind):
    path = put(tmp_path, **pieces(QWEN, tokenizer_config=CLASS))
    file = path / name
    file.unlink(missing_ok=True)
    {
        "fifo": lambda: os.mkfifo(file),
        "directory": file.mkdir,
        "device": lambda: file.symlink_to("/dev/zero"),
        "dangling": lambda: file.symlink_to("/nowhere"),
    }[kind]()
    with pytest.raises((InvalidCheckpointError, CheckpointNotFoundError), match=name):
        TokenizerSource.from_directory(path)


@pytest.mark.parametrize(
    "config",
    [None, {}, {"tokenizer_class": None}, {"tokenizer_class": "LlamaTokenizer"}, {"tokenizer_class": "x" * 9000},
     {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}],
    ids=str,
)  # fmt: skip
def test_words_that_nobody_knows_how_to_cut(tmp_path, config):
    path = put(tiny_copy(tmp_path / "model"), tokenizer=None, **pieces(QWEN, tokenizer_config=config))
    message = refusal(path)
    assert all(name in message for name in TOKENIZER_CLASSES)
    card = inspect_model(str(path))
    assert (card.served, card.tokenizer, card.refusal.message) == (False, True, message)
    assert "save_pretrained" in card.refusal.remedy


@pytest.mark.parametrize("tokens", [
    {"added_tokens": {"<|MASK|>": 253, "<|im_end|>": 251}},
    {"decoder": {"253": {"content": "<|MASK|>", "special": True}, "251": {"content": "<|im_end|>", "special": True}}},
    {"added_tokens": {"<|MASK|>": 1, "<|im_end|>": 251}, "decoder": {"253": {"content": "<|MASK|>"}}},
])  # fmt: skip
def test_mask_and_end_are_found(golden, tmp_path, tokens):
    path = served_copy(golden / "sdar" / "ckpt", tmp_path, mask_token_id=None, eos_token_id=None)
    config = CLASS | {"added_tokens_decoder": tokens.get("decoder", {})}
    vocabulary = {byte: index for index, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet())[:250])}
    put(path, vocab=vocabulary, merges="", tokenizer_config=config, added_tokens=tokens.get("added_tokens"))
    spec = describe(open_checkpoint(str(path)))
    assert (spec.mask_id, spec.end_ids) == (253, (251,))
    card = inspect_model(str(path))
    assert (card.served, card.tokenizer, card.mask_id, card.end_ids) == (True, True, 253, (251,))


@pytest.mark.parametrize("missing", ["vocab.json", "merges.txt"])
def test_half_a_pair_is_no_tokenizer(tmp_path, missing):
    path = put(tiny_copy(tmp_path / "model"), tokenizer=None, **pieces(QWEN, tokenizer_config=CLASS))
    assert inspect_model(str(path)).served
    (path / missing).unlink()
    card = inspect_model(str(path))
    assert (card.served, card.tokenizer) == (False, False)
    assert "merges.txt" in card.refusal.remedy


def test_a_served_directory(golden, tmp_path):
    """Dream's bytes as tokens, in one form and in the other: the same answers."""
    whole = served_copy(golden / "dream" / "ckpt", tmp_path / "whole", tokenizer=True)
    apart = served_copy(golden / "dream" / "ckpt", tmp_path / "apart", mask_token_id=None)
    original = tokenizers.Tokenizer.from_file(str(whole / "tokenizer.json"))
    files = pieces(original, tokenizer_config={"tokenizer_class": "DreamTokenizer", "mask_token": "<|mask|>"})
    files["vocab"].pop("<|mask|>")
    put(apart, **files, added_tokens={"<|mask|>": 255})
    answers = []
    for path in (whole, apart):
        llm = unmask.LLM(str(path), device="cpu", threads=1)
        assert llm.model.mask_id == 255
        params = unmask.GenerationParams(max_tokens=16, steps=8)
        answers.append(llm.generate(["Tell me 12 things.", "Été <|mask|>"], params, raw=True))
    assert answers[0][0].text
    assert [answer.text for answer in answers[0]] == [answer.text for answer in answers[1]]


HEAVY = {
    "decoder": {"tokenizer_config": CLASS | {"added_tokens_decoder": DECODERS["many"][0]}},
    "full decoder": {
        "tokenizer_config": {"added_tokens_decoder": {str(index): {"content": f"<{index}>"} for index in range(30_000)}}
    },
    "deep decoder": {"tokenizer_config": '{"added_tokens_decoder":' + "[" * 60_000},
    "one token": {"tokenizer_config": {"added_tokens_decoder": {"1": {"content": "x" * 4_000_000}}}},
    "added": {"added_tokens": {f"<{index}>": index for index in range(32_000)}},
    "many added": {"added_tokens": b"{" + b"," * 4_000_000 + b"}"},
    "vocabulary": {"vocab": b"{" * 60_000_000},
}


@pytest.mark.parametrize("kind", HEAVY)
def test_a_card_costs_little(tmp_path, kind):
    files = pieces(QWEN, tokenizer_config=CLASS) | HEAVY[kind]
    path = str(put(tiny_copy(tmp_path / "model", mask_token_id=None), tokenizer=None, **files))
    begun = time.process_time()
    inspect_model(path)
    assert time.process_time() - begun < 0.3  # a single call on a shared machine
    tracemalloc.start()
    inspect_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * 2**20


def test_the_hub_is_asked_for_the_pieces():
    from unmask.checkpoints.hub import _WANTED

    names = ("vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json", "tokenizer_config.json")
    assert all(any(Path(name).match(pattern) for pattern in _WANTED) for name in names)


def test_the_page_on_models_names_the_classes():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    sentence = page.split("In place of `tokenizer.json`")[1].split("\n\n")[0]
    assert [name for name in TOKENIZER_CLASSES if f"`{name}`" not in sentence] == []
