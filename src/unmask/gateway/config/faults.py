"""What is wrong with a configuration, in words: which key, what it is, what it should be, and which was meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from unmask.errors import InvalidConfigError
from unmask.gateway.config.document import Document, Path
from unmask.gateway.config.schema import (
    NAME_CHARACTERS,
    ConfigTable,
    DecodingTable,
    DefaultsTable,
    ModelTable,
    ServiceClassTable,
)

_MODEL_TABLE: type[BaseModel] = ModelTable
_TABLES: tuple[type[BaseModel], ...] = (ConfigTable, ModelTable, DefaultsTable, DecodingTable, ServiceClassTable)
_ALIKE = 0.7

# What other gateways, and other parts of Unmask, call a key.
_FOREIGN = {
    "ttl": "keep_alive",
    "globalttl": "idle_seconds",
    "healthchecktimeout": "load_timeout",
    "max_loaded_models": "max_models",
    "max_resident": "max_models",
    "hf": "path",
    "repo": "path",
    "model_path": "path",
    "file": "path",
    "base_url": "url",
    "api_base": "url",
    "proxy": "url",
    "engine": "lane",
    "backend": "lane",
    "max_context": "context",
    "ctx_size": "context",
    "num_ctx": "context",
    "n_ctx": "context",
    "parallel": "slots",
    "num_parallel": "slots",
    "ngl": "gpu_layers",
    "n_gpu_layers": "gpu_layers",
    "num_gpu": "gpu_layers",
    "adapters": "lora",
    "num_predict": "max_tokens",
    "budget": "memory_budget",
}
_KEYS_OF_SERVERS = frozenset({"api_key", "key", "apikey", "token", "secret", "password"})

_KINDS = {
    "string_type": "a text",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than_equal": "at least {ge}",
    "greater_than": "above {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "below {lt}",
    "too_long": "of at most {max_length} entries",
    "string_too_long": "of at most {max_length} characters",
    "string_too_short": "of at least {min_length} character",
}
_IS = {bool: "true or false", int: "an integer", float: "a number", str: "a text", list: "a list", dict: "a mapping"}


def fault_of(error: ValidationError, document: Document) -> InvalidConfigError:
    """The first thing that ``error`` has against ``document``: of those that name a key, an unknown one first."""
    details = error.errors(include_url=False)
    first = next((one for one in details if one["type"] == "extra_forbidden"), details[0])
    path: Path = first["loc"]
    if first["type"] == "extra_forbidden":
        return _unknown(path, document)
    if path and path[-1] == "[key]":  # the key before it is a name that does not fit
        return document.fault(path[:-1], "is no name.", hint=_names(path))
    return document.fault(path, _words(first, path))


def _unknown(path: Path, document: Document) -> InvalidConfigError:
    name = str(path[-1])
    table = _table_at(path[:-1])
    known = [*table.model_fields]
    words = f"is no key of {_described(path[:-1])}."
    if name.lower() in _KEYS_OF_SERVERS and table is ModelTable:
        hint = "A key does not belong into this file: name the environment variable that holds it, with 'api_key_env'."
        return document.fault(path, words, hint=hint)
    meant = _FOREIGN.get(name.lower(), "")
    if meant not in known:
        near = get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=_ALIKE)
        meant = near[0] if near else ""
    if meant:
        return document.fault(path, words, hint=f"Did you mean '{meant}'?")
    elsewhere = next((one for one in _TABLES if name in one.model_fields), None)
    if elsewhere is not None:
        return document.fault(path, words, hint=f"It is one of {_DESCRIBED[elsewhere]}.")
    return document.fault(path, words, hint=f"Its keys are {', '.join(known)}.")


_DESCRIBED: dict[type[BaseModel], str] = {
    ConfigTable: "the file as a whole",
    ModelTable: "a model",
    DefaultsTable: "a model's 'defaults'",
    DecodingTable: "the 'unmask' of a model's 'defaults'",
    ServiceClassTable: "a service class",
}


def _described(path: Path) -> str:
    return _DESCRIBED[_table_at(path)]


def _table_at(path: Path) -> type[BaseModel]:
    """The kind of mapping that stands at ``path``."""
    if len(path) < 2:
        return ConfigTable
    if len(path) == 2:
        return _MODEL_TABLE
    if path[2] == "service_classes":
        return ServiceClassTable
    return DefaultsTable if len(path) == 3 else DecodingTable


def _words(error: ErrorDetails, path: Path) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _KINDS:
        return f"is {_kind_of(error['input'])}; it must be {_KINDS[kind]}."
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind].format(**context)}."
    if kind == "missing":
        return "is needed."
    if kind == "string_pattern_mismatch":
        return _pattern_words(path)
    return f"is wrong: {error['msg']}."


def _pattern_words(path: Path) -> str:
    if path[-1] == "api_key_env":
        return "is no name of an environment variable; the key itself does not belong into this file."
    if path[-1] == "device":
        return "is no device to run a model on."
    if "aliases" in path:
        return f"is no name. {_names(path)}"
    return "is no path."


def _names(path: Path) -> str:
    letters = r"[A-Za-z0-9._-]" if "lora" in path or "service_classes" in path else NAME_CHARACTERS
    most = 64 if "lora" in path or "service_classes" in path else 200
    return f"A name has 1 to {most} of the characters {letters[1:-1].replace('A-Za-z0-9', 'A-Z a-z 0-9 ')}."


def _kind_of(value: Any) -> str:
    if value is None:
        return "empty"
    return next((words for kind, words in _IS.items() if type(value) is kind), f"a {type(value).__name__}")
