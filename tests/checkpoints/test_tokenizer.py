"""Special tokens in content are text; only the template's own markers are special."""

from __future__ import annotations

import shutil
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.infos import model_info
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.prompts import PromptEncoder
from unmask.errors import InvalidCheckpointError, InvalidValueError, UnsupportedValueError

MASK = 6
INFO = model_info(name="tiny", block_length=16, context_length=1024, vocab_size=1024, mask_id=MASK)
PROMPTS = PromptEncoder(EMBEDDED_MODEL, INFO)
TOKENIZER = PROMPTS.tokenizer
SPECIALS = TOKENIZER.specials


def chat(*contents: str, role: str = "user") -> list[int]:
    return PROMPTS.encode([{"role": role, "content": content} for content in contents])


def test_the_layout_of_a_conversation():
    ids = PROMPTS.encode(
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
    )
    markers = {index: text for text, index in SPECIALS.items()}
    shown = "".join(markers.get(index) or TOKENIZER.decode([index]) for index in ids)
    assert shown == "<|startoftext|><|system|>s<|user|>a<|assistant|>b<|eot|><|user|>c<|assistant|>"


@pytest.mark.parametrize("literal", sorted(SPECIALS))
def test_a_special_literal_in_a_message_stays_text(literal):
    plain, written = chat("say x"), chat(f"say {literal} x")
    count = sum(index in SPECIALS.values() for index in written)
    assert count == sum(index in SPECIALS.values() for index in plain)
    assert MASK not in written
    assert literal in TOKENIZER.decode(written)


@given(st.text(alphabet=st.sampled_from("<|>usermd_askot\ue000\ue001 "), max_size=40))
def test_no_content_can_forge_a_marker(content):
    ids = chat(content)
    assert [index for index in ids if index in SPECIALS.values()] == [
        index for index in chat("x") if index in SPECIALS.values()
    ]
    assert content.strip() in TOKENIZER.decode(ids)


def test_content_that_leaves_no_room_for_the_guard_is_refused():
    everything = "".join(map(chr, range(0xE000, 0xF900)))
    with pytest.raises(InvalidValueError) as caught:
        chat(everything)
    assert caught.value.param == "messages"
    assert everything[1:] in TOKENIZER.decode(chat(everything[1:] + "<|mdm_mask|>"))


def test_a_raw_text_prompt_is_text():
    assert not set(TOKENIZER.encode_text("<|mdm_mask|><|endoftext|>")[1:]) & set(SPECIALS.values())


def test_what_is_no_prompt_is_said_so():
    for bad in (
        "\ud800",
        [{"role": "user"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": "x"}, "y"],
    ):
        with pytest.raises(InvalidValueError):
            PROMPTS.encode(bad)


def test_raw_ids_are_checked():
    assert PROMPTS.encode([1, 2, 30]) == [1, 2, 30]
    for bad in ([1, MASK], [1, TOKENIZER.size], [-1]):
        with pytest.raises(InvalidValueError) as caught:
            PROMPTS.encode(bad)
        assert caught.value.param == "prompt"
    with pytest.raises(InvalidValueError):
        PROMPTS.encode([])


@pytest.fixture
def copied(tmp_path):
    path = tmp_path / "model"
    shutil.copytree(open_checkpoint(EMBEDDED_MODEL).path, path)
    return path


def test_a_model_without_template_refuses_chat(copied):
    (copied / "chat_template.jinja").unlink()
    prompts = PromptEncoder(str(copied), INFO)
    assert prompts.encode("hello")
    with pytest.raises(UnsupportedValueError):
        prompts.encode([{"role": "user", "content": "hello"}])


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('no such role') }}",
        "{{ messages[0].content.missing.attribute }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% for i in range(100000) %}{% for j in range(1000) %}xxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endfor %}",
        "{{ 1 // 0 }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(200) }}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{{ 'x' * 10**12 }}",
        "{{ 9 ** 9999999 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'x'.ljust(900000000) | length }}",
        "{{ '{:900000000}'.format(1) }}",
        "{{ '%900000000d' | format(5) }}",
        "{{ ('a' * 16000000).replace('a', 'b' * 100) }}",
        "{{ ('a' * 16000000) | replace('a', 'bbbbbbbbbb') }}",
        "{{ ('b' * 1000000).join(['a'] * 1000) }}",
        "{{ 'x' | center(900000000) }}",
        "{{ messages | tojson(indent=900000000) }}",
        "{{ lipsum(n=100000) }}",
    ],
)
def test_a_hostile_template_ends_in_a_named_error(copied, template):
    (copied / "chat_template.jinja").write_text(template)
    begun = time.monotonic()
    with pytest.raises((InvalidValueError, InvalidCheckpointError)):  # at its first use, or on compiling
        PromptEncoder(str(copied), INFO).encode([{"role": "user", "content": "hello"}])
    assert time.monotonic() - begun < 8


def test_templates_as_model_authors_write_them(copied):
    (copied / "chat_template.jinja").write_text(
        "{%- set ns = namespace(n=0) -%}\n"
        "{%- for m in messages -%}\n"
        "    {%- set words = m.content.strip().split(' ') | join('-') | replace('x', 'yy') -%}\n"
        "    {%- if m.role == 'skip' -%}{%- continue -%}{%- endif -%}\n"
        "    {%- set ns.n = ns.n + 1 -%}\n"
        "    {{- '[' ~ m.role + ':' ~ (m.content | tojson) ~ ']' -}}\n"
        "    {%- generation -%}x{%- endgeneration -%}\n"
        "{%- endfor -%}\n"
        "{{- ns.n * 2 -}}{{- '-' * 3 -}}{%- if add_generation_prompt -%}{{- strftime_now('%%') -}}{%- endif -%}"
    )
    prompts = PromptEncoder(str(copied), INFO)
    ids = prompts.encode([{"role": "a", "content": '<"é">'}, {"role": "skip", "content": "no"}])
    assert prompts.tokenizer.decode(ids) == '[a:"<\\"é\\">"]x2---%'


def test_a_tokenizer_of_a_larger_model(copied):
    with pytest.raises(InvalidCheckpointError, match="1024 tokens"):
        PromptEncoder(str(copied), msgspec.structs.replace(INFO, vocab_size=1000))


def test_a_malformed_template_or_tokenizer_is_a_checkpoint_error(copied):
    (copied / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(InvalidCheckpointError):
        PromptEncoder(str(copied), INFO)
    (copied / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidCheckpointError):
        PromptEncoder(str(copied), INFO)
