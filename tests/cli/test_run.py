"""`unmask run` and the top-level command, as processes."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import time

import pytest
from rich.console import Console

from tests.serving.fakes import MODEL
from tests.serving.processes import UNMASK, environment
from unmask import __version__
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.prompts import PromptEncoder
from unmask.cli.canvas_view import CanvasView
from unmask.cli.run import split_arguments


def unmask(*arguments: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end. Without ``stdin`` it reads from the null device."""
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(
        [UNMASK, *arguments], capture_output=True, text=True, timeout=60, env=environment() | variables, **given
    )


@pytest.fixture(scope="module")
def answered():
    return unmask("run", "What is 7 + 8?", "--threads", "1")


def test_one_answer_is_all_that_a_pipe_gets(answered):
    assert answered.returncode == 0
    assert answered.stdout.startswith("7 + 8 = ")
    assert len(answered.stdout.splitlines()) == 1
    assert answered.stderr == ""


def test_a_prompt_may_come_from_standard_input(answered):
    assert unmask("run", stdin="What is 7 + 8?\n").stdout == answered.stdout


@pytest.mark.parametrize("attempt", [0, *(pytest.param(again, marks=pytest.mark.slow) for again in (1, 2, 3))])
def test_a_tokenizer_that_cannot_be_used_ends_the_command(tmp_path, attempt):
    """It is found once the engine runs: nothing is left running, and nothing waits for it."""
    shutil.copytree(open_checkpoint(EMBEDDED_MODEL).path, tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text("{")
    begun = time.monotonic()
    done = unmask("run", str(tmp_path / "model"), "hi", "--threads", "1")
    assert done.returncode == 1
    assert "tokenizer.json" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begun < 20


def test_json_has_text_usage_and_report():
    options = ["--steps", "2", "--block-length", "8", "--temperature", "0.5", "--seed", "9", "--max-tokens", "6"]
    done = unmask("run", "--json", EMBEDDED_MODEL, "What is 7 + 8?", *options)
    answer = json.loads(done.stdout)
    assert set(answer) == {"model", "text", "finish_reason", "usage", "unmask"}
    assert answer["usage"]["completion_tokens"] <= 6
    applied = answer["unmask"]["applied"]
    assert (applied["rule"], applied["steps"], applied["block_length"]) == ("low_confidence", 2, 8)
    assert (applied["temperature"], applied["seed"], applied["max_tokens"]) == (0.5, 9, 6)


def test_options_come_from_the_environment_too():
    done = unmask("run", "hi", UNMASK_JSON="1", UNMASK_THRESHOLD="0.8", UNMASK_MAX_TOKENS="4")
    applied = json.loads(done.stdout)["unmask"]["applied"]
    assert (applied["threshold"], applied["max_tokens"]) == (0.8, 4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "/no/such/model", "hi"), "checkpoint_not_found"),
        (("run", "hi", "--rule", "magic"), "magic"),
        (("run", "hi", "--threshold", "3"), "threshold"),
        (("run", "hi", "--max-context", "64", "--max-tokens", "64"), "exceed the context"),
        (("run", ""), "PROMPT"),
        (("run",), "PROMPT"),
        (("run", "--json"), "PROMPT"),
        (("nonsense",), "nonsense"),
    ],
)
def test_errors_are_short_and_exit_codes_honest(command, arguments, words):
    done = command(*arguments)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_in_a_terminal_a_conversation_shows_text_and_cost():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [UNMASK, "run", "--threads", "1"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment() | {"TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    unread = ""

    def read_until(words: str) -> str:
        nonlocal unread
        deadline = time.monotonic() + 60
        while words not in unread:
            assert time.monotonic() < deadline, unread
            unread += os.read(ours, 4096).decode(errors="replace")
        seen, _, unread = unread.partition(words)
        return seen

    try:
        for question in (b"What is 7 + 8?\n", b"What is 2 + 2?\n"):
            read_until("> ")
            os.write(ours, question)
            seen = read_until("tokens per forward")
            assert f"{question[8:13].decode()} = " in seen
        read_until("> ")
        os.write(ours, b"\x04")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_the_canvas_shows_masks_dim_and_stops_at_the_end():
    tokenizer = PromptEncoder(EMBEDDED_MODEL, MODEL).tokenizer
    view = CanvasView(tokenizer, MODEL.end_ids, Console(file=io.StringIO()))
    hello = tokenizer.encode_text("hello")
    text = view.render([*hello, MODEL.mask_id, MODEL.mask_id, MODEL.end_ids[0], *hello])
    assert text.plain == "hello\u2591\u2591"
    assert {str(span.style) for span in text.spans} == {"bold", "dim"}


@pytest.mark.parametrize(
    ("first", "second", "split"),
    [
        (None, None, (EMBEDDED_MODEL, None)),
        ("why? " * 1000, None, (EMBEDDED_MODEL, "why? " * 1000)),
        (EMBEDDED_MODEL, None, (EMBEDDED_MODEL, None)),
        ("What is 7 + 8?", None, (EMBEDDED_MODEL, "What is 7 + 8?")),
        ("/tmp", None, ("/tmp", None)),
        ("./typo", None, ("./typo", None)),
        ("some/model", "hi", ("some/model", "hi")),
    ],
)
def test_a_lone_argument_is_a_model_or_a_prompt(first, second, split):
    assert split_arguments(first, second) == split


def test_version_and_help_are_quick():
    begun = time.perf_counter()
    assert unmask("--version").stdout == f"unmask {__version__}\n"
    assert "serve" in unmask("--help").stdout
    assert time.perf_counter() - begun < 4.0  # well under one import of torch each


def test_help_loads_no_torch():
    code = "import sys; sys.argv = ['unmask', '--help']\ntry:\n    from unmask.cli.main import main; main()\n"
    code += "except SystemExit:\n    print('torch' in sys.modules, 'fastapi' in sys.modules)"
    done = subprocess.run([UNMASK.replace("unmask", "python"), "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False False"
