"""A configuration file as plain values: bounded, every key a text, and the line on which each key stands if known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unmask.errors import InvalidConfigError
from unmask.shown import shown

Path = tuple[str | int, ...]

MOST_DEPTH = 16
MOST_VALUES = 20_000
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Document:
    """``value``, and of which ``file``; ``lines`` by the path of a key, where they are known."""

    value: Any
    file: str = ""
    lines: dict[Path, int] = field(default_factory=dict)

    def fault(self, path: Path, words: str, hint: str = "") -> InvalidConfigError:
        """The error that ``words`` tell of what stands at ``path``; ``words`` begin after its name."""
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        place = ":".join([*filter(None, [self.file]), *([str(line)] if line else [])])
        name = spelled(path)
        message = f"'{name}' {words}" if name else f"The file {words}"
        return InvalidConfigError(f"{place}: {message}" if place else message, hint=hint, param=name or None)


def spelled(path: Path) -> str:
    """``path`` in one word: ``models.tiny.aliases[0]``."""
    word = ""
    for part in path:
        if isinstance(part, str) and part.isascii() and part.replace("_", "a").replace("-", "a").isalnum():
            word += f".{part}" if word else part
        else:
            word += f"[{shown(part)}]"
    return word if len(word) <= 2 * _LONGEST_KEY else f"{word[: 2 * _LONGEST_KEY]}..."


def check_bounds(document: Document) -> None:
    """Raises ``InvalidConfigError`` for too many values, too deep ones, and a key that is no text."""
    waiting: list[tuple[Path, Any]] = [((), document.value)]
    count = 0
    while waiting:
        path, value = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise document.fault((), f"has over {MOST_VALUES} values.")
        if len(path) > MOST_DEPTH:
            raise document.fault(path, f"lies over {MOST_DEPTH} levels deep.")
        if isinstance(value, dict):
            for key, inner in value.items():
                check_key(document, path, key)
                waiting.append(((*path, key), inner))
        elif isinstance(value, list):
            waiting += (((*path, number), inner) for number, inner in enumerate(value))


def check_key(document: Document, path: Path, key: Any) -> None:
    """Raises ``InvalidConfigError`` unless ``key``, in the mapping at ``path``, is a text of fair length."""
    if not isinstance(key, str):
        raise document.fault(path, f"has the key {shown(key)}, which is no text.", hint="Put it in quotes.")
    if len(key) > _LONGEST_KEY:
        raise document.fault(path, f"has a key of over {_LONGEST_KEY} characters.")
