"""The wire APIs, written from their owners' descriptions and not from our code."""

from __future__ import annotations

from tests.conformance.dialects.anthropic_messages import MESSAGES
from tests.conformance.dialects.base import Answer, Dialect
from tests.conformance.dialects.ollama import OLLAMA_CHAT, OLLAMA_GENERATE
from tests.conformance.dialects.openai_chat import CHAT
from tests.conformance.dialects.openai_completions import COMPLETIONS
from tests.conformance.dialects.openai_responses import RESPONSES

DIALECTS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, OLLAMA_CHAT, OLLAMA_GENERATE)

__all__ = [
    "CHAT",
    "COMPLETIONS",
    "DIALECTS",
    "MESSAGES",
    "OLLAMA_CHAT",
    "RESPONSES",
    "Answer",
    "Dialect",
]
