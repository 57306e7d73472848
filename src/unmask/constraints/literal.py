"""Small things about regular expressions: texts as expressions of themselves, and anchors."""

from __future__ import annotations

import re

_END = re.compile(r"(?:[^\\]|^)(?:\\\\)*\$\Z", re.DOTALL)


def escape(text: str) -> str:
    """An expression of ``text`` alone."""
    return re.sub(r"([\\.+*?()|\[\]{}^$#&~-])", r"\\\1", text)


def unanchored(pattern: str) -> str:
    """``pattern`` without the anchors at its ends, which say nothing where the whole text must match."""
    return (pattern[:-1] if _END.search(pattern) else pattern).removeprefix("^")
