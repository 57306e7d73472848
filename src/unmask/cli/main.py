"""The entry point, and the one place where errors become a message and an exit code.

The commands are imported inside it: an interrupt meanwhile must not end in a traceback either.
"""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130  # the exit code that shells know


def main() -> None:
    """Entry point: exit code 0 only on success; a known error is a message on stderr, never a traceback."""
    try:
        from unmask.cli.interrupt import leaving_at_once
        from unmask.cli.streams import complete_streams
        from unmask.errors import UnmaskError

        complete_streams()
        _check_encoding()
        _check_completion()
        try:
            with leaving_at_once():
                from unmask.cli.app import app

            app()
        except UnmaskError as error:
            _fail(f"error: {error.message} [{error.code}]", f"hint: {error.hint}" if error.hint else "")
        except OSError as error:  # what the system refuses: output to a full disk, one more process
            _discard_output()
            _fail(f"error: {error.strerror or error}.")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except RuntimeError as error:
        # Python 3.11 wraps whatever happens while a class is given its fields, an interrupt too.
        if isinstance(error.__cause__, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        raise


def _check_encoding() -> None:
    """Everything later takes arguments and settings for text."""
    from unmask.shown import shown

    settings = [value for name, value in os.environ.items() if name.startswith("UNMASK_")]
    for text in (*sys.argv, *settings):
        try:
            text.encode()
        except UnicodeEncodeError:
            _fail(f"error: {shown(text)} is not UTF-8.")


def _check_completion() -> None:
    """A script of completion is for the shell that asks for it, and for the program of this very name."""
    from unmask.shown import shown

    if len(sys.argv) < 2 or sys.argv[1] not in ("--show-completion", "--install-completion"):
        return
    if os.path.basename(sys.argv[0]) == "__main__.py":
        _fail("error: a shell completes the command 'unmask', and no 'python -m unmask'.", "hint: Call it as 'unmask'.")
    if len(sys.argv) > 2 and "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION" not in os.environ:
        _fail(
            f"error: {sys.argv[1]} is for the shell that calls it, and takes no {shown(sys.argv[2])}.",
            "hint: _UNMASK_COMPLETE=source_bash unmask prints the script of bash; so with zsh and fish.",
        )


def _discard_output() -> None:
    """What is still in the buffer cannot be written: the interpreter must not try again at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _fail(*lines: str) -> None:
    from unmask.shown import printable

    for line in filter(None, lines):
        print(printable(line), file=sys.stderr)
    sys.exit(1)
