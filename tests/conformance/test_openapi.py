"""Our own OpenAPI document, and requests drawn from it: nothing breaks, and no wrong one is taken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance.environments import NEW
from tests.conformance.http import get

CHECKS = (
    "not_a_server_error",
    "negative_data_rejection",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)

# A body that breaks the schema by its size is refused for its size.
SETTINGS = "[checks.negative_data_rejection]\nexpected-statuses = [400, 401, 403, 404, 405, 413]\n"


def draw(url: str, home: Path, *options: str) -> None:
    """Let schemathesis make requests of its own; what it finds is the failure's message."""
    NEW.require()
    (home / "schemathesis.toml").write_text(SETTINGS)
    command = [NEW.program("schemathesis"), "run", f"{url}/openapi.json", "--checks", ",".join(CHECKS), "--no-color"]
    found = subprocess.run([*command, "--request-timeout", "60", *options], cwd=home, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_drawn_requests(server, tmp_path):
    draw(server.url, tmp_path, "--phases", "fuzzing", "--max-examples", "5", "--seed", "1")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", ["2", "3"])
def test_many_drawn_requests(server, seed, tmp_path):
    draw(server.url, tmp_path, "--phases", "coverage,fuzzing", "--max-examples", "200", "--seed", seed)


def test_every_operation_tells_of_errors_and_its_answer(server):
    document = get(server.url, "/openapi.json").json()
    operations = {(path, method): one for path, each in document["paths"].items() for method, one in each.items()}
    assert ("/v1/chat/completions", "post") in operations
    for (path, _), operation in operations.items():
        answers = operation["responses"]
        assert "422" not in answers, path  # FastAPI's own, which is never sent
        told = [content.get("schema") or content.get("itemSchema") for content in answers["200"]["content"].values()]
        assert all(told) or path.endswith("/cancel"), path  # there is nothing to cancel, ever
        if path not in ("/health", "/ready", "/metrics"):
            assert "error" in answers["4XX"]["content"]["application/json"]["schema"]["properties"], path
