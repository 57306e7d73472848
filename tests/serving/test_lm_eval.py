"""lm-evaluation-harness itself against a live server: log-likelihood tasks, offline, each number checked.

It runs where there is one: ``lm_eval`` on the path, or what ``UNMASK_LM_EVAL`` names. With transformers beside it, the
chat template is applied too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.test_scoring import slow_scores
from tests.engines import make_loop
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint
from unmask.checkpoints.prompts import PromptEncoder

LM_EVAL = os.environ.get("UNMASK_LM_EVAL") or shutil.which("lm_eval")
TASKS = Path(__file__).parents[1] / "data" / "lm_eval"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(LM_EVAL is None, reason="no lm_eval; set UNMASK_LM_EVAL"),
]


@pytest.fixture(scope="module")
def loop():
    """The embedded model, for forwards of its own."""
    return make_loop(EMBEDDED_MODEL)


@pytest.fixture(scope="module")
def tokenizer(loop):
    return PromptEncoder(EMBEDDED_MODEL, loop.model).tokenizer


def evaluate(server, folder, *tasks, arguments=(), **model):
    """The results of ``tasks``, and what was said of each request: its arguments, and its responses."""
    model = {"model": "unmask-tiny", "base_url": f"{server.url}/v1/completions", "max_length": 1024, **model}
    said = ",".join(f"{name}={value}" for name, value in model.items())
    command = [LM_EVAL, "run", "--model", "local-completions", "--model_args", said, "--tasks", ",".join(tasks)]
    command += ["--include_path", ".", "--output_path", str(folder), "--log_samples", *arguments]
    environment = {**os.environ, "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    environment.pop("PYTHONPATH", None)
    run = subprocess.run(command, cwd=TASKS, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    (results,) = folder.glob("*/results_*.json")
    samples = []
    for path in sorted(folder.glob("*/samples_*.jsonl")):
        for sample in map(json.loads, path.read_text().splitlines()):
            pairs = zip(sample["arguments"].values(), sample["resps"], strict=True)
            samples += [(asked, answer) for asked, (answer,) in pairs]
    return json.loads(results.read_text())["results"], samples


def check(samples, loop, encode):
    """Each number is the chain rule's, by a forward for each token."""
    assert samples
    for asked, (likelihood, greedy) in samples:
        context = encode(asked["arg_0"])
        ending = encode(asked["arg_0"] + asked["arg_1"])[len(context) :]  # as the harness cuts it
        slow = slow_scores(loop, context + ending, 1, block_length=loop.model.block_length)[len(context) - 1 :]
        assert float(likelihood) == pytest.approx(sum(chosen for chosen, _ in slow), abs=2e-3)
        assert (greedy in (True, "True")) == all(chosen == best[0] for chosen, best in slow)


@pytest.mark.parametrize("tokenized", [True, False])
def test_plain_text_with_our_tokenizer_endpoints(server, loop, tokenizer, tmp_path, tokenized):
    results, samples = evaluate(
        server, tmp_path, "unmask_choices", "unmask_endings",
        tokenizer_backend="remote", num_concurrent=4, tokenized_requests=tokenized,
    )  # fmt: skip
    check(samples, loop, tokenizer.encode_text)
    assert {"unmask_choices", "unmask_endings"} <= {*results}


def test_whole_texts_are_scored(server, loop, tokenizer, tmp_path):
    """Rolling windows, each behind a token that the harness is told."""
    begin = tokenizer.specials[tokenizer.special_text("bos_token")]
    results, samples = evaluate(
        server, tmp_path, "unmask_texts", tokenizer_backend="remote", custom_prefix_token_id=begin
    )
    for asked, answer in samples:
        ids = [begin, *tokenizer.encode_text(asked["arg_0"])]
        expected = sum(chosen for chosen, _ in slow_scores(loop, ids, 1, block_length=loop.model.block_length))
        assert float(answer[0] if isinstance(answer, list) else answer) == pytest.approx(expected, abs=2e-3)
    assert results["unmask_texts"]["bits_per_byte,none"] > 0


def test_chats_with_the_checkpoints_own_tokenizer(server, loop, tokenizer, tmp_path):
    """Special tokens of the template become ids on the harness' side; the embedded model knows the answers then."""
    if subprocess.run([Path(LM_EVAL).with_name("python"), "-c", "import transformers"], capture_output=True).returncode:
        pytest.skip("no transformers beside lm_eval")
    path = open_checkpoint(EMBEDDED_MODEL).path
    results, samples = evaluate(
        server, tmp_path, "unmask_choices", "unmask_endings", arguments=["--apply_chat_template"],
        tokenizer_backend="huggingface", tokenizer=path, num_concurrent=4,
    )  # fmt: skip
    check(samples, loop, lambda text: tokenizer.encode_rendered(text, tokenizer.guard([])))
    assert results["unmask_choices"]["acc,none"] >= 0.75
    assert results["unmask_endings"]["acc,none"] >= 0.75
