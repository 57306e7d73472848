from __future__ import annotations

from unmask.answers.parts import Content, Part
from unmask.answers.syntax import AnswerSyntax


class AnswerParser:
    def __init__(self, syntax: AnswerSyntax, *, tools: bool, opened: bool = False, forced: bool = False) -> None: ...

    def feed(self, text: str) -> list[Part]:
        return [Content(text)] if text else []

    def finish(self) -> list[Part]:
        return []

    @property
    def place(self) -> str:
        return "content"
