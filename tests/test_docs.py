"""Documentation that cannot lie: names, codes and versions in the pages are those of the code."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
import typer.main

import unmask
from tests.infos import model_info
from unmask.checkpoints.byte_level import WORD_RULES
from unmask.checkpoints.gguf_header import TENSOR_TYPES
from unmask.checkpoints.gguf_tokenizer import _KINDS
from unmask.checkpoints.gguf_weights import _PLAIN, _expands
from unmask.cli.app import app
from unmask.engine.options import EngineOptions
from unmask.errors import UnmaskError
from unmask.models.gguf_config import _CONVERTERS
from unmask.models.lora import _PLAIN as PLAIN_ADAPTERS
from unmask.models.registry import FAMILIES
from unmask.models.samplers import D2F, FULL, Sampler
from unmask.params import CACHES, END_TOKENS, RULE_TRAITS, SCORES, GenerationParams, ModelInfo
from unmask.resolve import resolve
from unmask.serving.dialects.openai_common.models import _card
from unmask.serving.listing import Listing

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROWS = list({id(family): family for family in FAMILIES.values()}.values())
NAMES = list(dict.fromkeys(family.name for family in ROWS))


def code(*names: str) -> str:
    """``names`` as a page writes them."""
    return ", ".join(f"`{name}`" for name in names)


def table(head: str, rows: list[list[str]]) -> str:
    """A table as a page has it."""
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def cells_under(page: str, head: str) -> list[list[str]]:
    """The cells of the table on ``page`` whose head begins with ``head``."""
    assert f"| {head} |" in page, head
    lines = page.split(f"| {head} |")[1].splitlines()[2:]
    body = lines[: next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    assert body
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body]


def quoted(text: str) -> list[str]:
    """What stands between backticks in ``text``."""
    return re.findall(r"`([^`]+)`", text)


def error_table() -> str:
    """The catalogue as ``docs/errors.md`` shows it."""
    rows = [[f"`{kind.code}`", str(kind.status), inspect.getdoc(kind) or ""] for kind in UnmaskError.__subclasses__()]
    return table("code | HTTP | when", rows)


def info_of(sampler: Sampler) -> ModelInfo:
    """A model that is decoded as ``sampler`` says."""
    names = ("attention", "denoiser", "anchor", "rules", "caches", "block_length", "max_tokens")
    own = {name: getattr(sampler, name) for name in names}
    mask_id = None if sampler.denoiser == "renoise" else 9
    return model_info(**own, defaults=dict(sampler.defaults), mask_id=mask_id, context_length=4096)


def decoding_row(name: str, sampler: Sampler, shifted: str) -> list[str]:
    """How a family is decoded when a request says nothing."""
    params = resolve(GenerationParams(), info_of(sampler), 1)
    applied = params.applied()
    said = [
        name for name in RULE_TRAITS[params.rule].options if name != "steps" or applied["steps"] != params.block_length
    ]
    said += [name for name in ("sub_block_length", "temperature", "early_exit") if applied.get(name)]
    values = [f"`{name}` {str(applied[name]).lower().removesuffix('.0')}" for name in said]
    return [
        name,
        {"full": "full", "block_causal": "block by block", "causal_prompt": "causal, the canvas full"}[
            sampler.attention
        ],
        {"prompt_end": "the prompt's end", "start": "position 0"}[sampler.anchor],
        f"`{sampler.block_key}`, else {sampler.block_length}",
        shifted,
        f"`{params.rule}`",
        ", ".join(values) or "-",
        str(params.max_tokens),
    ]


def decoding_table() -> str:
    """How the families are decoded, as ``docs/models.md`` shows it."""
    families = {family.name: family for family in ROWS}
    rows = [
        decoding_row(f"`{name}`", family.sampler, "yes" if family.shifted else "no")
        for name, family in families.items()
    ]
    rows.append(decoding_row("made block-causal", D2F, "as before"))
    head = "family | attention | blocks start at | `block_length` | shifted | rule | its options | `max_tokens`"
    return table(head, rows)


def token_list() -> str:
    """Which tokens the families look for, as ``docs/models.md`` shows it."""
    lines = []
    for family in {family.name: family for family in ROWS}.values():
        if family.mask_id is not None:
            masks, ends = code(*family.mask_tokens), code(*family.end_tokens)
            lines.append(f"- `{family.name}`: mask {masks}, else {family.mask_id}; end {ends}")
    return "\n".join(lines)


def rule_table() -> str:
    """Who offers which rules and caches, as ``docs/decoding.md`` shows it."""
    groups: dict[int, tuple[Sampler, list[str]]] = {}
    for family in ROWS:
        names = groups.setdefault(id(family.sampler), (family.sampler, []))[1]
        names += [family.name] * (family.name not in names)
    rows = []
    for sampler, names in groups.values():
        rows.append([code(*names), code(*sampler.rules), code(*sampler.caches)])
        if sampler is FULL:
            rows.append(["the same, made block-causal", code(*D2F.rules), code(*D2F.caches)])
    return table("models | rules | caches", rows)


def test_the_page_on_models_knows_every_family():
    page = (DOCS / "models.md").read_text()
    for generated in (decoding_table(), token_list()):
        assert generated in page, f"docs/models.md must hold this table:\n{generated}"


def test_the_page_on_models_names_every_architecture():
    rows = cells_under((DOCS / "models.md").read_text(), "family | models | in `config.json` | in GGUF files")
    assert [quoted(name) for name, *_ in rows] == [[name] for name in NAMES]
    listed = {architecture for _, _, architectures, _ in rows for architecture in quoted(architectures)}
    for name, _, architectures, _ in rows:
        ours = [family.architectures for family in ROWS if family.name == quoted(name)[0]]
        assert tuple(quoted(architectures)) == sum(ours, ())
    assert listed == set(FAMILIES)
    assert {kind for *_, kinds in rows for kind in quoted(kinds)} == set(_CONVERTERS)


def test_the_page_on_models_names_what_gguf_files_may_hold():
    page = (DOCS / "models.md").read_text()
    rows = {name: quoted(values) for name, values in cells_under(page, "in a GGUF file | what Unmask reads")}
    assert rows["tensor types"] == [name for name, *_ in TENSOR_TYPES.values() if name in _PLAIN or _expands(name)]
    assert rows["tokenizers (`tokenizer.ggml.model`)"] == list(_KINDS)
    assert rows["rules that cut words (`tokenizer.ggml.pre`)"] == list(WORD_RULES)


def test_what_adapters_may_not_be():
    page = (DOCS / "models.md").read_text()
    refused = page.split("if its `adapter_config.json` sets one of")[1].split(" to something")[0]
    assert set(quoted(refused)) == set(PLAIN_ADAPTERS)


def test_error_codes_named_elsewhere_are_those_of_the_catalogue():
    page = (DOCS / "models.md").read_text()
    codes = {kind.code for kind in UnmaskError.__subclasses__()}
    named = [name for _, cell in cells_under(page, "what is refused | code") for name in quoted(cell)]
    assert named
    assert [name for name in named if name not in codes] == []


def test_the_page_on_decoding_knows_who_offers_which_rule():
    page = (DOCS / "decoding.md").read_text()
    assert rule_table() in page, f"docs/decoding.md must hold this table:\n{rule_table()}"


def test_every_rule_is_documented_with_its_options():
    rows = cells_under((DOCS / "decoding.md").read_text(), "rule | reads | commits in a forward | source")
    assert {quoted(rule)[0]: tuple(quoted(reads)) for rule, reads, *_ in rows} == {
        rule: traits.options for rule, traits in RULE_TRAITS.items()
    }


def test_the_own_defaults_of_rules_are_documented():
    """In the rule's row, or in the option's."""
    page = (DOCS / "decoding.md").read_text()
    rows = page.splitlines()
    for rule, traits in RULE_TRAITS.items():
        for name, value in traits.defaults.items():
            told = [row for row in rows if f"`{rule}`" in row and f"`{name}`" in row and str(value) in row]
            assert told or (name, value) == ("threshold", 0.9), (rule, name, value)


def test_every_choice_is_documented():
    page = (DOCS / "decoding.md").read_text()
    assert [name for name in SCORES if f"`{name}`" not in page] == []
    assert {name for name in quoted(page.split("## Caches")[1]) if name in CACHES} == set(CACHES)
    assert [name for name in END_TOKENS if f"`{name}`" not in page] == []


def test_documented_defaults_are_in_force():
    """Those that hold where a family has none of its own."""
    own = {(rule, name) for rule, traits in RULE_TRAITS.items() for name in traits.defaults}
    readers = {name: rule for rule, traits in RULE_TRAITS.items() for name in traits.options if (rule, name) not in own}
    for keys, default, _ in cells_under((DOCS / "decoding.md").read_text(), "key | default | meaning"):
        for name, value in zip(quoted(keys), default.split(", "), strict=True):
            if name in ("rule", "block_length", "steps", "cache", "canvas"):
                continue  # the model's
            rule = readers.get(name, "threshold")
            kind = {"sub_block_length": "sub_block", "refresh_interval": "full"}.get(name, "block_causal")
            info = model_info(kind, rules=(rule,), defaults={}, block_length=32, context_length=64)
            cache = "delayed" if name == "refresh_interval" else None
            params = resolve(GenerationParams(rule=rule, cache=cache), info, 1)
            assert str(getattr(params, name)).lower().removesuffix(".0") == value.strip("`"), name


def test_every_option_named_anywhere_exists():
    """Command-line options in the pages and the README are those of a command, or of a script that the line names."""
    root = typer.main.get_command(app)
    commands = [root, *root.commands.values()]
    commands += [sub for command in commands for sub in getattr(command, "commands", {}).values()]
    parameters = [parameter for command in commands for parameter in command.params]
    known = {option for parameter in parameters for option in [*parameter.opts, *parameter.secondary_opts]}
    known |= {"--help", "--flash-attn"}  # the latter is llama-server's, an example of flags that are passed on
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        for line in page.read_text().splitlines():
            named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line.partition("-m pytest")[0]))
            scripts = re.findall(r"(?:python|-m) ((?:benchmarks|recipes)[\w./]+)", line)
            for script in scripts:
                path = ROOT / (script if script.endswith(".py") else script.replace(".", "/") + ".py")
                named -= set(re.findall(r'"(--[a-z-]+)"', path.read_text()))
            assert named <= known, f"{page.name}: {line}"


def test_every_value_named_anywhere_exists():
    """Rules, caches and the like, wherever a page gives one to an option, as JSON, in Python or on a command line."""
    allowed = {"rule": RULE_TRAITS, "cache": CACHES, "end_tokens": END_TOKENS}
    found = set()
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text()
        given = re.findall(r'\b(rule|cache|end_tokens)"?(?:: |=)"(\w+)"', text)
        for name, value in [*given, *re.findall(r"--(rule) (\w+)", text)]:
            assert value in allowed[name], f"{page.name}: {name} {value}"
            found.add(name)
    assert found == set(allowed)


def test_every_link_between_pages_leads_somewhere():
    pages = {page: page.read_text() for page in [ROOT / "README.md", *DOCS.rglob("*.md")]}
    for page, text in pages.items():
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            assert there.exists(), f"{page.name}: {target}"
            if anchor:
                heads = re.findall(r"^#+ (.+)$", pages[there], re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", head).lower().strip().replace(" ", "-") for head in heads}
                assert anchor in slugs, f"{page.name}: {target}"


def test_every_option_of_an_engine_is_documented_for_python():
    page = (DOCS / "python.md").read_text()
    options = [name for name in EngineOptions.__dataclass_fields__ if name != "model"]
    assert [name for name in options if f"`{name}`" not in page] == []


def test_what_is_told_of_a_model_is_documented():
    listing = Listing(name="m", created=0, lane="unmask", paradigm="diffusion", family="llada", info=model_info())
    rows = cells_under((DOCS / "http-api.md").read_text(), "key of a model | meaning")
    card = _card(listing)
    told = [*(name for name in card if name != "unmask"), *(f"unmask.{name}" for name in card["unmask"])]
    assert [name for keys, _ in rows for name in quoted(keys)] == told


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
    rooms = set(re.findall(r"`(\w+)/`", page))
    assert [room for room in rooms if not (ROOT / "src" / "unmask" / room / "__init__.py").is_file()] == []
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    records = set(re.findall(r"`([A-Z]\w+?)s?`", page))
    assert [record for record in records if not re.search(rf"class {record}s?\b", source)] == []


@pytest.mark.parametrize("room", ["engine", "decoding"])
def test_a_room_says_what_each_of_its_files_is_about(room):
    path = ROOT / "src" / "unmask" / room
    said = re.findall(r"``(\w+)``", import_module(f"unmask.{room}").__doc__ or "")
    assert sorted(said) == sorted(file.stem for file in path.glob("*.py") if file.stem != "__init__")


def test_every_decoding_option_is_documented():
    page = (DOCS / "decoding.md").read_text()
    names = {name for name in GenerationParams.__dataclass_fields__ if name != "frames"}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []
    keys = {name for keys, *_ in cells_under(page, "key | default | meaning") for name in quoted(keys)}
    assert keys - names == {"canvas"}


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
