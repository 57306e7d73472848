"""Calls of Gemma 4: ``call:name{key:<|"|>text<|"|>,n:3,list:[true]}``, made into JSON as they come.

Keys are bare words, strings stand between quotes that are a token of their own, and nothing in them is escaped. What
else a model may write is understood where its sense is plain: JSON's own quotes, Python's ``None``, a comma before a
bracket, a text without quotes.
"""

from __future__ import annotations

import json
import re

from unmask.answers.formats.reader import CallReader, State
from unmask.answers.literals import any_of, unsettled

_HEAD = re.compile(r"\s*call:\s*([\w.-]+)\s*")
_HEAD_END = re.compile("[{<]")
_MOST_HEAD = 256
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}


class GemmaCall(CallReader):
    """Reads one call. It also ends where ``close`` stands, which no text holds by accident."""

    def __init__(self, close: str, quote: str) -> None:
        super().__init__()
        self._close, self._quote = close, quote
        self._head = ""
        self._brackets: list[str] = []
        self._inside = ""  # the quote that the string began with, while in one
        self._word: list[str] = []  # a bare one, which only its end tells
        self._comma = False  # whether one comes before the next item
        self._keyed = True  # whether a key is next, and not a value
        self._tokens = {
            "": re.compile(rf'{re.escape(quote)}|{re.escape(close)}|["{{}}\[\],:]'),
            quote: any_of((quote, close)),
            '"': re.compile(rf'["]|\\.|{re.escape(close)}', re.DOTALL),
        }

    def read(self, text: str, at: int, final: bool) -> int:
        """As ``CallReader`` says."""
        if self.name is None:
            at = self._begin(text, at)
        # The quote has JSON's quote in it: what could become a marker is not looked at before it is one or is not.
        settled = len(text) - (0 if final else unsettled(text, at, (self._quote, self._close)))
        while self.name is not None and self.state is State.READING and at < settled:
            token = self._tokens[self._inside].search(text, at, settled)
            if token is None:
                settled -= not final and self._inside == '"' and text[settled - 1] == "\\"
                self._keep(text[at:settled])
                return settled
            self._keep(text[at : token.start()])
            at = token.end()
            if token.group() == self._close:
                self.state = State.DONE
                return token.start()
            self._string(token.group()) if self._inside else self._take(token.group())
        return at

    def _begin(self, text: str, at: int) -> int:
        """Up to the first bracket: of a head that cannot be one, no more is kept than needs to be."""
        room = at + _MOST_HEAD - len(self._head)
        end = _HEAD_END.search(text, at, room)
        place = end.start() if end else min(len(text), room)
        self._head += text[at:place]
        if end is None and place < room:
            return place
        head = _HEAD.fullmatch(self._head)
        if head is None or end is None or end.group() == "<":
            self.state = State.FAILED
            return place
        self.name = head.group(1)
        self._take("{")
        return end.end()

    def _keep(self, text: str) -> None:
        if not self._inside:
            self._word.append(text)
        elif self._inside == '"':
            self._fragments.append(text)
        else:
            self._fragments.append(json.dumps(text, ensure_ascii=False)[1:-1])

    def _string(self, token: str) -> None:
        """``token`` comes next within a string."""
        if token == self._inside:
            self._inside = ""
            token = '"'
        self._fragments.append(token)

    def _take(self, token: str) -> None:
        """``token`` comes next outside of strings."""
        match token:
            case "{" | "[":
                self._bare()
                self._item(token)
                self._brackets.append("}" if token == "{" else "]")
                self._keyed = token == "{"
            case "}" | "]":
                self._bare()
                self._fragments.append(self._brackets.pop())
                self._comma = self._keyed = False
                if not self._brackets:
                    self.state = State.DONE
            case ",":
                self._bare()
                self._comma = True
                self._keyed = self._brackets[-1] == "}"
            case ":" if self._keyed:
                if key := self._bare_word():
                    self._item(json.dumps(key, ensure_ascii=False))
                self._fragments.append(":")
                self._keyed = False
            case ":":
                self._word.append(":")
            case _:
                self._bare()
                self._item('"')
                self._inside = token

    def _item(self, text: str) -> None:
        """``text`` begins a key or a value."""
        if self._comma:
            self._fragments.append(",")
            self._comma = False
        self._fragments.append(text)

    def _bare(self) -> None:
        """A value without quotes ends here, if there is one."""
        word = self._bare_word()
        if word:
            plain = _WORDS.get(word) or (word if _NUMBER.fullmatch(word) else None)
            self._item(plain or json.dumps(word, ensure_ascii=False))

    def _bare_word(self) -> str:
        word = "".join(self._word).strip()
        self._word.clear()
        return word
