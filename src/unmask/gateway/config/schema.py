"""What may stand in a configuration file: its keys, and the type of each.

The keys for our own engine and for decoding are those of ``EngineOptions`` and ``GenerationParams``, taken from there.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, get_type_hints
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from unmask.engine.options import DEVICES, EngineOptions
from unmask.gateway.config.amounts import budget, idle_time, load_time, size
from unmask.gateway.config.defaults import DECODING
from unmask.params import GenerationParams

_MOST_MODELS = 1024
NAME_CHARACTERS = r"[A-Za-z0-9._:/-]"

Name = Annotated[str, Field(pattern=rf"^{NAME_CHARACTERS}{{1,200}}\z")]
AdapterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}\z")]
Place = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]*\z")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}\z")]
Word = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*\z")]
IdleTime = Annotated[Any, AfterValidator(idle_time)]
LoadTime = Annotated[Any, AfterValidator(load_time)]
Count = Annotated[int, Field(ge=1, le=2**31)]

# Keys of our own engine that the file calls by a name that other engines have for it too.
RENAMED = {"max_context": "context", "adapters": "lora", "threads": "threads"}
_NOT_SAID = ("model", "logits_workers", *RENAMED)
ENGINE_KEYS = tuple(one.name for one in fields(EngineOptions) if one.name not in _NOT_SAID)


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise PydanticCustomError("url", "it must be a base URL like 'http://host:8000/v1'")
    if "@" in parts.netloc:
        raise PydanticCustomError("url", "it must hold no user and no password: name the key's variable, 'api_key_env'")
    return url.rstrip("/")


def _flags(words: list[str]) -> list[str]:
    if words and not words[0].startswith("-"):
        raise PydanticCustomError("engine_args", "it must begin with a flag, like '--flash-attn'")
    return words


class Table(BaseModel):
    """A mapping of the file: no unknown key, no type but the one that is meant. A key without a value says nothing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ServiceClassTable(Table):
    """A ``ServiceClass``."""

    floor: Annotated[float, Field(ge=0, le=1)]
    relaxes_at: Annotated[float, Field(ge=0, lt=1)]


def _own_type(name: str, hint: Any) -> Any:
    """The type of the engine's option ``name`` as the file has it."""
    if name == "service_classes":
        return dict[AdapterName, ServiceClassTable] | None
    if name == "device":
        return Annotated[str, Field(pattern=rf"^(?:{DEVICES})\z")] | None
    return hint | None


_ENGINE_HINTS = get_type_hints(EngineOptions)
_PARAMS_HINTS = get_type_hints(GenerationParams)

_DECODING_FIELDS: Any = {name: (_PARAMS_HINTS[name], None) for name in DECODING}
DecodingTable = create_model("DecodingTable", __base__=Table, **_DECODING_FIELDS)


class DefaultsTable(Table):
    """Request parameters, as ``GenerationParams`` names them; those of the ``unmask`` object stand in it here too."""

    max_tokens: Count | None = None
    min_tokens: Annotated[int, Field(ge=0, le=2**31)] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    repeat_last_n: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = None
    seed: int | None = None
    stop: Annotated[list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(max_length=16)] | None = None
    unmask: DecodingTable | None = None  # type: ignore[valid-type]


class _ModelTable(Table):
    path: Place | None = None
    url: Annotated[str, Field(max_length=2000), AfterValidator(_base_url)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    api_key_env: Variable | None = None
    diffusing: bool | None = None
    paradigm: Literal["diffusion", "autoregressive"] | None = None
    aliases: Annotated[list[Name], Field(max_length=64)] | None = None
    lane: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    keep_alive: IdleTime = None
    pinned: bool | None = None
    preload: bool | None = None
    load_timeout: LoadTime = None
    stall_timeout: LoadTime = None
    canary: bool | None = None
    defaults: DefaultsTable | None = None
    context: Count | None = None
    threads: Annotated[int, Field(ge=0, le=1024)] | None = None
    slots: Annotated[int, Field(ge=1, le=4096)] | None = None
    gpu_layers: Annotated[int, Field(ge=0, le=2**16)] | None = None
    engine_args: Annotated[list[Word], Field(max_length=64), AfterValidator(_flags)] | None = None
    lora: Annotated[dict[AdapterName, Place], Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> _ModelTable:
        if (self.path is None) == (self.url is None):
            raise PydanticCustomError("source", "it must have either 'path' or 'url'")
        if self.url is None:
            wrong, where = _FOR_REMOTE, "with 'path': it is for models at a 'url'"
        else:
            wrong, where = (
                set(ModelTable.model_fields) - _FOR_REMOTE - _FOR_BOTH,
                "with 'url': the model runs elsewhere",
            )
        said = next((name for name in ModelTable.model_fields if name in wrong and self._says(name)), None)
        if said is not None:
            words = "its '{name}' has no effect {where}"
            raise PydanticCustomError("no_effect", words, {"name": said, "where": where})
        if self.url is not None and self.model is None:
            raise PydanticCustomError("source", "it must say which 'model' is meant at its 'url'")
        if self.diffusing and self.paradigm == "autoregressive":
            raise PydanticCustomError("source", "its 'paradigm' is not that of a model with 'diffusing'")
        return self

    def _says(self, name: str) -> bool:
        return getattr(self, name) is not None


_FOR_REMOTE = {"url", "model", "api_key_env", "diffusing", "paradigm"}
_FOR_BOTH = {"aliases", "canary", "defaults", "context", "stall_timeout"}

_ENGINE_FIELDS: Any = {name: (_own_type(name, _ENGINE_HINTS[name]), None) for name in ENGINE_KEYS}
ModelTable = create_model("ModelTable", __base__=_ModelTable, **_ENGINE_FIELDS)


class ConfigTable(Table):
    """The whole file."""

    models: Annotated[dict[Name, ModelTable], Field(max_length=_MOST_MODELS)] | None = None  # type: ignore[valid-type]
    models_dir: Place | None = None
    memory_budget: Annotated[Any, AfterValidator(budget)] = None
    max_models: Annotated[int, Field(ge=1, le=_MOST_MODELS)] | None = None
    idle_seconds: IdleTime = None
    load_timeout: LoadTime = None
    log_dir: Place | None = None
    session_store: Annotated[Any, AfterValidator(size)] = None
