"""Where Unmask keeps what outlasts a command: engines that users made known to it, and what tells of running ones."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """``$UNMASK_HOME``, else ``unmask`` where the system keeps such data (``$XDG_DATA_HOME``). It need not be there."""
    if own := os.environ.get("UNMASK_HOME"):
        return Path(os.path.abspath(os.path.expanduser(own)))
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path(os.path.expanduser("~")) / ".local" / "share"
    return base / "unmask"


def sessions_folder() -> Path:
    """Where conversations of models that are not loaded are kept, if they are."""
    return home() / "sessions"
