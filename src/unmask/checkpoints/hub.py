"""Models of the Hugging Face hub: found in the local cache, or downloaded into it.

The cache is laid out as ``models--org--name/refs/<revision>``, a file with a commit, and
``models--org--name/snapshots/<commit>``, the directory of the model. Finding one there needs no library.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import CheckpointNotFoundError

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
_ID = re.compile(rf"(?P<repo>{_NAME}/{_NAME})(@(?P<revision>[\w-][\w.-]*(/[\w-][\w.-]*)*))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LONGEST_REF = 200  # bytes; a commit has 40

# All that Unmask reads, and nothing that could run. Subdirectories hold other formats of the same model.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "merges.txt"]
_UNWANTED = ["*/*"]
_TIMEOUT = 5.0  # seconds to reach the hub


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model's id on the hub, ``org/name``, and the branch, tag or commit of it."""

    repo: str
    revision: str = "main"

    @classmethod
    def parse(cls, text: str) -> HubModel | None:
        """``org/name`` or ``org/name@revision``; ``None`` if ``text`` is neither."""
        found = _ID.fullmatch(text)
        return cls(found["repo"], found["revision"] or "main") if found else None

    def cached(self) -> Path | None:
        """The model's directory in the cache, which may lack files; ``None`` if there is none."""
        folder = cache_directory() / f"models--{self.repo.replace('/', '--')}"
        commit = self.revision if _COMMIT.fullmatch(self.revision) else _read_ref(folder / "refs" / self.revision)
        snapshot = folder / "snapshots" / commit
        return snapshot if commit and snapshot.is_dir() else None

    def download(self) -> Path:
        """The model's directory in the cache, with all files of the hub's that Unmask reads.

        Raises ``CheckpointNotFoundError`` if the hub is not reached within seconds, or does not have the model.
        """
        if _offline():
            raise self.not_found("HF_HUB_OFFLINE forbids to download it")
        from huggingface_hub import HfApi, snapshot_download

        try:
            # Asked first because a download that gets no answer tries again for minutes.
            HfApi().model_info(self.repo, revision=self.revision, timeout=_TIMEOUT)
            return Path(
                snapshot_download(
                    self.repo,
                    revision=self.revision,
                    cache_dir=cache_directory(),
                    allow_patterns=_WANTED,
                    ignore_patterns=_UNWANTED,
                    etag_timeout=_TIMEOUT,
                )
            )
        except Exception as error:  # the library's own, those of its HTTP client, and the system's
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise self.not_found(f"downloading it failed ({reason})") from None

    def not_found(self, why: str) -> CheckpointNotFoundError:
        """The error that says where this model was looked for, ``why`` it is not had, and how to get it."""
        revision = f" --revision {self.revision}" if self.revision != "main" else ""
        return CheckpointNotFoundError(
            f"There is no directory '{self.repo}', the Hugging Face cache '{cache_directory()}' does not hold the "
            f"whole model of that name, and {why}.",
            hint=f"Fetch it with 'hf download {self.repo}{revision}' where there is a network, or give the path of a "
            "model directory. The variable HF_HUB_CACHE names another cache.",
        )


def cache_directory() -> Path:
    """Where the hub's library keeps its models, by the variables that it reads."""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.path.expanduser(os.path.expandvars(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))))


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _read_ref(file: Path) -> str:
    """The commit that the reference names; '' if it names none."""
    try:
        if not file.is_file():
            return ""
        with file.open("rb") as stream:
            commit = stream.read(_LONGEST_REF).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return commit if re.fullmatch(r"\w+", commit) else ""
