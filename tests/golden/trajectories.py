"""The recorded trajectories of a family's reference samplers."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import GOLDEN


def recordings(family: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """All that is recorded of ``family``, and its cases by name; nothing where the recordings are not at hand."""
    file = GOLDEN / family / "trajectories.json"
    recorded = json.loads(file.read_text()) if file.is_file() else {"cases": []}
    return recorded, {case["name"]: case for case in recorded["cases"]}
