"""Tasks about numbers: facts, chains of facts, comparing, sorting, counting, tables."""

from random import Random

from .base import Sample, upto

LIMIT = 50
"""Sums and differences stay within this; products stay within 9 x 9."""

SYMBOLS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
COMMANDS = {
    "+": ("Add {a} and {b}.", "Add {b} to {a}.", "What is the sum of {a} and {b}?"),
    "-": ("Subtract {b} from {a}.", "Take {b} away from {a}."),
    "*": ("Multiply {a} by {b}.", "What is the product of {a} and {b}?"),
    "/": ("Divide {a} by {b}.", "Share {a} into {b} equal parts."),
}
PHRASES = (
    "What is {a} {op} {b}?", "{a} {op} {b} =", "Compute {a} {op} {b}.", "How much is {a} {op} {b}?",
    "{a} {op} {b}", "Calculate {a} {op} {b}.", "Please compute {a} {op} {b}.",
    "What is {a} {word} {b}?", "How much is {a} {word} {b}?", "Tell me {a} {word} {b}.",
)  # fmt: skip


def fact(rng: Random, limit: int) -> tuple[int, str, int, int]:
    """One true equation ``a op b = c``."""
    op = rng.choices("+-*/", (40, 34, 18, 8))[0]
    if op == "+":
        c = rng.randint(0, limit)
        a = rng.randint(0, c)
        return a, op, c - a, c
    if op == "-":
        a = rng.randint(0, limit)
        b = rng.randint(0, a)
        return a, op, b, a - b
    a, b = rng.randint(0, 9), rng.randint(0, 9)
    if rng.random() < 0.15:
        a, b = rng.randint(1, 25), 2
    if op == "*":
        return a, op, b, a * b
    b = max(b, 1)
    return a * b, op, b, a


def arithmetic(rng: Random, difficulty: float) -> Sample:
    """A single sum, difference, product or quotient."""
    a, op, b, c = fact(rng, round(20 + (LIMIT - 20) * difficulty))
    phrase = rng.choice(COMMANDS[op]) if rng.random() < 0.25 else rng.choice(PHRASES)
    question = phrase.format(a=a, b=b, op=op, word=SYMBOLS[op])
    return Sample("arithmetic", question, f"{a} {op} {b} = {c}")


