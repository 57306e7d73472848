"""What is asked of every client in every dialect, in no dialect's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MODEL = "unmask-tiny"

SHELTER = {
    "type": "object",
    "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 30}},
    "required": ["kind", "age"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Case:
    """A conversation, and how it shall be answered. ``pinned`` is the answer that is known to be right."""

    name: str
    messages: tuple[tuple[str, str], ...]
    max_tokens: int = 64
    stop: str | None = None
    schema: dict[str, Any] | None = None
    unmask: dict[str, Any] = field(default_factory=dict)
    pinned: str | None = None

    @property
    def question(self) -> str | None:
        """The only message, if there is only one."""
        return self.messages[0][1] if len(self.messages) == 1 else None

    def __str__(self) -> str:
        return self.name


def ask(name: str, question: str, **how: Any) -> Case:
    return Case(name, (("user", question),), **how)


CASES = (
    ask("text", "What is 7 + 8?", pinned="7 + 8 = 15"),
    ask(
        "several blocks",
        "Gina has 12 marbles. Bob has 4 more marbles than Gina. How many marbles do they have together?",
        pinned="Bob has 12 + 4 = 16 marbles.\nTogether they have 12 + 16 = 28 marbles.\n#### 28",
    ),
    Case(
        "second turn",
        (
            ("system", "Be brief."),
            ("user", "What is 7 + 8?"),
            ("assistant", "7 + 8 = 15"),
            ("user", "Now subtract 7."),
        ),
    ),
    ask("unicode", "Who are you?", unmask={"choices": ["naïve 😀 \u200d— дом"]}, pinned="naïve 😀 \u200d— дом"),
    ask("length", "Count from 1 to 15.", max_tokens=9),
    ask("one token", "Count from 1 to 15.", max_tokens=1),
    ask("stop", "Count from 1 to 15.", stop=" 5", pinned="1 2 3 4"),
    ask("schema", "What is 7 + 8?", schema=SHELTER),
)

# Runs to its last token, and has text from early on, whatever the model would rather say.
LONG = ask(
    "long",
    "Count from 1 to 15.",
    max_tokens=600,
    unmask={"rule": "low_confidence", "cache": "none", "end_tokens": "never"},
)
