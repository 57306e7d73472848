"""A string's ``pattern`` as an expression of what stands between the quotes of a JSON text.

A schema's pattern speaks of a string's characters, an automaton of the JSON that encodes them. Here every character
that the pattern can match is one that JSON writes as itself: classes are cut down to those, and a quote or a backslash
is refused. The whole string must match, which is stricter than the standard's "somewhere in it".
"""

from __future__ import annotations

import re
from typing import Any

from unmask.constraints.literal import unanchored
from unmask.errors import UnsupportedValueError

_PLAIN = r'[^"\\\x00-\x1F\x7F-\x9F]'
CHARACTER = rf'(?:{_PLAIN}|\\["\\/bfnrt])'

# ASCII, as the standard's own dialect has it; others read them as more than that.
_SHORT = {"d": "0-9", "w": "A-Za-z0-9_", "s": " "}
_ESCAPED = re.compile(r"[\\.+*?()|\[\]{}^$/#&~:;<>=!@%,`' -]")
_GROUP = re.compile(r"\(\?(?::|P?<[A-Za-z_][A-Za-z0-9_]*>)?")
_REPEAT = re.compile(r"\{[0-9]+(,[0-9]*)?\}")


def string_pattern(pattern: Any, at: str) -> str:
    """``pattern`` within JSON quotes. Raises ``UnsupportedValueError`` naming the place ``at``."""
    if not isinstance(pattern, str):
        raise _refusal(at, "it must be a text")
    body = unanchored(pattern)
    parts: list[str] = []
    place = depth = 0
    while place < len(body):
        part, place = _next(body, place, at)
        parts.append(part)
        depth += (part == "(?:") - (part == ")")
        if depth < 0:
            break
    if depth:
        raise _refusal(at, "its round brackets do not match")  # one more would close what stands around it
    return "".join(parts)


def _next(body: str, place: int, at: str) -> tuple[str, int]:
    """The part of ``body`` that begins at ``place``, rewritten, and where it ends."""
    character = body[place]
    match character:
        case "\\":
            return _escape(body, place, at)
        case "[":
            return _class(body, place, at)
        case ".":
            return _PLAIN, place + 1
        case "(":
            group = _GROUP.match(body, place)
            if group is None:
                return "(?:", place + 1
            if group.end() == place + 2:
                raise _refusal(at, f"'{body[place : place + 4]}' is not supported")
            return "(?:", group.end()
        case "{":
            repeat = _REPEAT.match(body, place)
            if repeat is None:
                raise _refusal(at, "a '{' that repeats nothing must be escaped")
            return repeat.group(), repeat.end()
        case "^" | "$":
            raise _refusal(at, f"'{character}' inside it is not supported")
        case ")" | "|" | "*" | "+" | "?":
            return character, place + 1
    _check_plain(character, at)
    return re.sub(r"([#&~\-\]}])", r"\\\1", character), place + 1


def _escape(body: str, place: int, at: str) -> tuple[str, int]:
    kind = body[place + 1 : place + 2]
    if kind in _SHORT:
        return f"[{_SHORT[kind]}]", place + 2
    if kind.lower() in _SHORT and kind:
        return rf"[\{kind}&&{_PLAIN}]", place + 2
    if _ESCAPED.fullmatch(kind) is None or kind == "\\":
        raise _refusal(at, f"'\\{kind}' is not supported")
    return re.escape(kind) if kind not in " /:;<>=!@%,`'" else kind, place + 2


def _class(body: str, place: int, at: str) -> tuple[str, int]:
    """A class of characters, less those that JSON does not write as themselves."""
    inside = ""
    start = place + 1
    if body[start : start + 1] == "^":
        inside, start = "^", start + 1
    while start < len(body) and body[start] != "]":
        character = body[start]
        if character == "\\":
            kind = body[start + 1 : start + 2]
            if kind in _SHORT:
                inside += _SHORT[kind] if kind != "s" else r"\x20"
            elif _ESCAPED.fullmatch(kind) is not None or kind in '"':
                inside += f"\\x{ord(kind):02x}" if kind else ""
            else:
                raise _refusal(at, f"'\\{kind}' in a class is not supported")
            start += 2
        elif character == "-":
            between = inside.strip("^") and not inside.endswith("-") and body[start + 1 : start + 2] not in ("]", "")
            inside += "-" if between else r"\x2d"  # "--" would be a difference
            start += 1
        else:
            inside += f"\\x{ord(character):02x}" if ord(character) < 0x80 and not character.isalnum() else character
            start += 1
    if start >= len(body) or inside in ("", "^"):
        raise _refusal(at, "a class does not end, or is empty")
    return f"[[{inside}]&&{_PLAIN}]", start + 1


def _check_plain(character: str, at: str) -> None:
    if character in '"\\' or ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0:
        raise _refusal(at, "quotes, backslashes and control characters are not supported")


def _refusal(at: str, what: str) -> UnsupportedValueError:
    return UnsupportedValueError(f"The schema cannot be enforced at '{at}': {what}.", param="json_schema")
