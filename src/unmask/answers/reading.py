"""How one request's answer is to be read."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.answers.parser import AnswerParser
from unmask.answers.syntax import AnswerSyntax


@dataclass(frozen=True, slots=True)
class Reading:
    """The model's ``syntax`` (None: all is content), whether ``tools`` were offered, and no more than ``one_call`` is
    wanted, whether the prompt has ``opened`` a reasoning block, and whether the whole answer is a ``forced`` call.
    """

    syntax: AnswerSyntax | None = None
    tools: bool = False
    one_call: bool = False
    opened: bool = False
    forced: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        """What must be part of the answer's text even if it is a special token."""
        return () if self.syntax is None else self.syntax.markers

    def parser(self) -> AnswerParser | None:
        """A fresh parser, for one answer; None if there is nothing to parse."""
        if self.syntax is None:
            return None
        return AnswerParser(self.syntax, tools=self.tools, opened=self.opened, forced=self.forced)


VERBATIM = Reading()
