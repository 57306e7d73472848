"""The lanes that are known here."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from unmask.gateway.advertised import advertised
from unmask.gateway.engine_lanes import registered_lanes, without_disproved
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.lane import PACKAGE, Lane
from unmask.gateway.llama_table import architectures_in
from unmask.gateway.mainline import MAINLINE
from unmask.models.gguf_config import GGUF_ARCHITECTURES
from unmask.models.registry import FAMILIES
from unmask.params import OWN_LANE


def known_lanes() -> tuple[Lane, ...]:
    """Our own engine, then the others in the order in which they are preferred: the package's, then those users added.

    Raises ``InvalidEngineRegistryError`` if the file of these cannot be read.
    """
    registry = RegistryFile().read()
    return without_disproved([_own(), _llama_cpp(), *registered_lanes(registry)], registry.pins)


def _own() -> Lane:
    return Lane(
        name=OWN_LANE,
        kind="unmask",
        formats=frozenset({"safetensors", "gguf"}),
        architectures={"diffusion": frozenset(FAMILIES) | GGUF_ARCHITECTURES},
    )


def _llama_cpp() -> Lane:
    spec = find_spec("xllamacpp")
    library = None if spec is None or spec.origin is None else _library(Path(spec.origin).parent)
    served, mark = MAINLINE, ""
    if library is not None:
        status = library.stat()
        mark = f"{status.st_size}-{status.st_mtime_ns}"
        served = _served(library, mark) or MAINLINE
    return Lane(
        name=PACKAGE,
        kind="llama.cpp",
        formats=frozenset({"gguf"}),
        architectures={"autoregressive": served},
        missing="" if spec is not None else "the package xllamacpp is not installed",
        remedy='pip install "unmask[llamacpp]"',
        mark=mark,
    )


def _library(package: Path) -> Path | None:
    """The one that the package xllamacpp consists of."""
    return next(iter(sorted([*package.glob("xllamacpp*.so"), *package.glob("xllamacpp*.pyd")])), None)


@lru_cache(maxsize=4)
def _served(library: Path, mark: str) -> frozenset[str]:
    """What the llama.cpp in ``library`` serves; empty if it cannot be told. ``mark``: of which version of the file."""
    try:
        return advertised(architectures_in(library), "tokens")["autoregressive"]
    except (OSError, ValueError):
        return frozenset()
