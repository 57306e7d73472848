"""Models of several kinds as files, and configurations that name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import gguf_files

# Of models whose tokens are bytes: what is said, line by line.
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def chatty(checkpoint: Path, target: Path) -> Path:
    """``checkpoint`` as the GGUF file ``target``, whose tokens are bytes, with a chat template."""
    config = json.loads((checkpoint / "config.json").read_text())
    vocabulary = gguf_files.byte_vocabulary(config) | {"tokenizer.chat_template": TEMPLATE}
    return gguf_files.convert(checkpoint, target, vocabulary=vocabulary)


def write_config(path: Path, models: dict[str, dict[str, Any]], **more: Any) -> Path:
    """A configuration file (JSON is YAML) that logs beside itself."""
    path.write_text(json.dumps({"models": models, "log_dir": str(path.parent / "run"), **more}))
    return path


def five(files: dict[str, str], far: str, **llama: Any) -> dict[str, dict[str, Any]]:
    """All kinds of models at once, as a configuration has them: llama.cpp's, of which ``llama`` is said besides, three
    of ours, and one elsewhere.
    """
    models: dict[str, dict[str, Any]] = {name: {"path": path} for name, path in files.items()}
    models["smol"] |= {"threads": 1, "context": 512, "aliases": ["gpt-4o-mini"], **llama}
    return models | {"far": {"url": far, "model": "moe"}}
