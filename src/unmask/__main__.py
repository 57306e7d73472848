"""``python -m unmask``: the command ``unmask``."""

from __future__ import annotations

from unmask.cli.main import main

if __name__ == "__main__":
    main()
