"""Configuration files for tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmask.errors import InvalidConfigError
from unmask.gateway.config.config import Config
from unmask.gateway.config.reading import read_config


def written(folder: Path, text: str, name: str = "unmask.yaml") -> Path:
    """A file of this text."""
    file = folder / name
    file.write_text(text)
    return file


def config(folder: Path, text: str, name: str = "unmask.yaml") -> Config:
    """What a file of this text says."""
    return read_config(written(folder, text, name))


def refusal(folder: Path, text: str, name: str = "unmask.yaml") -> InvalidConfigError:
    """What is said against a file of this text."""
    with pytest.raises(InvalidConfigError) as caught:
        config(folder, text, name)
    return caught.value
