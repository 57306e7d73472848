"""Unmask: a serving engine for diffusion language models."""

__version__ = "0.1.0"
