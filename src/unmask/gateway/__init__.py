"""Engines beside our own: which of them serves a model, and why none does; how they are started, watched and asked.

``lane`` says what an engine can serve, ``lanes`` which of them are known here, ``mainline`` what llama.cpp knows,
``routing`` is the one decision, ``teaching`` words its refusals, ``tracked`` names the work that would change them.
"""
