from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerSyntax:
    reasoning: tuple[str, str] | None = None

    @property
    def markers(self) -> tuple[str, ...]:
        return self.reasoning or ()


def syntax_of(template_source: str, special_tokens: Iterable[str], family: str) -> AnswerSyntax:
    return AnswerSyntax()
