"""How processes that give logits are started. No tensors here."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.errors import InvalidValueError
from unmask.params import OWN_LANE

LOGIT_BYTES = 4  # they are float32


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsWorkers:
    """``count`` processes of ``program``, each with the model's weights of its own.

    ``lane``: what they are called among engines. ``gpu_layers``: None leaves them to the program. ``start_seconds``:
    how long one may take to load the model; ``step_seconds``: to answer for one canvas. Raises ``InvalidValueError``
    for numbers out of range.
    """

    program: str
    lane: str = OWN_LANE
    count: int = 1
    gpu_layers: int | None = None
    start_seconds: float = 600.0
    step_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= 4096:
            raise InvalidValueError(f"{self.count} processes were asked for; it must be 1 to 4096.", param="count")
        if not (self.start_seconds > 0 and self.step_seconds > 0):
            raise InvalidValueError("start_seconds and step_seconds must be above 0.", param="start_seconds")
