"""The lines of a step log: what was measured where, and one record a step."""

from __future__ import annotations

import platform
from typing import Annotated

import msgspec

from unmask import __version__
from unmask.engine.step_features import Features
from unmask.params import ModelInfo

_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class StepRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step, begun at ``time`` by a monotonic clock, ``idle`` seconds after the one before had ended. It took
    ``seconds`` until its report was handed on; what measuring takes is in neither. The other fields are what its spans
    held, summed.
    """

    time: float
    idle: float
    seconds: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    spans: _Number
    rows: _Number
    keys: _Number
    pairs: _Number
    candidates: _Number

    @property
    def features(self) -> Features:
        """As ``step_features`` has them."""
        return self.spans, self.rows, self.keys, self.pairs, self.candidates


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was measured where: the model, by so many threads, on which device of which host, by which version."""

    model: ModelInfo
    threads: int
    device: str
    host: str
    version: str

    @classmethod
    def here(cls, model: ModelInfo, threads: int, device: str) -> Origin:
        """On this host, by this version."""
        host = f"{platform.node()}: {platform.processor() or platform.machine()}, {platform.system()}"
        return cls(model=model, threads=threads, device=device, host=host, version=__version__)
