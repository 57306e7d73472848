"""The markers of each kind of chat template. The templates here are short ones that say what the real ones do."""

from __future__ import annotations

import pytest

from unmask.answers.syntax import CHANNEL, GEMMA, HERMES, NO_SYNTAX, THINK, AnswerSyntax, syntax_of

CHATML = """{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"""
TOOLS = """{%- if tools %}{{- 'Call within <tool_call></tool_call>.' }}{%- for tool in tools %}{{ tool | tojson }}
{%- endfor %}{%- endif %}"""
THINKS = """{%- if '</think>' in m.content %}{%- set content = m.content.split('</think>')[-1] %}{%- endif %}"""
LLAMA3 = """{{ '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + content | trim + '<|eot_id|>' }}"""
ROLES = """<role>SYSTEM</role>detailed thinking off<|role_end|>"""
GEMMA4 = """{%- if tools %}{{- '<|tool>' }}{%- endif %}
{{- '<|tool_call>call:' + name }}{{- '<|channel>thought\\n<channel|>' }}"""


@pytest.mark.parametrize(
    ("template", "tokens", "family", "syntax"),
    [
        (CHATML, (), "dream", AnswerSyntax(None, HERMES)),
        (CHATML + TOOLS, (), "dream", AnswerSyntax(None, HERMES)),
        (CHATML + TOOLS, (), "fast_dllm_v2", AnswerSyntax(None, HERMES)),
        (CHATML + TOOLS + THINKS, (), "sdar", AnswerSyntax(THINK, HERMES)),
        (CHATML, ("<think>", "</think>"), "sdar", AnswerSyntax(THINK, HERMES)),
        (ROLES + TOOLS, (), "llada2", AnswerSyntax(None, HERMES)),
        (LLAMA3, ("<|eot_id|>",), "llada", AnswerSyntax(None, HERMES)),
        (GEMMA4, (), "diffusion_gemma", AnswerSyntax(CHANNEL, GEMMA)),
        ("", ("<|channel>", "<|tool_call>"), "diffusion_gemma", AnswerSyntax(CHANNEL, GEMMA)),
        ("", (), "diffusion_gemma", AnswerSyntax(CHANNEL, GEMMA)),
        (GEMMA4, (), "dream", AnswerSyntax(CHANNEL, GEMMA)),
        (CHATML + TOOLS + THINKS, ("<|channel>",), "diffusion_gemma", AnswerSyntax(CHANNEL, HERMES)),
        (CHATML + TOOLS + THINKS + GEMMA4, (), "diffusion_gemma", AnswerSyntax(CHANNEL, GEMMA)),
        (CHATML + TOOLS + THINKS + GEMMA4, (), "sdar", AnswerSyntax(THINK, HERMES)),
        ("", (), "llada", AnswerSyntax(None, HERMES)),
    ],
)
def test_of_a_template(template, tokens, family, syntax):
    assert syntax_of(template, tokens, family) == syntax


def test_markers_are_what_the_decoder_must_show():
    assert AnswerSyntax(CHANNEL, GEMMA).markers == ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>')
    assert AnswerSyntax(CHANNEL, GEMMA).without_tools().markers == ("<|channel>", "<channel|>")
    assert AnswerSyntax(THINK, HERMES).markers == ("<think>", "</think>", "<tool_call>", "</tool_call>")
    assert NO_SYNTAX.markers == ()


def test_prompts_that_open_a_block():
    qwen, gemma = AnswerSyntax(THINK, HERMES), AnswerSyntax(CHANNEL, GEMMA)
    assert qwen.opened_by("<|im_start|>assistant\n<think>\n")
    assert not qwen.opened_by("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not qwen.opened_by("<|im_start|>user\n<think>\n<|im_end|>\n<|im_start|>assistant\n")
    assert gemma.opened_by("<|turn>model\n<|channel>thought\n")
    assert not gemma.opened_by("<|turn>model\n<|channel>thought\n<channel|>")
    assert not NO_SYNTAX.opened_by("<think>")
