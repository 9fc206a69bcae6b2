"""vLLM's server, for the engine environment; takes the server's own options.

A program of its own: that environment does not have this library. Processes that vLLM spawns run the code outside the
condition too, which is intended (see `first_calls.py`). The command `vllm serve` fails in the CPU build, which looks
for a package of the name vllm, so that its main function is called here.
"""

import runpy
import sys
from pathlib import Path

runpy.run_path(str(Path(__file__).with_name("first_calls.py")))
# Where `--worker-cls` finds a worker of ours: last, and nothing else is in that folder.
sys.path.append(str(Path(__file__).with_name("vllm_worker")))

if __name__ == "__main__":
    try:
        from vllm.entrypoints.launchers.api_server.entry import main
    except ModuleNotFoundError:  # an environment of the user's with vLLM before 0.32
        runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
    else:
        main()
