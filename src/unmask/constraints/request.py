"""What a request says of its answer's form, as one regular expression that the whole text must match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from unmask.constraints.json_schema import schema_pattern
from unmask.constraints.literal import escape, unanchored
from unmask.errors import InvalidValueError, UnmaskError
from unmask.params import CONSTRAINTS, GenerationParams
from unmask.shown import shown

_MAX_SOURCE = 2**18
_MAX_CHOICES = 4096
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANY_TEXT = "(?s:.*)"


@dataclass(frozen=True, slots=True)
class Form:
    """``kind``: the option that asks for it, one of ``CONSTRAINTS``. ``pattern``: a regular expression (Rust's).

    ``own``: the user's own expressions in it, each of which must be one by itself: in brackets, "a)(b" would pass.
    """

    kind: str
    pattern: str
    own: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """What its automaton is remembered by."""
        return self.pattern, self.own


def form_of(params: GenerationParams) -> Form | None:
    """The form that ``params`` ask for, if any. Raises an error that names the option."""
    given = [name for name in CONSTRAINTS if getattr(params, name) is not None]
    if len(given) > 1:
        raise InvalidValueError(
            f"'{given[0]}' and '{given[1]}' both say what the answer looks like.",
            hint="Give one of them.",
            param=given[1],
        )
    if params.holes is not None and params.template is None:
        raise InvalidValueError("'holes' needs a 'template'.", param="holes")
    if not given:
        return None
    (kind,) = given
    if kind == "template":
        pattern = _template(params.template, params.holes or {})
    else:
        pattern = _PATTERNS[kind](getattr(params, kind))
    if len(pattern) > _MAX_SOURCE:
        raise InvalidValueError(
            f"'{kind}' becomes an expression of {len(pattern)} characters.",
            hint=f"At most {_MAX_SOURCE} are allowed; bound fewer things.",
            param=kind,
        )
    if not pattern.isascii() and any(0xD800 <= ord(character) < 0xE000 for character in pattern):
        raise InvalidValueError(f"'{kind}' is not valid Unicode: it holds half a character.", param=kind)
    return Form(kind, pattern, _own(kind, pattern, params.holes or {}))


def _own(kind: str, pattern: str, holes: dict[str, Any]) -> tuple[str, ...]:
    if kind == "regex":
        return (pattern,)
    return tuple(unanchored(hole["regex"]) for hole in holes.values() if "regex" in hole)


def _regex(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValueError("'regex' must be an expression of at least one character.", param="regex")
    return unanchored(value)


def _choices(value: Any) -> str:
    texts = list(value) if isinstance(value, list | tuple) else []
    if not texts or len(texts) > _MAX_CHOICES or not all(isinstance(text, str) and text for text in texts):
        raise InvalidValueError(
            f"'choices' must hold 1 to {_MAX_CHOICES} texts of at least one character.", param="choices"
        )
    return f"(?:{'|'.join(escape(text) for text in dict.fromkeys(texts))})"


_PATTERNS = {"regex": _regex, "choices": _choices, "json_schema": schema_pattern}


def _template(template: Any, holes: Any) -> str:
    """Fixed text with holes ``{{name}}``, each of any text or as ``holes`` says."""
    if not isinstance(template, str) or not template:
        raise InvalidValueError("'template' must be a text of at least one character.", param="template")
    if not isinstance(holes, dict):
        raise InvalidValueError("'holes' must be an object.", param="holes")
    fixed, found = _divided(template)
    names = [name.strip() for name in found]
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise InvalidValueError(
                f"{shown(f'{{{{{name}}}}}')} is no hole of the template.",
                hint="A hole is a name of letters, digits and '_' between double braces.",
                param="template",
            )
    for name in holes:
        if name not in names:
            raise InvalidValueError(
                f"'holes' describes {shown(name)}, which the template does not have.", param="holes"
            )
    filled = [_hole(name, holes[name]) if name in holes else _ANY_TEXT for name in names]
    return "".join(escape(text) + hole for text, hole in zip(fixed, [*filled, ""], strict=True))


def _divided(template: str) -> tuple[list[str], list[str]]:
    """The fixed texts of ``template``, and what stands in the holes between them.

    It looks at nothing twice: an expression that looks for holes would take minutes over braces that never close.
    """
    fixed, names, place = [], [], 0
    while (begin := template.find("{{", place)) >= 0 and (end := template.find("}}", begin + 2)) >= 0:
        fixed.append(template[place:begin])
        names.append(template[begin + 2 : end])
        place = end + 2
    return [*fixed, template[place:]], names


def _hole(name: str, content: Any) -> str:
    if not isinstance(content, dict) or len(content) != 1 or next(iter(content)) not in _PATTERNS:
        raise InvalidValueError(
            f"'holes.{name[:100]}' must have one of {', '.join(_PATTERNS)}.",
            hint='For example {"regex": "[0-9]+"}.',
            param="holes",
        )
    ((kind, value),) = content.items()
    try:
        return f"(?:{_PATTERNS[kind](value)})"
    except UnmaskError as error:
        error.message = f"'holes.{name[:100]}': {error.message}"
        error.param = "holes"
        raise
