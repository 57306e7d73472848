"""How other engines than ours draw tokens, under the names that OpenAI's API and vLLM's have for it."""

from __future__ import annotations

from typing import Any

from unmask.sampling import SAMPLING
from unmask.serving.wire import WireModel


class SamplingFields(WireModel):
    """What ``SAMPLING`` has; our own engine takes the values that ask for nothing."""

    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None

    def sampling(self) -> dict[str, Any]:
        """The fields as ``GenerationParams`` take them."""
        return {name: getattr(self, name) for name in SAMPLING}
