"""Programs that people use with a server of their own: each once, as its manual says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conformance.cases import MODEL, SUM
from tests.conformance.environments import AIDER, LITELLM, LLM, LM_EVAL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ANSWER = "7 + 8 = 15"
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def run(home: Path, *command: str, **variables: str) -> str:
    """What a program prints that ends well, in a home of its own."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own |= OFFLINE | {"HOME": str(home)} | variables
    done = subprocess.run(command, cwd=home, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("options", [[], ["--no-stream"]])
def test_llm(server, tmp_path, options):
    LLM.require()
    endpoint = ["openai", "endpoint", f"{server.url}/v1", "-m", MODEL, "-o", "temperature", "0", *options]
    assert ANSWER in run(tmp_path, LLM.program("llm"), *endpoint, SUM, LLM_USER_PATH=str(tmp_path))


LITELLM_SCRIPT = """
import litellm, sys
model, base, stream = sys.argv[1:]
answer = litellm.completion(
    model, [{"role": "user", "content": "What is 7 + 8?"}], api_base=base, api_key="none", temperature=0,
    max_tokens=40, stream=bool(stream),
)
pieces = [chunk.choices[0].delta.content or "" for chunk in answer] if stream else [answer.choices[0].message.content]
print("".join(pieces))
"""


@pytest.mark.parametrize("stream", ["", "stream"])
@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("openai", "/v1"),
        ("anthropic", ""),
        ("ollama_chat", ""),
    ],
)
def test_litellm(server, tmp_path, provider, path, stream):
    LITELLM.require()
    python = LITELLM.program("python")
    told = run(tmp_path, python, "-c", LITELLM_SCRIPT, f"{provider}/{MODEL}", server.url + path, stream)
    assert told.strip().endswith(ANSWER)


def test_aider(server, tmp_path):
    """It talks to the model, counts tokens, and ends well."""
    AIDER.require()
    run(tmp_path, "git", "init", "-q")
    (tmp_path / "hello.py").write_text('print("hello")\n')
    switches = ["--yes-always", "--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-git"]
    switches += ["--chat-mode", "ask"]  # what it says of edits is more than the embedded model can read
    command = [AIDER.program("aider"), "--model", f"openai/{MODEL}", *switches, "--message", SUM, "hello.py"]
    shown = run(tmp_path, *command, OPENAI_API_BASE=f"{server.url}/v1", OPENAI_API_KEY="none")
    assert "Tokens:" in shown, shown


TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n\\n"], max_gen_toks: 40, temperature: 0}
metric_list: [{metric: exact_match}]
"""


def test_lm_evaluation_harness(server, tmp_path):
    LM_EVAL.require()
    sums = [{"question": SUM, "answer": ANSWER}, {"question": "What is 6 times 7?", "answer": "6 * 7 = 42"}]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sums))
    (tmp_path / "sums.yaml").write_text(TASK)
    where = f"model={MODEL},base_url={server.url}/v1/chat/completions,num_concurrent=2"
    command = ["run", "--model", "local-chat-completions", "--model_args", where, "--apply_chat_template"]
    tasks = ["--tasks", "sums", "--include_path", ".", "--output_path", "out"]
    run(tmp_path, LM_EVAL.program("lm_eval"), *command, *tasks, OPENAI_API_KEY="none")
    (results,) = tmp_path.glob("out/**/results*.json")
    assert json.loads(results.read_text())["results"]["sums"]["exact_match,none"] == 1.0
