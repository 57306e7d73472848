"""From an answer's text, in pieces of any size, to its parts: the same ones for all sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal

from unmask.answers.formats.gemma import GemmaCall
from unmask.answers.formats.hermes import JsonCall
from unmask.answers.formats.reader import CallReader, State
from unmask.answers.literals import any_of, unsettled
from unmask.answers.parts import Part, ToolPiece, merged
from unmask.answers.prose import Prose
from unmask.answers.syntax import NO_SYNTAX, AnswerSyntax, ToolSyntax
from unmask.answers.thoughts import Thoughts

Place = Literal["content", "reasoning", "call"]

_WORD = re.compile("[a-z]*")
_SPACE = re.compile(r"\s*")
_CHANNELS = {"thought": True, "final": False, "content": False}  # whether it is reasoning


class AnswerParser:
    """Reads one answer. What could still become a marker is held back, and nothing else.

    - Reasoning is what stands between its markers, or before the closing one if the prompt ``opened`` it. Line breaks
      next to the markers are layout and left out. A block that is not closed goes on to the end of the answer.
    - A closing marker without an opening one is left out once; the text before it stays content, since it was shown.
    - A marker of reasoning that is no special token is text where content came before it, as is the one that closes it.
    - What begins as a call and turns out to be none becomes content, markers included. A call of which something was
      shown stays one: if it breaks off, its arguments do.
    - White space after a call, up to its closing marker or to what follows, is layout; so are the line breaks around it
      (see ``Prose``). A call without a closing marker ends where its object does.
    """

    def __init__(self, syntax: AnswerSyntax, *, tools: bool, opened: bool = False, forced: bool = False) -> None:
        """``tools``: the request offers some. ``forced``: the text is one JSON call and has no markers."""
        syntax = NO_SYNTAX if forced else syntax if tools else syntax.without_tools()
        self._reasoning, self._tools = syntax.reasoning, syntax.tools
        self._parts: list[Part] = []
        self._prose = Prose(self._parts)
        self._held = ""
        self._at = 0  # the place in it up to which it was read
        self._mode: Callable[[bool], bool] = self._read_content
        self._markers = tuple(marker for marker in syntax.markers if marker != (self._tools and self._tools.quote))
        self._spelled: Counter[str] = Counter()  # opening markers that were shown, by the closing ones
        self._calls = 0
        self._thoughts = Thoughts(self._parts)
        self._thought_closed = False  # whether another closing marker would be text
        if forced:
            self._open_call("", JsonCall())
        elif opened and self._reasoning is not None:
            self._open_thought()

    def feed(self, text: str) -> list[Part]:
        """The parts that ``text`` brings."""
        return self._advance(text, final=False)

    def finish(self) -> list[Part]:
        """The parts that were held back, now that the text is over, or was cut."""
        return self._advance("", final=True)

    @property
    def place(self) -> Place:
        """What the text fed so far ends in; a marker that is held back belongs to what comes before it."""
        if self._mode == self._read_reasoning:
            return "reasoning"
        return "call" if self._mode in (self._read_call, self._read_after_call) else "content"

    @property
    def broken_off(self) -> bool:
        """Whether the text fed so far ends within the arguments of a call of which something was shown."""
        return self._mode == self._read_call and self._shown and not self._reader.complete

    def _advance(self, text: str, final: bool) -> list[Part]:
        self._held, self._at = self._held[self._at :] + text, 0
        while self._mode(final):
            pass
        if final:
            self._prose.end()
        found = merged(self._parts)
        self._parts.clear()
        return found

    def _read_content(self, final: bool) -> bool:
        """Up to the next marker, and what that means. All modes: whether another one goes on from there."""
        found, text = self._until(self._markers, final)
        self._prose.write(text)
        if not self._markers:
            self._prose.end()  # nothing could follow that makes line breaks layout
        if found:
            self._meet(found)
        return bool(found)

    def _until(self, markers: tuple[str, ...], final: bool) -> tuple[str, str]:
        """The next of ``markers``, or '', and the text before it that is settled. Both are read."""
        found = any_of(markers).search(self._held, self._at)
        end = found.start() if found else len(self._held)
        if found is None and not final:
            end -= unsettled(self._held, self._at, markers)
        text = self._held[self._at : end]
        self._at = found.end() if found else end
        return found.group() if found else "", text

    def _meet(self, marker: str) -> None:
        """``marker`` stands in content."""
        tools, reasoning = self._tools, self._reasoning
        if tools is not None and marker == tools.open:
            self._open_call(marker, _reader(tools))
        elif reasoning is not None and marker == reasoning.open:
            if reasoning.channels:
                self._mode = self._read_channel
            elif self._prose.spoken:
                self._spell(marker, reasoning.close)
            else:
                self._open_thought()
        elif self._spelled[marker]:
            self._spelled[marker] -= 1
            self._prose.write(marker)
        else:
            self._meet_close(marker)

    def _meet_close(self, marker: str) -> None:
        """A closing ``marker`` stands in content, without an opening one."""
        thought = self._reasoning is not None and marker == self._reasoning.close and not self._reasoning.channels
        if thought and self._thought_closed:
            self._prose.write(marker)
        else:
            self._prose.mark()
            self._thought_closed = self._thought_closed or thought

    def _spell(self, text: str, closing: str) -> None:
        """``text`` begins with an opening marker but is content; so is the ``closing`` one that may follow."""
        self._prose.write(text)
        if closing:
            self._spelled[closing] += 1

    def _read_channel(self, final: bool) -> bool:
        """The word behind the marker that opens a channel, if there is one."""
        word = _WORD.match(self._held, self._at)
        name = word.group() if word else ""
        end = self._at + len(name)
        cut = end == len(self._held) and any(known.startswith(name) for known in _CHANNELS)
        if cut and not final:
            return False
        if cut or (name in _CHANNELS and self._held[end] in "\n<"):
            self._at = end
        if _CHANNELS.get(name, True):
            self._open_thought()
        else:
            self._prose.mark()
            self._mode = self._read_content
        return True

    def _open_thought(self) -> None:
        self._prose.mark()
        self._thoughts.open()
        self._thought_closed = True  # if the answer goes on at all
        self._mode = self._read_reasoning

    def _read_reasoning(self, final: bool) -> bool:
        syntax = self._reasoning
        assert syntax is not None
        inner: tuple[str, ...] = (syntax.open, syntax.close)
        if syntax.channels and self._tools is not None:
            inner += (self._tools.open,)  # a call ends reasoning that nothing else has ended
        found, text = self._until(inner, final)
        self._thoughts.write(text)
        if found == syntax.open and not syntax.channels:
            if self._thoughts.begun:
                self._thoughts.write(found)  # otherwise the model repeats what the prompt ends with
        elif found:
            self._prose.mark()
            self._mode = self._read_content
            if found != syntax.close:
                self._meet(found)
        elif final:
            self._thoughts.end()
        return bool(found)

    def _open_call(self, marker: str, reader: CallReader) -> None:
        self._reader, self._unshown, self._shown = reader, [marker], False
        self._mode = self._read_call

    def _read_call(self, final: bool) -> bool:
        start = self._at
        self._at = self._reader.read(self._held, start, final)
        if self._reader.name is None:
            self._unshown.append(self._held[start : self._at])
            if self._reader.state is State.FAILED or final:
                self._spell("".join(self._unshown), self._tools.close if self._tools else "")
                self._mode = self._read_content
                return True
            return False
        self._show_call(self._reader.name, self._reader.take())
        if self._reader.state is State.DONE:
            self._call_breaks = 0
            self._mode = self._read_after_call
            return True
        return False

    def _show_call(self, name: str, arguments: str) -> None:
        if not self._shown:
            self._prose.mark()
            self._parts.append(ToolPiece(self._calls, arguments, name))
            self._calls += 1
            self._shown = True
        elif arguments:
            self._parts.append(ToolPiece(self._calls - 1, arguments))

    def _read_after_call(self, final: bool) -> bool:
        """White space behind a call, and its closing marker, if it has one."""
        space = _SPACE.match(self._held, self._at)
        end = space.end() if space else self._at
        self._call_breaks += self._held.count("\n", self._at, end)
        self._at = end
        close = self._tools.close if self._tools else ""
        rest = self._held[end : end + len(close)]
        if not final and len(rest) < max(len(close), 1) and close.startswith(rest):
            return False
        if close and rest == close:
            self._at += len(close)
            self._prose.mark()
        else:
            self._prose.write("\n" * self._call_breaks)
        self._mode = self._read_content
        return True


def _reader(tools: ToolSyntax) -> CallReader:
    return GemmaCall(tools.close, tools.quote) if tools.format == "gemma" else JsonCall(tools.close)
