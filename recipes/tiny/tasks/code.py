"""Small Python functions, written from a description."""

from random import Random

from . import pools
from .base import Sample

NAMES = (
    "f", "g", "h", "func", "solve", "calc", "compute", "run", "apply", "get", "helper",
    "add", "add", "total", "check", "pick", "double", "mul", "test", "count", "smallest", "largest",
)  # fmt: skip

SCALARS = (  # of one number and one constant
    ("returns {x} plus {k}", "return {x} + {k}"),
    ("returns {x} minus {k}", "return {x} - {k}"),
    ("returns {x} times {k}", "return {x} * {k}"),
    ("checks if {x} is larger than {k}", "return {x} > {k}"),
    ("checks if {x} is equal to {k}", "return {x} == {k}"),
    ("checks if {x} can be divided by {k}", "return {x} % {k} == 0"),
    ("returns {x} but at most {k}", "return min({x}, {k})"),
    ("returns the square of {x} plus {k}", "return {x} * {x} + {k}"),
)
LISTS = (  # of one list
    ("returns {x} sorted", "return sorted({x})"),
    ("returns {x} reversed", "return {x}[::-1]"),
    ("returns the first element of {x}", "return {x}[0]"),
    ("returns the last element of {x}", "return {x}[-1]"),
    ("returns the length of {x}", "return len({x})"),
    ("returns the sum of {x}", "return sum({x})"),
    ("returns the largest element of {x}", "return max({x})"),
    ("returns the smallest element of {x}", "return min({x})"),
)
COMPREHENSIONS = (  # of one list and one constant
    ("returns the elements of {x} larger than {k}", "return [i for i in {x} if i > {k}]"),
    ("returns the elements of {x} smaller than {k}", "return [i for i in {x} if i < {k}]"),
    ("adds {k} to each element of {x}", "return [i + {k} for i in {x}]"),
    ("multiplies each element of {x} by {k}", "return [i * {k} for i in {x}]"),
)
LOOPS = (  # several lines
    (
        "adds up {x} in a loop, starting from {k}",
        "total = {k}\n    for i in {x}:\n        total += i\n    return total",
    ),
    (
        "counts in a loop the elements of {x} equal to {k}",
        "count = 0\n    for i in {x}:\n        if i == {k}:\n            count += 1\n    return count",
    ),
    (
        "prints each element of {x} larger than {k}",
        "for i in {x}:\n        if i > {k}:\n            print(i)",
    ),
    (
        "returns True if {k} is in {x} and False if not",
        "if {k} in {x}:\n        return True\n    return False",
    ),
)
PAIRS = (  # of two numbers
    ("returns the smaller of {x} and {y}", "return min({x}, {y})"),
    ("returns the larger of {x} and {y}", "return max({x}, {y})"),
    ("returns the sum of {x} and {y}", "return {x} + {y}"),
    ("returns the product of {x} and {y}", "return {x} * {y}"),
    ("prints {x} and then {y}", "print({x})\n    print({y})"),
    ("checks if {x} and {y} are equal", "return {x} == {y}"),
)
PHRASES = (
    "Write a Python function {f}({args}) that {what}.",
    "Python function {f}({args}) that {what}.",
    "Define {f}({args}), which {what}.",
)


def code(rng: Random, difficulty: float) -> Sample:
    """One function: a one-liner, a comprehension, or a loop of up to 45 tokens."""
    family = rng.choices((SCALARS, LISTS, COMPREHENSIONS, LOOPS, PAIRS), (30, 20, 20, 18, 12))[0]
    what, body = rng.choice(family)
    x, y = ("x", "y") if rng.random() < 0.6 else ("a", "b")
    if family in (LISTS, COMPREHENSIONS, LOOPS):
        x = rng.choice(("items", "nums", "values", "data"))
    args = f"{x}, {y}" if family is PAIRS else x
    k = rng.randint(2, 9) if "divided" in what or "time" in what else rng.randint(1, 50)
    f = rng.choice(NAMES) if rng.random() < 0.9 else rng.choice(pools.WORDS)
    if rng.random() < 0.6:
        f += f"_{rng.choice(pools.WORDS)}" if rng.random() < 0.5 else str(rng.randint(1, 99))
    fill = {"x": x, "y": y, "k": k}
    question = rng.choice(PHRASES).format(f=f, args=args, what=what.format(**fill))
    return Sample("code", question, f"def {f}({args}):\n    {body.format(**fill)}")
