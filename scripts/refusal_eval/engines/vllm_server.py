"""vLLM's server, for the engine environment; takes the server's own options.

A program of its own: that environment does not have this library. Processes that vLLM spawns run what stands outside
of the condition too, which is the point of it (see `first_calls.py`).

vLLM 0.32 warns that the module behind it may be removed, in favour of the command `vllm serve`, which fails in the CPU
build (it looks for a package of the name vllm).
"""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).with_name("first_calls.py")))

if __name__ == "__main__":
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
