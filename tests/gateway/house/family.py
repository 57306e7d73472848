"""The processes of a server: it and all that it has started."""

from __future__ import annotations

import asyncio

import psutil

from tests.serving.processes import Server


def family(server: Server) -> list[psutil.Process]:
    """The server's process first."""
    this = psutil.Process(server.process.pid)
    return [this, *this.children(recursive=True)]


def running(processes: list[psutil.Process], seconds: float = 2.0) -> list[psutil.Process]:
    """Those that have not ended within so many seconds."""
    return psutil.wait_procs(processes, timeout=seconds)[1]


def of_llama_cpp(server: Server) -> list[psutil.Process]:
    """The llama.cpp processes among them, without their keepers."""
    found = []
    for process in family(server):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if {"--alias", "--ctx-size"} <= {*words} and not any(word.endswith("keeper.py") for word in words):
            found.append(process)
    return found


async def logged(server: Server, *words: str, count: int = 1) -> list[str]:
    """Lines of the server's log with all ``words``, as soon as there are so many."""
    async with asyncio.timeout(10):
        while len(found := [line for line in server.log if all(word in line for word in words)]) < count:
            await asyncio.sleep(0.02)
    return found
