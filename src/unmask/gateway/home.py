"""Where Unmask keeps what belongs to its user, and no model: the engines that were made known to it."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """``$UNMASK_HOME``, else the folder ``unmask`` where the system keeps such data (``$XDG_DATA_HOME``)."""
    if own := os.environ.get("UNMASK_HOME"):
        return Path(own).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return base / "unmask"
