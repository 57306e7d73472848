"""Make the environments that the clients live in: `python -m tests.conformance.install [NAME ...]`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.environments import ENVIRONMENTS, Environment


def install(environment: Environment) -> str:
    """Make ``environment`` unless it is there already; a line that says what was done."""
    if environment.made:
        return f"{environment.name}: there already"
    begun = time.monotonic()
    shutil.rmtree(environment.home, ignore_errors=True)
    environment.home.mkdir(parents=True)
    (_install_node if environment.node else _install_python)(environment)
    (environment.home / "installed.txt").write_text(environment.wanted)
    return f"{environment.name}: {time.monotonic() - begun:.0f} s"


def _install_python(environment: Environment) -> None:
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment.home))
    pip = [sys.executable, "-m", "pip", "--python", environment.program("python")]
    _run(*pip, "install", "--quiet", "--no-compile", "--disable-pip-version-check", *environment.packages)


def _install_node(environment: Environment) -> None:
    npm = ["npm", "install", "--prefix", str(environment.home)]
    _run(*npm, "--no-audit", "--no-fund", "--loglevel=error", "--save-exact", *environment.packages)


def _run(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise SystemExit(f"{command[0]} is not installed here.")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}")


def main() -> None:
    """Two at a time: most of the work is unpacking."""
    usual = [name for name, environment in ENVIRONMENTS.items() if not environment.slow]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)}; default: {usual}")
    names = parser.parse_args().names or usual
    if unknown := set(names) - set(ENVIRONMENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with ThreadPoolExecutor(2) as pool:
        for line in pool.map(install, [ENVIRONMENTS[name] for name in names]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
