"""Software that nobody here wrote, against a live server: official clients in two major versions, and the suites of others.

`python -m tests.conformance.install` makes the environments that it runs in, under `.clients/`.
"""
