"""What is asked of every client in every dialect, in no dialect's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MODEL = "unmask-tiny"


@dataclass(frozen=True)
class Call:
    """A tool call in an earlier answer, or the one that is expected."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


@dataclass(frozen=True)
class Turn:
    """A message. One of the role ``tool`` has the result of the call ``answers``."""

    role: str
    content: str
    calls: tuple[Call, ...] = ()
    answers: str = ""


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A conversation, and how it shall be answered.

    ``choice``: "required", or the name of the tool that must be called. ``pinned``: the text that is known to be right,
    ``thought`` what the model thinks before, and ``called`` what it calls.
    """

    name: str
    turns: tuple[Turn, ...]
    max_tokens: int = 64
    stop: str | None = None
    schema: dict[str, Any] | None = None
    tools: tuple[Tool, ...] = ()
    choice: str | None = None
    unmask: dict[str, Any] = field(default_factory=dict)
    pinned: str | None = None
    thought: str = ""
    called: tuple[Call, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it is one question that has nothing to do with tools."""
        return len(self.turns) == 1 and not self.tools

    def __str__(self) -> str:
        return self.name


def ask(name: str, question: str, **how: Any) -> Case:
    return Case(name, (Turn("user", question),), **how)


def says(*texts: str) -> dict[str, Any]:
    """Options that make the model write one of ``texts``: it is too small to think or to call tools by itself."""
    return {"choices": list(texts)}


def _properties(**types: str) -> dict[str, Any]:
    """A schema in the few words that each client passes on, and in the order in which Ollama's puts them."""
    return {
        "type": "object",
        "required": list(types),
        "properties": {name: {"type": kind} for name, kind in types.items()},
    }


ADD = Tool("add", "Add.", _properties(a="integer", b="integer"))
LOOK_UP = Tool("look_up", "Look up.", _properties(word="string"))
# Its arguments are the model's own choice, and JavaScript has no large integers.
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
ADD_DIGITS = Tool("add", "Add.", {"type": "object", "required": ["a"], "properties": {"a": DIGIT, "b": DIGIT}})

SHELTER = {
    "type": "object",
    "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 30}},
    "required": ["kind", "age"],
    "additionalProperties": False,
}
SUM = "What is 7 + 8?"
CALL_ADD = '<tool_call>\n{"name": "add", "arguments": {"a": 7, "b": 8}}\n</tool_call>'
CALL_LOOK_UP = '<tool_call>\n{"name": "look_up", "arguments": {"word": "na\\u00efve \\"😀\\""}}\n</tool_call>'
ADDED = Call("add", {"a": 7, "b": 8})
LOOKED_UP = Call("look_up", {"word": 'naïve "😀"'})

TEXT = ask("text", SUM, pinned="7 + 8 = 15")

CASES: Sequence[Case] = (
    TEXT,
    ask(
        "several blocks",
        "Gina has 12 marbles. Bob has 4 more marbles than Gina. How many marbles do they have together?",
        pinned="Bob has 12 + 4 = 16 marbles.\nTogether they have 12 + 16 = 28 marbles.\n#### 28",
    ),
    Case(
        "second turn",
        (
            Turn("system", "Be brief."),
            Turn("user", SUM),
            Turn("assistant", "7 + 8 = 15"),
            Turn("user", "Now subtract 7."),
        ),
    ),
    ask("unicode", "Who are you?", unmask=says("naïve 😀 \u200d— дом"), pinned="naïve 😀 \u200d— дом"),
    ask("length", "Count from 1 to 15.", max_tokens=9),
    ask("one token", "Count from 1 to 15.", max_tokens=1),
    ask("stop", "Count from 1 to 15.", stop=" 5", pinned="1 2 3 4"),
    ask("schema", SUM, schema=SHELTER),
    ask("reasoning", SUM, unmask=says("<think>\nSeven and 8.\n</think>\n\n15"), thought="Seven and 8.", pinned="15"),
    ask("nothing but reasoning", SUM, unmask=says("<think>Seven and 8."), thought="Seven and 8.", pinned=""),
    ask("tool", SUM, tools=(ADD,), max_tokens=100, unmask=says(CALL_ADD), called=(ADDED,), pinned=""),
    ask(
        "thought, text, two tools",
        SUM,
        tools=(ADD, LOOK_UP),
        max_tokens=200,
        unmask=says(f"<think>Two.</think>Both:\n{CALL_LOOK_UP}\n{CALL_ADD}"),
        thought="Two.",
        pinned="Both:",
        called=(LOOKED_UP, ADDED),
    ),
    ask("named tool", SUM, tools=(LOOK_UP, ADD_DIGITS), choice="add"),
    ask("any tool", SUM, tools=(LOOK_UP, ADD_DIGITS), choice="required"),
    ask("no tool called", SUM, tools=(ADD,), max_tokens=100, unmask=says("Fifteen."), pinned="Fifteen."),
    Case(
        "tool result",
        (
            Turn("user", SUM),
            Turn("assistant", "", calls=(Call("add", {"a": 7, "b": 8}, id="call_1"),)),
            Turn("tool", "15", answers="call_1"),
        ),
        tools=(ADD,),
        max_tokens=100,
        unmask=says("It is 15."),
        pinned="It is 15.",
    ),
)

# Runs to its last token, and has text from early on, whatever the model would rather say.
LONG = ask(
    "long",
    "Count from 1 to 15.",
    max_tokens=600,
    unmask={"rule": "low_confidence", "cache": "none", "end_tokens": "never"},
)
