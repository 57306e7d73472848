"""What tools really wrote when they failed, and which line of it tells why."""

from __future__ import annotations

import pytest

from unmask.gateway.tool_words import ToolWords

OUTPUTS = {
    "CMake Error at CMakeLists.txt:1 (cmake_minimum_required): CMake 3.99 or higher is required.  You are running "
    "version 3.25.1": (
        "CMake Error at CMakeLists.txt:1 (cmake_minimum_required):\n"
        "  CMake 3.99 or higher is required.  You are running version 3.25.1\n\n\n"
        "-- Configuring incomplete, errors occurred!\n"
    ),
    "/s/a.cpp:3:5: error: 'x' was not declared in this scope": (
        "[1/9] Building CXX object a.cpp.o\n"
        "FAILED: a.cpp.o\n"
        "/usr/bin/c++ -Werror=return-type -o a.cpp.o -c /s/a.cpp\n"
        "/s/a.cpp: In function 'int main()':\n"
        "/s/a.cpp:3:5: error: 'x' was not declared in this scope\n"
        + "    3 |     x = error;\n"
        * 300
        + "/s/a.cpp:4:5: error: expected ';'\n"
        "ninja: build stopped: subcommand failed.\n"
    ),
    "c++: fatal error: Killed signal terminated program cc1plus": (
        "[1/9] Building\nc++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
        "ninja: build stopped: subcommand failed.\n"
    ),
    "/usr/bin/ld: a.o: undefined reference to `f'": (
        "/usr/bin/ld: a.o: undefined reference to `f'\ncollect2: error: ld returned 1 exit status\n"
    ),
    "ninja: error: unknown target 'llama-server'": "ninja: error: unknown target 'llama-server'\n",
    "make: *** No rule to make target 'llama-server'.  Stop.": (
        "-- Build files have been written to: /b\nmake: *** No rule to make target 'llama-server'.  Stop.\n"
    ),
    "ERROR: No matching distribution found for nowhere": (
        "ERROR: Could not find a version that satisfies the requirement nowhere (from versions: none)\n"
        "ERROR: No matching distribution found for nowhere\n"
    ),
    "CMake Error: The source directory does not exist.": (
        "CMake Error: The source directory does not exist.\nSpecify --help for usage.\n"
    ),
    "nothing": "",
}


@pytest.mark.parametrize("line", OUTPUTS)
def test_the_line_that_tells(line):
    words = ToolWords()
    for written in OUTPUTS[line].splitlines():
        words.see(written)
    assert words.best() == line
