"""Where Unmask keeps what outlasts a command."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder that ``UNMASK_HOME`` names, else ``~/.unmask``. It need not be there."""
    return Path(os.path.abspath(os.path.expanduser(os.environ.get("UNMASK_HOME") or "~/.unmask")))
