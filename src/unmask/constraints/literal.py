"""Texts as regular expressions of themselves."""

from __future__ import annotations

import re


def escape(text: str) -> str:
    """An expression of ``text`` alone."""
    return re.sub(r"([\\.+*?()|\[\]{}^$#&~-])", r"\\\1", text)