def next_step(rng: Random, value: int) -> tuple[str, int, int]:
    """An operation that keeps ``value`` a whole number within the limit."""
    while True:
        op = rng.choices("+-*/", (42, 40, 12, 6))[0]
        if op == "+" and value < LIMIT:
            b = rng.randint(1, min(20, LIMIT - value))
            return op, b, value + b
        if op == "-" and value > 1:
            b = rng.randint(1, min(20, value))
            return op, b, value - b
        if op == "*" and 0 < value <= 25:
            b = rng.randint(2, 9) if value <= 9 else 2
            if value * b <= LIMIT:
                return op, b, value * b
        if op == "/" and value > 1:
            divisors = [d for d in range(2, 10) if value % d == 0 and value // d <= 9]
            if divisors:
                b = rng.choice(divisors)
                return op, b, value // b


VERBS = {"+": "add", "-": "subtract", "*": "multiply by", "/": "divide by"}
CHAINS = (
    ("Start with {x}, ", "{steps}", ", ", ". What is the result?"),
    ("Start at {x}, then ", "{steps}", ", then ", ". Where do you end?"),
    ("Take {x}. ", "{Steps}", ". ", ". What do you get?"),
)


def chain(rng: Random, difficulty: float) -> Sample:
    """Two to five operations in a row, each worked out on a line of its own."""
    x = value = rng.randint(1, round(15 + 15 * difficulty))
    steps, lines = [], []
    for _ in range(upto(rng, 2, 5, difficulty)):
        op, b, result = next_step(rng, value)
        steps.append(f"{VERBS[op]} {b}")
        lines.append(f"{value} {op} {b} = {result}")
        value = result
    head, style, joiner, tail = rng.choice(CHAINS)
    if style == "{Steps}":
        steps = [step.capitalize() for step in steps]
    question = head.format(x=x) + joiner.join(steps) + tail
    return Sample("chain", question, "\n".join([*lines, f"#### {value}"]))


def distinct(rng: Random, count: int, low: int = 0, high: int = 99) -> list[int]:
    """Numbers without repeats."""
    return rng.sample(range(low, high + 1), count)


def sort(rng: Random, difficulty: float) -> Sample:
    """Order three to seven numbers."""
    numbers = distinct(rng, upto(rng, 3, 7, difficulty))
    down = rng.random() < 0.4
    if down:
        phrase = rng.choice(("Sort in descending order: ", "Sort from largest to smallest: "))
    else:
        phrase = rng.choice(("Sort the numbers: ", "Sort in ascending order: ", "Sort: ",
                             "Sort from smallest to largest: "))  # fmt: skip
    answer = " ".join(map(str, sorted(numbers, reverse=down)))
    return Sample("sort", phrase + " ".join(map(str, numbers)), answer)


def minmax(rng: Random, difficulty: float) -> Sample:
    """Find the smallest or largest of a list."""
    numbers = distinct(rng, upto(rng, 2, 8, difficulty))
    largest = rng.random() < 0.5
    word = "largest" if largest else "smallest"
    phrase = rng.choice(("What is the {w} number in: ", "Find the {w} number: ",
                         "Which number is the {w}: "))  # fmt: skip
    value = max(numbers) if largest else min(numbers)
    question = phrase.format(w=word) + " ".join(map(str, numbers))
    return Sample("minmax", question, f"The {word} number is {value}.")


def compare(rng: Random, difficulty: float) -> Sample:
    """Say which of two numbers is larger or smaller, or whether a claim holds."""
    a, b = distinct(rng, 2, 0, round(50 + 49 * difficulty))
    if rng.random() < 0.5:
        larger = rng.random() < 0.5
        word = "larger" if larger else "smaller"
        value, other = (max(a, b), min(a, b)) if larger else (min(a, b), max(a, b))
        phrase = rng.choice(("Which is {w}, {a} or {b}?", "Which number is {w}: {a} or {b}?"))
        return Sample("compare", phrase.format(w=word, a=a, b=b), f"{value} is {word} than {other}.")
    sign = rng.choice("<>")
    word = "larger" if sign == ">" else "smaller"
    phrase = rng.choice(("Is {a} {w} than {b}?", "Is {a} {s} {b}?", "True or false: {a} {s} {b}"))
    true = a > b if sign == ">" else a < b
    relation = "larger" if a > b else "smaller"
    answer = f"{'Yes' if true else 'No'}, {a} is {relation} than {b}."
    return Sample("compare", phrase.format(w=word, s=sign, a=a, b=b), answer)


def count(rng: Random, difficulty: float) -> Sample:
    """Count up or down, by ones or by larger steps; the answer spans up to two blocks."""
    length = upto(rng, 3, 20, difficulty)
    step = rng.choices((1, 2, 3, 5, 10), (45, 25, 8, 14, 8))[0]
    length = min(length, 99 // step)
    low = rng.randint(0, 99 - step * (length - 1)) if step < 5 else step * rng.randint(0, 100 // step - length)
    numbers = list(range(low, low + step * length, step))[:length]
    down = rng.random() < 0.35
    if down:
        numbers.reverse()
    first, last = numbers[0], numbers[-1]
    if rng.random() < 0.2 and length > 4:
        head, tail = numbers[:3], numbers[3:]
        question = f"Continue with {len(tail)} more numbers: " + " ".join(map(str, head))
        return Sample("count", question, " ".join(map(str, tail)))
    question = rng.choice(("Count down from {f} to {l}", "Count backwards from {f} to {l}") if down else
                          ("Count from {f} to {l}", "Count up from {f} to {l}"))  # fmt: skip
    question = question.format(f=first, l=last)
    question += f" by {step}." if step > 1 else "."
    return Sample("count", question, " ".join(map(str, numbers)))


TABLES = (
    "Write the times table of {k} from {a} to {b}.", "Times table of {k}, from {a} to {b}.",
    "Show the table of {k} from {a} to {b}.", "Write the {k} times table from {a} to {b}.",
    "Multiply the numbers from {a} to {b} by {k}.", "Give me the times table of {k} from {a} to {b}.",
    "List the products of {k} from {a} to {b}.", "Recite the {k} times table from {a} to {b}.",
)  # fmt: skip


def table(rng: Random, difficulty: float) -> Sample:
    """Part of a times table, one product a line: up to 60 tokens."""
    k = rng.randint(1, 9)
    a = rng.choice((1, 1, rng.randint(1, 8)))
    b = min(10, a + upto(rng, 1, 9, difficulty))
    lines = [f"{i} * {k} = {i * k}" for i in range(a, b + 1)]
    return Sample("table", rng.choice(TABLES).format(k=k, a=a, b=b), "\n".join(lines))
