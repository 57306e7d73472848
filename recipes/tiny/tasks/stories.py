"""Word problems with written steps, and facts stated in the prompt."""

from collections.abc import Callable
from random import Random

from . import pools
from .base import Sample, upto
from .numbers import LIMIT, next_step

Story = tuple[str, str] | None
"""A question and its worked answer, or nothing where the numbers drawn do not fit the limits."""


def more(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """One person has more or fewer than another: together?"""
    a, b = rng.randint(1, top), rng.randint(1, top)
    fewer = rng.random() < 0.4
    c = a - b if fewer else a + b
    op, word = ("-", "fewer") if fewer else ("+", "more")
    if c < 1 or a + c > LIMIT:
        return None
    return (
        f"{n} has {a} {t}. {m} has {b} {word} {t} than {n}. How many {t} do they have together?",
        f"{m} has {a} {op} {b} = {c} {t}.\nTogether they have {a} + {c} = {a + c} {t}.\n#### {a + c}",
    )


def trade(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Get some, give some away."""
    a, b, c = rng.randint(1, top), rng.randint(1, top), rng.randint(1, top)
    if a + b > LIMIT or c > a + b:
        return None
    verb = rng.choice(("buys", "finds", "gets"))
    return (
        f"{n} has {a} {t}. {n} {verb} {b} more and gives {c} to {m}. How many {t} does {n} have now?",
        f"{n} has {a} + {b} = {a + b} {t}.\nThen {a + b} - {c} = {a + b - c} are left.\n#### {a + b - c}",
    )


def boxes(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Some boxes of equal content, less some."""
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    if a * b > LIMIT:
        return None
    c = rng.randint(1, a * b)
    return (
        f"{n} has {a} boxes with {b} {t} in each box. {n} gives {c} {t} to {m}. How many {t} are left?",
        f"The boxes hold {a} * {b} = {a * b} {t}.\nThen {a * b} - {c} = {a * b - c} are left.\n#### {a * b - c}",
    )


def change(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Pay for several boxes."""
    a, k = rng.randint(2, 9), rng.randint(2, 9)
    if a * k >= LIMIT:
        return None
    paid = rng.randint(a * k + 1, LIMIT)
    return (
        f"One box of {t} costs {a} dollars. {n} buys {k} boxes and pays with {paid} dollars. "
        f"How much change does {n} get?",
        f"The boxes cost {k} * {a} = {k * a} dollars.\n"
        f"The change is {paid} - {k * a} = {paid - k * a} dollars.\n"
        f"#### {paid - k * a}",
    )


def share(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """An equal share, added to what was there."""
    k, each, b = rng.randint(2, 9), rng.randint(1, 9), rng.randint(1, top)
    if k * each > LIMIT or each + b > LIMIT:
        return None
    return (
        f"{n} shares {k * each} {t} equally among {k} friends. {m} is one of them and had {b} {t} before. "
        f"How many {t} does {m} have now?",
        f"Each friend gets {k * each} / {k} = {each} {t}.\n{m} has {b} + {each} = {b + each} {t}.\n#### {b + each}",
    )


def pages(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Two days of reading: what is left of the book?"""
    a, b = rng.randint(1, top), rng.randint(1, top)
    if a + b >= LIMIT:
        return None
    total = rng.randint(a + b + 1, LIMIT)
    first, second = rng.sample(pools.DAYS, 2)
    return (
        f"A book has {total} pages. {n} reads {a} pages on {first} and {b} pages on {second}. How many pages are left?",
        f"{n} reads {a} + {b} = {a + b} pages.\n"
        f"Then {total} - {a + b} = {total - a - b} are left.\n#### {total - a - b}",
    )


def ages(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Older or younger, some years later."""
    a, b, c = rng.randint(1, top), rng.randint(1, top), rng.randint(1, 20)
    older = rng.random() < 0.5
    now = a + b if older else a - b
    op, word = ("+", "older") if older else ("-", "younger")
    if now < 1 or now + c > LIMIT:
        return None
    return (
        f"{n} is {a} years old. {m} is {b} years {word}. How old will {m} be in {c} years?",
        f"{m} is {a} {op} {b} = {now} years old.\nIn {c} years {m} will be {now} + {c} = {now + c}.\n#### {now + c}",
    )


def twice(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """A multiple of what the other one has."""
    a, k = rng.randint(1, 9), rng.choice((2, 2, 3, 4))
    if a + k * a > LIMIT:
        return None
    word = {2: "twice", 3: "three times", 4: "four times"}[k]
    return (
        f"{n} has {a} {t}. {m} has {word} as many. How many {t} do they have together?",
        f"{m} has {a} * {k} = {a * k} {t}.\nTogether they have {a} + {a * k} = {a + a * k} {t}.\n#### {a + a * k}",
    )


def bus(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """People get off and on."""
    a, b, c = rng.randint(2, LIMIT), rng.randint(1, top), rng.randint(1, top)
    if b > a or a - b + c > LIMIT:
        return None
    return (
        f"There are {a} people on a bus. {b} people get off and {c} get on. How many people are on the bus now?",
        f"After the stop {a} - {b} = {a - b} people stay.\nThen {a - b} + {c} = {a - b + c} are on the bus.\n"
        f"#### {a - b + c}",
    )


def walk(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Equal days, and then some more."""
    a, k, b = rng.randint(2, 9), rng.randint(2, 7), rng.randint(1, top)
    if a * k + b > LIMIT:
        return None
    return (
        f"{n} walks {a} miles a day for {k} days and then {b} more miles. How many miles does {n} walk?",
        f"In {k} days {n} walks {a} * {k} = {a * k} miles.\n"
        f"In all {a * k} + {b} = {a * k + b} miles.\n#### {a * k + b}",
    )


def three(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Three people together."""
    a, b, c = rng.randint(1, top), rng.randint(1, top), rng.randint(1, top)
    if a + b + c > LIMIT:
        return None
    o = rng.choice([x for x in pools.NAMES if x not in (n, m)])
    return (
        f"{n} has {a} {t}, {m} has {b} and {o} has {c}. How many {t} do they have in all?",
        f"{n} and {m} have {a} + {b} = {a + b} {t}.\nWith {o} they have {a + b} + {c} = {a + b + c} {t}.\n"
        f"#### {a + b + c}",
    )


EVENTS = {"+": ("finds {b}", "buys {b}", "gets {b}"), "-": ("loses {b}", "sells {b}", "gives away {b}")}


def events(rng: Random, n: str, m: str, t: str, top: int) -> Story:
    """Two to four things happen one after another."""
    x = value = rng.randint(2, top)
    story, lines = [], []
    for _ in range(rng.randint(2, 4)):
        op, b, result = next_step(rng, value)
        if op not in EVENTS:
            return None
        story.append(rng.choice(EVENTS[op]).format(b=b))
        lines.append(f"{value} {op} {b} = {result}")
        value = result
    question = f"{n} has {x} {t}. {n} {', then '.join(story)}. How many {t} does {n} have at the end?"
    return question, "\n".join([*lines, f"#### {value}"])


Template = Callable[[Random, str, str, str, int], Story]
TEMPLATES: tuple[Template, ...] = (
    more, trade, boxes, change, share, pages, ages, twice, bus, walk, three, events,
)  # fmt: skip


def word_problem(rng: Random, difficulty: float) -> Sample:
    """A short story, the steps to its answer, and the answer after ``####``."""
    top = round(12 + 18 * difficulty)
    while True:
        n, m = rng.sample(pools.NAMES, 2)
        found = rng.choice(TEMPLATES)(rng, n, m, rng.choice(pools.THINGS), top)
        if found is not None:
            return Sample("word_problem", *found)


def facts(rng: Random, difficulty: float) -> Sample:
    """Read facts about a few people and answer a question about one of them."""
    size = upto(rng, 1, 4, difficulty)
    names = rng.sample(pools.NAMES, size)
    told = []
    for name in names:
        choice = rng.randrange(4)
        if choice == 0:
            job = rng.choice(pools.JOBS)
            told.append((f"{name} is a {job}.", f"What is the job of {name}?", f"{name} is a {job}."))
        elif choice == 1:
            city = rng.choice(pools.CITIES)
            told.append((f"{name} lives in {city}.", f"Where does {name} live?", f"{name} lives in {city}."))
        elif choice == 2:
            age = rng.randint(1, 99)
            told.append((f"{name} is {age} years old.", f"How old is {name}?", f"{name} is {age} years old."))
        else:
            color, animal = rng.choice(pools.COLORS), rng.choice(pools.ANIMALS)
            fact = f"{name} has a {color} {animal}."
            if rng.random() < 0.5:
                told.append((fact, f"What animal does {name} have?", f"{name} has a {animal}."))
            else:
                told.append((fact, f"What color is the {animal} of {name}?", f"The {animal} of {name} is {color}."))
    story = " ".join(fact for fact, _, _ in told)
    _, question, answer = rng.choice(told)
    return Sample("facts", f"{story} {question}", answer)
