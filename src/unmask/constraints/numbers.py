"""Regular expressions of numbers within bounds, digit by digit."""

from __future__ import annotations

INTEGER = "(?:-?(?:0|[1-9][0-9]*))"
NUMBER = r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)"
_FRACTION = r"(?:\.[0-9]+)?"
_ZEROS = r"(?:\.0+)?"
_MORE = r"\.[0-9]*[1-9][0-9]*"  # a fraction that is not 0


def integers(low: int | None, high: int | None) -> str | None:
    """Integers from ``low`` to ``high``, each None for no bound, without leading zeros; None if there are none."""
    if low is None and high is None:
        return INTEGER
    if low is not None and high is not None and low > high:
        return None
    parts = []
    if low is None or low < 0:
        least = 1 if high is None or high >= 0 else -high
        parts.append("-" + _naturals(least, None if low is None else -low))
    if high is None or high >= 0:
        parts.append(_naturals(max(low or 0, 0), high))
    return f"(?:{'|'.join(parts)})"


def numbers(low: int | None, high: int | None, *, above: bool, below: bool) -> str | None:
    """Numbers from ``low`` to ``high``, written without exponent; ``above`` or ``below`` leave the bound itself out."""
    if low is None and high is None:
        return NUMBER
    parts = []
    if high is None or high > 0 or (high == 0 and not below):
        parts.append(_reals(max(low or 0, 0), high, above and (low or 0) >= 0 and low is not None, below))
    if low is None or low < 0:
        negative = _reals(0 if high is None or high >= 0 else -high, None if low is None else -low,
                          below and high is not None and high <= 0, above)  # fmt: skip
        parts.append(negative and f"-(?:{negative})")
    known = [part for part in parts if part]
    return f"(?:{'|'.join(known)})" if known else None


def _reals(low: int, high: int | None, above: bool, below: bool) -> str | None:
    """Numbers from ``low``, which is at least 0, to ``high``."""
    if high is not None and low > high:
        return None
    if high == low:
        return None if above or below else f"{low}{_ZEROS}"
    parts = [f"{low}{_MORE if above else _FRACTION}"]
    if high is None or high > low + 1:
        parts.append(_naturals(low + 1, None if high is None else high - 1) + _FRACTION)
    if high is not None and not below:
        parts.append(f"{high}{_ZEROS}")
    return "|".join(parts)


def _naturals(low: int, high: int | None) -> str:
    """Integers from ``low``, which is at least 0, to ``high``."""
    if high is None:
        digits = len(str(low))
        longer = f"[1-9][0-9]{{{digits},}}"
        return f"(?:{_same_length(str(low), '9' * digits)}|{longer})"
    parts = []
    for digits in range(len(str(low)), len(str(high)) + 1):
        least = max(low, 10 ** (digits - 1) if digits > 1 else 0)
        parts.append(_same_length(str(least), str(min(high, 10**digits - 1))))
    return f"(?:{'|'.join(parts)})"


def _same_length(low: str, high: str) -> str:
    """Numbers of as many digits as ``low`` and ``high`` have."""
    if low == high:
        return low
    if len(low) == 1:
        return f"[{low}-{high}]"
    first, last, rest = low[0], high[0], len(low) - 1
    if first == last:
        return f"{first}(?:{_same_length(low[1:], high[1:])})"
    free = f"[0-9]{{{rest}}}"
    parts = []
    inner_first, inner_last = int(first), int(last)
    if low[1:] != "0" * rest:
        parts.append(f"{first}(?:{_same_length(low[1:], '9' * rest)})")
        inner_first += 1
    if high[1:] != "9" * rest:
        parts.append(f"{last}(?:{_same_length('0' * rest, high[1:])})")
        inner_last -= 1
    if inner_first <= inner_last:
        parts.append(f"[{inner_first}-{inner_last}]{free}")
    return "|".join(parts)
