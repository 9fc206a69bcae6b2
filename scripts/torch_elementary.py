"""Compute one function of float32 values with torch. Runs in the engine environment.

Usage: python torch_elementary.py exp|log   (little-endian float32 on stdin and stdout)
"""

import os
import sys


def main(name: str) -> None:
    """Read values, write as many results."""
    # MKL picks its code by the processor, and the last digit with it; this one is the same on all of them.
    os.environ["MKL_CBWR"] = "COMPATIBLE"
    import numpy as np
    import torch

    torch.set_num_threads(1)
    values = torch.from_numpy(np.frombuffer(sys.stdin.buffer.read(), dtype="<f4").copy())
    function = {"exp": torch.exp, "log": torch.log}[name]
    sys.stdout.buffer.write(function(values).numpy().tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
