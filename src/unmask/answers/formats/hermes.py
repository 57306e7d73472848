"""Calls as JSON: ``{"name": ..., "arguments": {...}}``, between the markers of Hermes and Qwen, or the whole answer.

Where the name comes first and the arguments next, as models are told to write it, arguments are passed on as they come.
In any other order, or with ``parameters`` for ``arguments``, they are once the object is complete.
"""

from __future__ import annotations

import json
import re
from enum import Enum, auto

from unmask.answers.formats.reader import CallReader, State
from unmask.answers.literals import unsettled

_HEAD = re.compile(r'\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"arguments"\s*:\s*')
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder(strict=False)  # line breaks within strings are common, and their sense is plain


class _Stage(Enum):
    BEFORE = auto()  # the object
    HEAD = auto()  # up to its first inner object, which may be the arguments
    ARGUMENTS = auto()  # passed on as they come
    AFTER = auto()  # further members, without meaning
    WHOLE = auto()  # kept until the object is complete


class JsonCall(CallReader):
    """Reads one object. It also ends where ``close`` stands: outside of strings, or within one after a line break.

    A JSON string holds no line break, so its closing quote was forgotten; otherwise all that follows would be in it.
    """

    def __init__(self, close: str = "") -> None:
        super().__init__()
        self._stage = _Stage.BEFORE
        self._depth = 0
        self._quoted = False
        self._body: list[str] = []
        self._literals = {False: (close,) if close else (), True: (f"\n{close}",) if close else ()}
        end = f"|{re.escape(close)}" if close else ""
        broken = rf"|\n{re.escape(close)}" if close else ""
        self._tokens = {
            False: re.compile(rf'["{{}}\[\]]{end}'),
            True: re.compile(rf'["]|\\.{broken}', re.DOTALL),
        }

    @property
    def complete(self) -> bool:
        """As ``CallReader`` says; the object itself may be open still, as weak models leave it."""
        return self._stage is _Stage.AFTER or super().complete

    def read(self, text: str, at: int, final: bool) -> int:
        """As ``CallReader`` says."""
        if self._stage is _Stage.BEFORE:
            at = self._begin(text, at)
        while self.state is State.READING and at < len(text):
            token = self._tokens[self._quoted].search(text, at)
            if token is None:
                settled = len(text) - (0 if final else self._held_back(text, at))
                self._keep(text[at:settled])
                return settled
            self._keep(text[at : token.start()])
            at = self._take(token)
        return at

    def _begin(self, text: str, at: int) -> int:
        at = _space(text, at)
        if at < len(text):
            if text[at] == "{":
                self._stage = _Stage.HEAD
            else:
                self.state = State.FAILED
        return at

    def _held_back(self, text: str, at: int) -> int:
        """How much of the end of ``text``, which holds no token, could begin one."""
        if self._quoted and text.endswith("\\"):
            return 1
        return unsettled(text, at, self._literals[self._quoted])

    def _keep(self, text: str) -> None:
        match self._stage:
            case _Stage.ARGUMENTS:
                if text:
                    self._fragments.append(text)
            case _Stage.HEAD | _Stage.WHOLE:
                self._body.append(text)

    def _take(self, token: re.Match[str]) -> int:
        """``token`` comes next; the place up to which it was read."""
        match token.group():
            case '"':
                self._quoted = not self._quoted
                self._keep('"')
            case "{" | "[":
                self._open(token.group())
            case "}" | "]":
                self._shut(token.group())
            case escape if escape.startswith("\\"):
                self._keep(escape)
            case _:
                self._end()
                return token.start()
        return token.end()

    def _open(self, bracket: str) -> None:
        if self._stage is _Stage.HEAD and self._depth == 1 and bracket == "{":
            head = _HEAD.fullmatch("".join(self._body))
            self._stage = _Stage.WHOLE
            if head is not None:
                self._stage, self.name = _Stage.ARGUMENTS, head.group(1)
        self._depth += 1
        self._keep(bracket)

    def _shut(self, bracket: str) -> None:
        self._depth -= 1
        self._keep(bracket)
        if self._stage is _Stage.ARGUMENTS and self._depth == 1:
            self._stage = _Stage.AFTER
        if not self._depth:
            self._end()

    def _end(self) -> None:
        """The object is complete, or its closing marker came too early."""
        self.state = State.DONE
        if self.name is None:
            name, arguments = _call("".join(self._body))
            if name:
                self.name = name
                self._fragments.append(arguments)
            else:
                self.state = State.FAILED


def _call(body: str) -> tuple[str, str]:
    """Name and arguments of a complete call; no name if it is none."""
    try:
        members = _members(body)
        name = json.loads(members.get("name", '""'))
        arguments = members.get("arguments", members.get("parameters", "null"))
        if arguments == "null":
            arguments = "{}"
        elif arguments.startswith('"'):  # an object within a string
            arguments = _DECODER.decode(arguments)
            _members(arguments)
        if not isinstance(name, str) or not arguments.startswith("{"):
            return "", ""
        (name + arguments).encode()  # half of a surrogate pair, which JSON can spell, is no text
    except (ValueError, RecursionError):
        return "", ""
    return name, arguments


def _members(body: str) -> dict[str, str]:
    """The members of a JSON object, each as the text that stands there. Raises ``ValueError``."""
    members: dict[str, str] = {}
    _, place = _past(body, 0, "{")
    mark = "," if body[place : place + 1] != "}" else "}"
    while mark == ",":
        key, end = _DECODER.raw_decode(body, place)
        _, start = _past(body, end, ":")
        _, end = _DECODER.raw_decode(body, start)
        members[key] = body[start:end]
        mark, place = _past(body, end, ",}")
    return members


def _past(body: str, place: int, expected: str) -> tuple[str, int]:
    """Which one of the characters ``expected`` comes next, and the place behind it and the space around it."""
    start = _space(body, place)
    if start == len(body) or body[start] not in expected:
        raise ValueError(f"no {expected}")
    return body[start], _space(body, start + 1)


def _space(body: str, place: int) -> int:
    found = _SPACE.match(body, place)
    return found.end() if found else place
