"""What an answer consists of, and how it is read, as each model writes it, out of text that comes in pieces.

``parts`` are what is found, ``syntax`` says what a model's markers are, ``parser`` puts text through it, ``formats``
know what stands between the markers of a tool call, ``tools`` are what a request offers. No input or output, no clock.
"""
