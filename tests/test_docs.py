"""Documentation that cannot lie: names, codes and versions in the pages are those of the code."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import unmask
from unmask.errors import UnmaskError
from unmask.params import GenerationParams

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def error_table() -> str:
    """The catalogue as ``docs/errors.md`` shows it."""
    lines = ["| code | HTTP | when |", "|---|---|---|"]
    lines += [f"| `{kind.code}` | {kind.status} | {inspect.getdoc(kind)} |" for kind in UnmaskError.__subclasses__()]
    return "\n".join(lines)


def test_the_error_page_is_the_catalogue():
    page = (DOCS / "errors.md").read_text()
    assert error_table() in page, f"docs/errors.md must hold this table:\n{error_table()}"


def test_every_record_on_the_walk_exists():
    page = (DOCS / "walk.md").read_text()
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", page))
    assert len(files) > 12
    assert [file for file in files if not (ROOT / "src" / "unmask" / file).is_file()] == []
    patterns = set(re.findall(r"`(serving/dialects/\*/\w+\.py)`", page))
    assert len(patterns) > 3
    assert [pattern for pattern in patterns if not list((ROOT / "src" / "unmask").glob(pattern))] == []
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    records = set(re.findall(r"`([A-Z]\w+?)s?`", page))
    assert [record for record in records if not re.search(rf"class {record}s?\b", source)] == []


def test_every_decoding_option_is_documented():
    page = (DOCS / "decoding.md").read_text()
    names = {name for name in GenerationParams.__dataclass_fields__ if name != "frames"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_versions_agree():
    project = (ROOT / "pyproject.toml").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f'version = "{unmask.__version__}"' in project
    assert newest
    assert newest.group(1) == unmask.__version__


@pytest.mark.parametrize("name", unmask.__all__)
def test_everything_promised_can_be_imported(name):
    assert getattr(unmask, name) is not None


def test_the_public_modules_have_docstrings():
    for path in (ROOT / "src" / "unmask").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        module = import_module(".".join(part for part in parts if part != "__init__"))
        assert module.__doc__, path


def test_source_files_are_small():
    """One idea per file: a reader finds it by its name."""
    long = [path for path in (ROOT / "src").rglob("*.py") if len(path.read_text().splitlines()) > 400]
    assert long == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "zensical.toml").read_text()
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in navigation] == []
