"""What is asked: so simple that a model of a million parameters has something to say."""

from __future__ import annotations

MAX_TOKENS = 48
SECONDS = 60.0  # for all prompts together

CONVERSATIONS = (
    "Who are you?",
    "Count from 1 to 10.",
    "Which day comes after Wednesday?",
    "What is the capital of France? Answer in one sentence.",
)
TEXTS = (
    "The capital of France is",
    "Once upon a time there was a",
    "Monday, Tuesday, Wednesday,",
    "Water is made of",
)


def prompts(*, conversations: bool) -> tuple[str, ...]:
    """Those for a model that takes conversations, or that goes on with a text."""
    return CONVERSATIONS if conversations else TEXTS
