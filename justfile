# The verbs of this repository. `just` alone lists them.

python := env("PYTHON", ".venv/bin/python")

_default:
    @just --list

# The default test suite (minutes, on two cores)
test *arguments:
    {{python}} -m pytest {{arguments}}

# Make the environments of official clients and others' suites, which tests/conformance drives (half a minute, 300 MB)
clients *names:
    {{python}} -m tests.conformance.install {{names}}

# Style, types, and the floors of the house
lint:
    {{python}} -m ruff check .
    {{python}} -m ruff format --check .
    {{python}} -m mypy
    $(dirname {{python}})/lint-imports

# Rewrite code to style
format:
    {{python}} -m ruff check --fix .
    {{python}} -m ruff format .

# Build the documentation into site/
docs:
    $(dirname {{python}})/zensical build --clean

# What scheduling, sampling and bookkeeping cost beside the forwards
bench:
    {{python}} benchmarks/step_loop.py

# Train the embedded model anew (an hour or two on two cores; resumable)
train-tiny:
    {{python}} -m recipes.tiny.train --out runs/tiny
