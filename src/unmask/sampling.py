"""How engines draw that write one token after the other. Our own engine does not."""

from __future__ import annotations

from collections.abc import Mapping

from unmask.errors import UnsupportedValueError
from unmask.params import GenerationParams

# By name, the values that ask for nothing.
SAMPLING: Mapping[str, float] = {
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
PENALTIES = tuple(name for name in SAMPLING if name.endswith("_penalty"))


def refuse_sampling(params: GenerationParams, model: str) -> None:
    """Raises ``UnsupportedValueError`` for what ``params`` ask of such an engine; ``repeat_last_n`` alone asks for
    nothing.
    """
    for name, nothing in SAMPLING.items():
        if getattr(params, name) not in (None, nothing):
            raise UnsupportedValueError(
                f"'{name}' is for engines that write one token after the other; {model} decides many at once.",
                hint=f"Leave it out, or send {nothing:g}; 'top_p' and 'top_k' are taken.",
                param=name,
            )
