"""Programs that prepare an engine, such as cmake and pip, with what they write passed on line by line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from unmask.errors import EngineBuildError
from unmask.gateway.linked_files import engine_environment
from unmask.gateway.tool_words import ToolWords
from unmask.shown import cut, printable

Say = Callable[[str], object]


def run_tool(command: Sequence[str], say: Say, what: str) -> None:
    """Run ``command``, giving each line that it writes to ``say``.

    Raises ``EngineBuildError`` if it does not end with 0: ``what`` failed, in words, and the line that tells why.
    """
    words = ToolWords()
    with ExitStack() as stack:
        try:
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    env=engine_environment(),
                )
            )
        except OSError as error:
            raise EngineBuildError(f"{what} failed: {command[0]} cannot be run: {error.strerror}.") from None
        stack.callback(process.kill)  # an interrupt must not leave it behind; what has ended is not hurt
        assert process.stdout is not None
        for line in process.stdout:
            words.see(line.rstrip())
            say(printable(line.rstrip()))
        status = process.wait()
    if status:
        raise EngineBuildError(
            f"{what} failed (exit code {status}). It said: {printable(cut(words.best()))}",
            hint="Its whole log stands above.",
        )
