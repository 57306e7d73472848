"""Engines beside our own: which of them serves a model, and why none does.

``lane`` says what an engine can serve, ``lanes`` which of them are known here, ``mainline`` what llama.cpp knows,
``routing`` is the one decision, ``teaching`` words its refusals, ``upstream`` names the work that would change them.
"""
