"""SGLang's server with its secret from the environment: as an option, which is the only other way, ``ps`` shows it.

Run as a script by a Python that has SGLang; imports nothing of Unmask.
"""

import os
import runpy
import sys

if __name__ == "__main__":  # SGLang starts processes that import this file anew
    sys.path.pop(0)  # the folder of this file, where the names of other modules are
    sys.argv.append(f"--api-key={os.environ.pop('SGLANG_API_KEY')}")  # one word: a secret may begin with a dash
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
