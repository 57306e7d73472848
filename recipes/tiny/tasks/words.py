"""Tasks about lists of words and about letters."""

from random import Random

from . import pools
from .base import Sample, upto


def some(rng: Random, low: int, high: int, difficulty: float) -> list[str]:
    """A list of distinct words, names, colours, animals, letters or numbers."""
    size = upto(rng, low, high, difficulty)
    pool = rng.choices(
        (pools.WORDS, pools.NAMES + pools.ANIMALS + pools.COLORS, "abcdefghijklmnopqrstuvwxyz", range(100)),
        (50, 25, 12, 13),
    )[0]
    return [str(item) for item in rng.sample(pool, size)]


def copy(rng: Random, difficulty: float) -> Sample:
    """Say it again."""
    text = " ".join(some(rng, 2, 10, difficulty))
    phrase = rng.choice(("Repeat: ", "Copy this text: ", "Say this again: ", "Write exactly: "))
    return Sample("copy", phrase + text, text)


def reverse(rng: Random, difficulty: float) -> Sample:
    """Say it backwards, item by item."""
    items = some(rng, 2, 8, difficulty)
    phrase = rng.choice(("Reverse: ", "Reverse the list: ", "Write in reverse order: ", "Write backwards: "))
    return Sample("reverse", phrase + " ".join(items), " ".join(reversed(items)))


def edit(rng: Random, difficulty: float) -> Sample:
    """Change one thing in a list of words and keep the rest."""
    items = rng.sample(pools.WORDS, upto(rng, 3, 7, difficulty))
    new, old = rng.choice(pools.COLORS + pools.ANIMALS), rng.choice(items)
    text = " ".join(items)
    action = rng.randrange(6)
    if action == 0:
        return Sample("edit", f"Add {new} to the end of: {text}", f"{text} {new}")
    if action == 1:
        return Sample("edit", f"Put {new} in front of: {text}", f"{new} {text}")
    if action == 2:
        changed = [new if item == old else item for item in items]
        phrase = rng.choice(("Replace {o} with {n} in: ", "Change {o} to {n} in: ")).format(o=old, n=new)
        return Sample("edit", phrase + text, " ".join(changed))
    if action == 3:
        phrase = rng.choice(("Remove {o} from: ", "Delete {o} from: ")).format(o=old)
        return Sample("edit", phrase + text, " ".join(item for item in items if item != old))
    if action == 4:
        times = rng.randint(2, 5)
        return Sample("edit", f"Write {old} {new} {times} times.", " ".join([f"{old} {new}"] * times))
    first = rng.random() < 0.5
    phrase = f"Write only the {'first' if first else 'last'} word of: "
    return Sample("edit", phrase + text, items[0] if first else items[-1])


def letters(rng: Random, difficulty: float) -> Sample:
    """Spell, capitalise, take first letters, count letters."""
    action = rng.randrange(5)
    words = rng.sample(pools.WORDS, upto(rng, 1, 3, difficulty))
    if action == 0:
        phrase = rng.choice(("Spell: ", "Spell the text: ", "Spell out: "))
        return Sample("letters", phrase + " ".join(words), " ".join("-".join(word) for word in words))
    if action == 1:
        phrase = rng.choice(("Write in capital letters: ", "Make upper case: ", "Write in upper case: "))
        return Sample("letters", phrase + " ".join(words), " ".join(words).upper())
    if action == 2:
        words = rng.sample(pools.WORDS, upto(rng, 2, 6, difficulty))
        phrase = rng.choice(("Write the first letters of: ", "First letters of: "))
        return Sample("letters", phrase + " ".join(words), " ".join(word[0] for word in words))
    if action == 3:
        phrase = rng.choice(("How many letters are in: ", "Count the letters of: "))
        return Sample("letters", phrase + " ".join(words), "\n".join(f"{w} has {len(w)} letters." for w in words))
    phrase = rng.choice(("What letters do these words end with: ", "Last letters of: "))
    return Sample("letters", phrase + " ".join(words), " ".join(word[-1] for word in words))


def length(rng: Random, difficulty: float) -> Sample:
    """How long is a list, and what is in its n-th place."""
    items = some(rng, 2, 8, difficulty)
    text = " ".join(items)
    if rng.random() < 0.5:
        phrase = rng.choice(("How many items are in the list: ", "Count the items: "))
        return Sample("length", phrase + text, f"There are {len(items)} items.")
    place = rng.randrange(min(len(items), 5))
    word = ("first", "second", "third", "fourth", "fifth")[place]
    phrase = rng.choice(("What is the {w} item of: ", "Name the {w} item in: ")).format(w=word)
    return Sample("length", phrase + text, f"The {word} item is {items[place]}.")
