"""Closed knowledge: a few hundred facts, each asked in many ways."""

from random import Random

from . import pools
from .base import Sample

CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Spain": "Madrid", "Italy": "Rome", "Portugal": "Lisbon",
    "Greece": "Athens", "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki",
    "Denmark": "Copenhagen", "Poland": "Warsaw", "Austria": "Vienna", "Hungary": "Budapest",
    "Ireland": "Dublin", "Belgium": "Brussels", "Switzerland": "Bern", "Japan": "Tokyo",
    "China": "Beijing", "India": "New Delhi", "Egypt": "Cairo", "Kenya": "Nairobi",
    "Canada": "Ottawa", "Cuba": "Havana", "Peru": "Lima", "Chile": "Santiago",
    "England": "London", "Turkey": "Ankara", "Iceland": "Reykjavik",
}  # fmt: skip
OPPOSITES = (
    ("hot", "cold"), ("big", "small"), ("fast", "slow"), ("up", "down"), ("day", "night"),
    ("open", "closed"), ("full", "empty"), ("early", "late"), ("old", "new"), ("hard", "soft"),
    ("light", "dark"), ("left", "right"), ("happy", "sad"), ("rich", "poor"), ("strong", "weak"),
    ("wet", "dry"), ("long", "short"), ("high", "low"), ("true", "false"), ("first", "last"),
    ("clean", "dirty"), ("loud", "quiet"), ("north", "south"), ("east", "west"), ("win", "lose"),
)  # fmt: skip
COLORS = {
    "the sky": "blue", "grass": "green", "snow": "white", "coal": "black", "a lemon": "yellow",
    "blood": "red", "an orange": "orange", "chocolate": "brown", "an elephant": "gray", "a flamingo": "pink",
}  # fmt: skip
YOUNG = {
    "dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb",
    "goat": "kid", "duck": "duckling", "lion": "cub", "frog": "tadpole", "hen": "chick",
}  # fmt: skip
SOUNDS = {
    "dog": "barks", "cat": "meows", "cow": "moos", "duck": "quacks", "sheep": "bleats",
    "lion": "roars", "frog": "croaks", "snake": "hisses", "bee": "buzzes", "pig": "oinks",
}  # fmt: skip
NUMBERS = {
    "days are in a week": "There are 7 days in a week.",
    "months are in a year": "There are 12 months in a year.",
    "hours are in a day": "There are 24 hours in a day.",
    "minutes are in an hour": "There are 60 minutes in an hour.",
    "seconds are in a minute": "There are 60 seconds in a minute.",
    "legs does a spider have": "A spider has 8 legs.",
    "legs does an insect have": "An insect has 6 legs.",
    "sides does a triangle have": "A triangle has 3 sides.",
    "sides does a square have": "A square has 4 sides.",
    "letters are in the alphabet": "There are 26 letters in the alphabet.",
}

OPENERS = (
    "", "", "", "Please tell me: ", "Tell me: ", "Quick question: ", "I want to know: ", "Can you tell me: ",
    "Question: ", "Do you know: ", "Hello. ", "Hi! ", "Please answer: ", "One more: ", "Now ",
)  # fmt: skip
CLOSERS = ("", "", "", " Please answer.", " Thanks.", " Answer in one sentence.", " I forgot.")


def dressed(rng: Random, question: str) -> str:
    """Put optional words around a question, so that one fact is asked in a hundred ways."""
    return rng.choice(OPENERS) + question + rng.choice(CLOSERS)


def capital(rng: Random) -> tuple[str, str]:
    """A country and its capital, either way round."""
    country, city = rng.choice(list(CAPITALS.items()))
    if rng.random() < 0.25:
        ask = rng.choice(("Which country has the capital {c}?", "{c} is the capital of which country?"))
        return ask.format(c=city), f"{city} is the capital of {country}."
    ask = rng.choice(("What is the capital of {c}?", "Name the capital of {c}.",
                      "Which city is the capital of {c}?", "The capital of {c}?"))  # fmt: skip
    return ask.format(c=country), f"The capital of {country} is {city}."


def opposite(rng: Random) -> tuple[str, str]:
    """A word and its opposite."""
    a, b = rng.choice(OPPOSITES)
    if rng.random() < 0.5:
        a, b = b, a
    ask = rng.choice(("What is the opposite of {a}?", "Name the opposite of {a}.", "The opposite of {a}?",
                      "Which word means the opposite of {a}?"))  # fmt: skip
    return ask.format(a=a), f"The opposite of {a} is {b}."


def calendar(rng: Random) -> tuple[str, str]:
    """The day or month before or after another."""
    ring, unit = rng.choice(((pools.DAYS, "day"), (pools.MONTHS, "month")))
    place = rng.randrange(len(ring))
    word = rng.choice(("after", "before"))
    found = ring[(place + (1 if word == "after" else -1)) % len(ring)]
    ask = rng.choice(("Which {u} comes {w} {d}?", "What {u} is {w} {d}?", "Name the {u} {w} {d}."))
    return ask.format(u=unit, w=word, d=ring[place]), f"{found} comes {word} {ring[place]}."


def attribute(rng: Random) -> tuple[str, str]:
    """A colour, a young animal, a sound, or a small count."""
    choice = rng.randrange(4)
    if choice == 0:
        thing, color = rng.choice(list(COLORS.items()))
        ask = rng.choice(("What color is {t}?", "Which color does {t} have?", "Name the color of {t}."))
        return ask.format(t=thing), f"{thing.capitalize()} is {color}."
    if choice == 1:
        animal, young = rng.choice(list(YOUNG.items()))
        ask = rng.choice(("What is a young {a} called?", "What do you call a young {a}?", "Name the young of a {a}."))
        return ask.format(a=animal), f"A young {animal} is called a {young}."
    if choice == 2:
        animal, sound = rng.choice(list(SOUNDS.items()))
        ask = rng.choice(("What sound does a {a} make?", "Which sound does a {a} make?", "What does a {a} do?"))
        return ask.format(a=animal), f"A {animal} {sound}."
    what, answer = rng.choice(list(NUMBERS.items()))
    return f"How many {what}?", answer


def knowledge(rng: Random, difficulty: float) -> Sample:
    """Capitals, opposites, the calendar, colours, animals, small counts."""
    found = rng.choices((capital, opposite, calendar, attribute), (30, 28, 22, 20))[0]
    question, answer = found(rng)
    return Sample("knowledge", dressed(rng, question), answer)
