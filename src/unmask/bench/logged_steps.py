"""Costs from the step log of a live server: what its steps really took, beside all else that its machine does."""

from __future__ import annotations

from array import array

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmask.bench.costs import FEATURES, Calibration
from unmask.bench.distributions import Floats
from unmask.bench.files import reading
from unmask.bench.request_seconds import measure_request_seconds
from unmask.engine.options import EngineOptions
from unmask.engine.step_records import Origin, StepRecord
from unmask.errors import InvalidValueError

_HINT = "`unmask serve --step-log FILE` writes it."

_record = msgspec.json.Decoder(StepRecord)
_origin = msgspec.json.Decoder(Origin)


def calibrate_from_steps(path: str, engine: EngineOptions | None) -> Calibration:
    """The costs of the steps in the log ``path``. What a request takes outside is measured of ``engine``, if given.

    Raises what ``read_steps`` and ``measure_request_seconds`` raise.
    """
    origin, features, seconds = read_steps(path)
    return Calibration.of(origin, features, seconds, 0.0 if engine is None else measure_request_seconds(engine))


def read_steps(path: str) -> tuple[Origin, NDArray[np.int64], Floats]:
    """Where they were measured, and features [steps, 5] and seconds [steps] of all steps in the log ``path``.

    Raises ``InvalidValueError`` naming file and line, for a file that is no step log or tells of two engines that
    differ.
    """
    features, seconds = array("q"), array("d")
    origin: Origin | None = None
    with reading(path), open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):  # copied while it was being written
                break
            found = _decode(path, number, line)
            if isinstance(found, StepRecord) and origin is not None:
                features.extend(found.features)
                seconds.append(found.seconds)
            elif isinstance(found, StepRecord) or found != (origin or found):
                raise InvalidValueError(
                    f"{path}, line {number}: steps of another engine than those before begin here.",
                    hint="One log holds one model on one device with as many threads; cut the file.",
                )
            else:
                origin = found
    if origin is None or not seconds:
        raise InvalidValueError(f"{path} holds no steps.", hint=_HINT)
    return origin, np.array(features, dtype=np.int64).reshape(-1, FEATURES), np.array(seconds)


def _decode(path: str, number: int, line: bytes) -> StepRecord | Origin:
    try:
        return _origin.decode(line) if line.startswith(b'{"model":') else _record.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"{path}, line {number} is no step of a step log: {error}.", hint=_HINT) from None
