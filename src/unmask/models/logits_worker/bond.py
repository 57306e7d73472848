"""Becomes a program that does not outlive the process that started it: ``python -I -S bond.py PARENT COMMAND...``.

``PARENT`` is that process's id. On Linux the program is killed as soon as its parent has ended, in whatever way;
elsewhere the end of its standard input has to tell it. It leaves no core file, which would be as large as the model.
Imports nothing of Unmask, to be small and quick to start.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Give way to the program; 127 if it cannot be started."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before it could be bound to
        return 1
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
