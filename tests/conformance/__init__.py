"""Software that nobody here wrote, against a live server: official clients, two versions of each, and others' suites.

`python -m tests.conformance.install` makes the environments that it runs in, under `.clients/`.
"""
