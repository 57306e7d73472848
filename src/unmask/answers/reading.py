"""How one request's answer is to be read."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.answers.parser import AnswerParser
from unmask.answers.syntax import AnswerSyntax


@dataclass(frozen=True, slots=True)
class Reading:
    """The model's ``syntax`` (None: all is content), whether ``tools`` were offered, and no more than ``one_call`` is
    wanted, whether the prompt has ``opened`` a reasoning block, and whether the whole answer is a ``forced`` call.

    ``open_ended``: the answer is held to a form that could go on wherever it ends, so one that takes all its tokens was
    cut.
    """

    syntax: AnswerSyntax | None = None
    tools: bool = False
    one_call: bool = False
    opened: bool = False
    forced: bool = False
    open_ended: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        """What must be part of the answer's text even if it is a special token."""
        if self.syntax is None or self.forced:
            return ()
        return self.syntax.markers if self.tools else self.syntax.without_tools().markers

    def parser(self) -> AnswerParser | None:
        """A fresh parser, for one answer; None if there is nothing to parse."""
        if self.syntax is None:
            return None
        return AnswerParser(self.syntax, tools=self.tools, opened=self.opened, forced=self.forced)


VERBATIM = Reading()
