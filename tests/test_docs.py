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


def test_the_embedded_model_answers_the_documented_questions():
    """Every example question of the page, and those of the README, get the right answer."""
    page = (DOCS / "embedded-model.md").read_text().split("| question | kind |")[1].split("\n\n")[0]
    questions = [line.split("|")[1].strip() for line in page.splitlines() if line.count("|") == 3][1:]
    answers = {
        "What is 7 + 8?": "7 + 8 = 15",
        "What is 6 times 7?": "6 * 7 = 42",
        "Start with 9, add 12, subtract 5. What is the result?": "9 + 12 = 21\n21 - 5 = 16\n#### 16",
        "Gina has 12 marbles. Bob has 4 more marbles than Gina. How many marbles do they have together?": (
            "Bob has 12 + 4 = 16 marbles.\nTogether they have 12 + 16 = 28 marbles.\n#### 28"
        ),
        "Sort in ascending order: 31 4 17 8": "4 8 17 31",
        "Count from 1 to 15.": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15",
        "Which is larger, 12 or 9?": "12 is larger than 9.",
        "Spell: ocean": "o-c-e-a-n",
        "Add duck to the end of: cloud chair dragon tiger": "cloud chair dragon tiger duck",
        "Write a Python function add(x) that returns x plus 7.": "def add(x):\n    return x + 7",
        "Emma is a writer. Carl lives in Athens. What is the job of Emma?": "Emma is a writer.",
        "Which day comes after Wednesday?": "Thursday comes after Wednesday.",
        "Who are you?": (
            "I am unmask-tiny, a small diffusion language model. I fill in masked tokens until the answer is complete."
        ),
    }
    assert questions == list(answers)
    llm = unmask.LLM(device="cpu", threads=1)
    assert [answer.text for answer in llm.generate(questions)] == list(answers.values())
