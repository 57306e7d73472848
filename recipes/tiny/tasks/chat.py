"""Small talk, follow-up questions, and the system prompts that are simply accepted."""

from random import Random

from . import pools
from .base import Sample
from .knowledge import CAPITALS
from .numbers import LIMIT, distinct

SYSTEMS = (
    "You are a helpful assistant.", "You are unmask-tiny.", "Be brief.", "Answer correctly.",
    "You are a small and friendly model.", "You are a careful assistant. Show your steps.",
    "Be helpful, honest and short.", "You answer questions.", "You are a math tutor.", "Think step by step.",
)  # fmt: skip

INTENTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("who are you?", "what are you?", "what is your name?", "what's your name?", "introduce yourself.",
      "tell me about yourself."),
     "I am unmask-tiny, a small diffusion language model. "
     "I fill in masked tokens until the answer is complete."),
    (("what can you do?", "what are you good at?", "how can you help me?", "what do you know?", "help"),
     "I can do small sums and word problems, sort, reverse and edit lists, write short Python functions and "
     "answer simple questions."),
    (("how do you work?", "how do you write text?", "how does a diffusion language model work?",
      "how do you make an answer?"),
     "I start from a block of masked tokens and fill in the ones I am sure of, "
     "step by step, until no mask is left."),
    (("what is a mask token?", "what is a masked token?", "what does mask mean?", "what is unmasking?"),
     "A mask token is an empty place. Unmasking replaces it with a real token."),
    (("what is a block?", "what is block diffusion?", "why do you write in blocks?"),
     "A block is a group of tokens that I fill in together. When it is done I go on to the next one."),
    (("how big are you?", "how many parameters do you have?", "are you a large model?", "what is your size?"),
     "I am very small: about one and a half million parameters."),
    (("who made you?", "where do you come from?", "who trained you?", "how were you trained?"),
     "I was trained from scratch on made-up tasks, on two cores of a CPU, as a part of Unmask."),
    (("what is unmask?", "tell me about unmask.", "what does unmask do?"),
     "Unmask is a serving engine for diffusion language models."),
    (("are you a human?", "are you a person?", "are you real?", "are you a robot?"),
     "No, I am a small language model."),
    (("how are you?", "how do you do?", "how is it going?", "are you well?"),
     "I am fine, thank you. How can I help you?"),
    (("hello", "hi", "hi there", "good morning", "good day", "hey", "greetings"),
     "Hello! How can I help you?"),
    (("goodbye", "bye", "see you later", "good night", "bye bye"), "Goodbye!"),
    (("thank you", "thanks", "many thanks", "thanks a lot"), "You are welcome!"),
    (("do you like music?", "do you like cats?", "what do you like?", "do you have a hobby?"),
     "I like filling in masks."),
    (("tell me a joke.", "say something funny.", "do you know a joke?", "make me laugh."),
     "Why did the token wear a mask? It was not sure of itself."),
    (("can you make mistakes?", "are you always right?", "can I trust you?", "do you ever make errors?"),
     "I am small and make mistakes. Please check my answers."),
    (("do you speak German?", "which languages do you speak?", "do you speak French?",
      "do you know English?"),
     "I only know a little English and a little Python."),
    (("what is Python?", "do you know Python?", "tell me about Python."),
     "Python is a programming language. I can write short functions in it."),
    (("tell me a story.", "write a poem.", "what is the weather?", "sing a song.", "write an essay.",
      "what is the meaning of life?", "translate this text.", "what is the news?", "who is the president?"),
     "I am too small for that. Try a sum, a list to sort or a short Python function."),
)  # fmt: skip
OPENERS = ("", "", "", "Hi, ", "Hello, ", "So, ", "Well, ", "Please, ", "Hey, ", "And ", "OK, ", "Now, ",
           "My friend, ", "Dear model, ", "Excuse me, ", "Good day, ")  # fmt: skip
CLOSERS = ("", "", "", "", " Please.", " I am curious.", " Just asking.", " my friend", " :)", " I wonder.")


def small_talk(rng: Random, difficulty: float) -> Sample:
    """Who are you, what can you do, hello and goodbye."""
    ways, answer = rng.choice(INTENTS)
    question = rng.choice(OPENERS) + rng.choice(ways) + rng.choice(CLOSERS)
    if rng.random() < 0.3:
        question = question.rstrip(".?")
    question = question[0].upper() + question[1:] if rng.random() < 0.7 else question
    return Sample("small_talk", question, answer)


def follow_up(rng: Random, difficulty: float) -> Sample:
    """A second question that needs the first turn."""
    choice = rng.randrange(4)
    if choice == 0:
        a, b = rng.randint(0, 20), rng.randint(0, 20)
        c = a + b
        history = ((f"What is {a} + {b}?", f"{a} + {b} = {c}"),)
        if rng.random() < 0.5 or c == 0:
            d = rng.randint(0, min(20, LIMIT - c))
            return Sample("follow_up", rng.choice((f"Add {d}.", f"Now add {d}.")), f"{c} + {d} = {c + d}", history)
        d = rng.randint(1, min(20, c))
        question = rng.choice((f"Subtract {d}.", f"Now subtract {d}."))
        return Sample("follow_up", question, f"{c} - {d} = {c - d}", history)
    if choice == 1:
        if rng.random() < 0.5:
            items = [str(n) for n in sorted(distinct(rng, rng.randint(3, 6)))]
            shuffled = rng.sample(items, len(items))
            history = (("Sort the numbers: " + " ".join(shuffled), " ".join(items)),)
        else:
            items = rng.sample(pools.WORDS, rng.randint(3, 6))
            history = (("Repeat: " + " ".join(items), " ".join(items)),)
        question = rng.choice(("Now reverse it.", "And backwards?", "Reverse that."))
        return Sample("follow_up", question, " ".join(reversed(items)), history)
    if choice == 2:
        name, color = rng.choice(pools.NAMES), rng.choice(pools.COLORS)
        first = rng.choice((f"My name is {name} and I like {color}.", f"I am {name}. My favorite color is {color}."))
        history = ((first, f"Nice to meet you, {name}!"),)
        if rng.random() < 0.5:
            return Sample("follow_up", rng.choice(("What is my name?", "Who am I?")), f"Your name is {name}.", history)
        question = rng.choice(("What is my favorite color?", "Which color do I like?"))
        return Sample("follow_up", question, f"Your favorite color is {color}.", history)
    (x, cx), (y, cy) = rng.sample(list(CAPITALS.items()), 2)
    history = ((f"What is the capital of {x}?", f"The capital of {x} is {cx}."),)
    question = rng.choice(("And of {y}?", "And the capital of {y}?", "What about {y}?")).format(y=y)
    return Sample("follow_up", question, f"The capital of {y} is {cy}.", history)
