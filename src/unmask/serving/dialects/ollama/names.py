"""Names of models as Ollama has them: what has no tag is ``latest``."""

from __future__ import annotations

from unmask.params import ModelInfo
from unmask.serving.served_model import ServedModel

_LATEST = ":latest"


def tagged(name: str) -> str:
    """``name`` with its tag; an adapter is one already."""
    return name if ":" in name else name + _LATEST


def find(model: ServedModel, name: str | None) -> tuple[str, ModelInfo]:
    """The variant called ``name``, with or without the tag, under the name that was used.

    Raises ``ModelNotFoundError``.
    """
    if name is None or name in model.variants:
        return model.find(name)
    return name, model.find(name.removesuffix(_LATEST))[1]
