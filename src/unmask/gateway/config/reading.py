"""Reading a configuration file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

from unmask.errors import InvalidConfigError
from unmask.gateway.config.config import Config
from unmask.gateway.config.document import MOST_DEPTH, Document
from unmask.gateway.config.making import make_config
from unmask.gateway.config.yaml_text import read_yaml
from unmask.shown import cut, shown

MOST_BYTES = 256 * 2**10


def read_config(path: Path) -> Config:
    """What the file ``path`` says: YAML, or TOML if its name ends in ``.toml``.

    Raises ``InvalidConfigError``, which names the key at fault and, of YAML, its line.
    """
    document = _document(path)
    if document.value is None:
        document = replace(document, value={})
    if not isinstance(document.value, dict):
        raise document.fault((), "is no mapping.", hint="It begins with 'models:', or another key.")
    return make_config(document, Path(os.path.abspath(path)).parent)


def _document(path: Path) -> Document:
    file, text = str(path), _text(path)
    if path.suffix != ".toml":
        return read_yaml(text, file)
    try:
        return Document(tomllib.loads(text), file)
    except RecursionError:
        raise Document(None, file).fault((), f"lies over {MOST_DEPTH} levels deep.") from None
    except ValueError as error:
        raise Document(None, file).fault((), f"is not TOML: {cut(error)}.") from None


def _text(path: Path) -> str:
    if path.suffix not in (".yaml", ".yml", ".toml"):
        raise InvalidConfigError(
            f"The name of the configuration file {shown(str(path))} ends in none of .yaml, .yml and .toml.",
            hint="Its name says in which form it is written.",
        )
    try:
        if path.exists() and not path.is_file():
            raise Document(None, str(path)).fault((), "is not a regular file.")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise Document(None, str(path)).fault((), f"has over {MOST_BYTES >> 10} KiB.")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Document(None, str(path)).fault((), "is not UTF-8.") from None
    except (OSError, ValueError) as error:
        raise InvalidConfigError(
            f"The configuration file {shown(str(path))} cannot be read: {getattr(error, 'strerror', None) or error}.",
            hint="Give the path of a YAML or TOML file with --config, or set UNMASK_CONFIG.",
        ) from None
