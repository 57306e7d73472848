"""The lanes that are known here."""

from __future__ import annotations

from importlib.util import find_spec

from unmask.gateway.lane import Lane
from unmask.gateway.mainline import MAINLINE
from unmask.models.gguf_config import GGUF_ARCHITECTURES
from unmask.models.registry import FAMILIES


def known_lanes() -> tuple[Lane, ...]:
    """Our own engine, then the others in the order in which they are preferred."""
    return _own(), _llama_cpp()


def _own() -> Lane:
    return Lane(
        name="unmask",
        kind="unmask",
        formats=frozenset({"safetensors", "gguf"}),
        architectures={"diffusion": frozenset(FAMILIES) | GGUF_ARCHITECTURES},
    )


def _llama_cpp() -> Lane:
    is_there = find_spec("xllamacpp") is not None
    return Lane(
        name="llama.cpp",
        kind="llama.cpp",
        formats=frozenset({"gguf"}),
        architectures={"autoregressive": MAINLINE},
        missing="" if is_there else "the package xllamacpp is not installed",
        remedy='pip install "unmask[llamacpp]"',
    )
