"""The sandbox in which a checkpoint's chat template runs: no way out, and bounded in time and memory.

A template comes from a stranger. Jinja's own sandbox keeps it from reaching the interpreter; here it is also kept
from looping or growing strings for ever. Every pass through a loop or a macro checks a deadline, the operators
that make values grow check the size of their result first, and of filters and string methods only those are there
that chat templates use and that cannot make much out of little.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.filters import do_indent
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_CHARS = 16 * 2**20
MAX_SECONDS = 2.0
MAX_INDENT = 16
_MAX_BITS = 4096

_FILTERS = frozenset((
    "abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "indent",
    "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "random", "reject",
    "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "sort", "string", "striptags",
    "sum", "title", "tojson", "trim", "truncate", "unique", "upper",
))  # fmt: skip
_STRING_METHODS = frozenset((
    "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdecimal", "isdigit", "islower",
    "isnumeric", "isspace", "istitle", "isupper", "join", "lower", "lstrip", "partition", "removeprefix",
    "removesuffix", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines",
    "startswith", "strip", "swapcase", "title", "upper",
))  # fmt: skip

_deadline: ContextVar[float] = ContextVar("template_deadline")


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """An environment set up as model authors expect it (the conventions of Hugging Face), within bounds."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", GenerationTag])
        self.filters = {name: self.filters[name] for name in _FILTERS}
        self.filters |= {"tojson": _tojson, "indent": _indent, "replace": _replace, "join": _join}
        del self.globals["lipsum"]
        self.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": lambda form: datetime.now().strftime(form),
            "_tick": _tick,
            "_concat": _concat,
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        bounded: nodes.Template = _Bound().visit(tree)
        return bounded

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may touch ``obj.attr``."""
        if isinstance(obj, str) and attr not in _STRING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call ``__obj``; the string methods that make text longer are replaced by ones that check."""
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name in ("replace", "join"):
            return _replace(owner, *args) if name == "replace" else _join(args[0], owner)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """The operator's result, if it is not too large."""
        if operator == "**":
            _check(_bits(left) * (abs(right) if isinstance(right, int) else 1) <= _MAX_BITS)
        elif operator == "*":
            sized, times = (left, right) if hasattr(left, "__len__") else (right, left)
            if hasattr(sized, "__len__") and isinstance(times, int):
                _check(len(sized) * times <= MAX_CHARS)
            else:
                _check(_bits(left) + _bits(right) <= _MAX_BITS)
        elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            _check(len(left) + len(right) <= MAX_CHARS)
        elif operator == "%" and isinstance(left, str):
            raise TemplateError("formatting with % is not supported")
        return super().call_binop(context, operator, left, right)


class GenerationTag(Extension):
    """``{% generation %} ... {% endgeneration %}`` marks the assistant's words for training; it renders as its body."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The body, as if the tag were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@contextmanager
def deadline(seconds: float = MAX_SECONDS) -> Iterator[None]:
    """Templates rendered inside must be done within ``seconds``; a ``TemplateError`` ends them otherwise."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


class _Bound(NodeTransformer):
    """Puts a tick at the head of every loop and macro, and size checks into string concatenation."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        return self._ticking(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._ticking(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return nodes.Call(nodes.Name("_concat", "load"), node.nodes, [], None, None, lineno=node.lineno)

    def _ticking(self, node: nodes.For | nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        call = nodes.Call(nodes.Name("_tick", "load"), [], [], None, None)
        node.body.insert(0, nodes.ExprStmt(call).set_lineno(node.lineno))
        return node


def _tick() -> None:
    if time.monotonic() > _deadline.get():
        raise TemplateError("the template takes too long")


def _concat(*parts: Any) -> str:
    texts = [str(part) for part in parts]
    _check(sum(map(len, texts)) <= MAX_CHARS)
    return "".join(texts)


def _check(small: bool) -> None:
    if not small:
        raise TemplateError("a value in the template grows too large")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 64


def _tojson(value: Any, indent: int | None = None) -> str:
    _check((indent or 0) <= MAX_INDENT)
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    _check(width <= MAX_INDENT)
    return do_indent(text, width, first, blank)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    hits = text.count(old) if count < 0 else min(count, text.count(old))
    _check(len(text) + hits * (len(new) - len(old)) <= MAX_CHARS)
    return text.replace(old, new, count)


def _join(values: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    texts = [str(value if attribute is None else value[attribute]) for value in values]
    _check(sum(map(len, texts)) + len(separator) * len(texts) <= MAX_CHARS)
    return separator.join(texts)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


# Variables that a template gets from who renders it, and functions that it may call.
RESERVED = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "pad_token"}) | frozenset(
    TemplateSandbox().globals
)
