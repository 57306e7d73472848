"""Where the clients live: environments beside ours, each with the versions that it was made with.

Two major versions of one library cannot share an environment, and none of them shall meet what the server runs on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENTS = Path(os.environ.get("UNMASK_CLIENTS", ROOT / ".clients"))


@dataclass(frozen=True)
class Environment:
    """Packages installed together. ``slow`` ones serve slow tests only, and are made when asked for by name."""

    name: str
    packages: tuple[str, ...]
    node: bool = False
    slow: bool = False

    @property
    def home(self) -> Path:
        return CLIENTS / self.name

    @property
    def wanted(self) -> str:
        """What the stamp of a complete installation says."""
        return "\n".join(self.packages)

    @property
    def made(self) -> bool:
        stamp = self.home / "installed.txt"
        return stamp.is_file() and stamp.read_text() == self.wanted

    def program(self, name: str) -> str:
        """A command that the packages brought along."""
        return str(self.home / "bin" / name)

    def require(self) -> None:
        """Skip the test that asks where this environment is missing; fail it where CI says that none may be."""
        if self.made:
            return
        reason = f"no {self.home}; python -m tests.conformance.install {self.name} makes it"
        if "UNMASK_REQUIRE_CLIENTS" in os.environ and not self.slow:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


OLD = Environment("old", ("openai==1.109.1", "anthropic==0.69.0", "ollama==0.5.4"))
NEW = Environment(
    "new",
    (
        "openai==3.57.0",
        "anthropic==2.14.0",
        "ollama==0.6.3",
        "langchain-tests==1.1.9",
        "langchain-openai==1.7.4",
        "langchain-anthropic==1.7.10",
        "langchain-ollama==1.1.0",
        "schemathesis==4.32.0",
    ),
)
NODE = Environment(
    "node",
    (
        "openai@6.49.0",
        "@anthropic-ai/sdk@1.14.0",
        "ollama@0.6.4",
        "ai@6.0.326",
        "@ai-sdk/openai-compatible@2.0.92",
    ),
    node=True,
)
LLM = Environment("llm", ("llm==0.36",), slow=True)
LITELLM = Environment("litellm", ("litellm==1.110.2",), slow=True)
AIDER = Environment("aider", ("aider-chat==0.86.2",), slow=True)
LM_EVAL = Environment("lm-eval", ("lm-eval[api]==0.4.13",), slow=True)

ENVIRONMENTS = {one.name: one for one in (OLD, NEW, NODE, LLM, LITELLM, AIDER, LM_EVAL)}
