"""Makes the first call of each of MKL's vector functions, from one thread; for programs of the engine environment.

Torch computes cosines, exponentials and their like on a CPU with these functions. The first call in a process chooses
the code for the processor. When two threads make that call at one time, one of them may get less accurate code: in one
of about sixty processes with two threads half of the cosines of the rotary embedding were off in their last bits, and
so was every answer of that load. With the first call behind it, every load of an engine computes the same.

Not imported but run (`runpy.run_path`): the engine environment does not have this library.
"""

import torch

FUNCTIONS = (
    *("acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "lgamma", "log"),
    *("log10", "log1p", "log2", "reciprocal", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"),
)

# So few values that torch leaves them to the thread that asks; all functions are defined at one half.
for dtype in (torch.float32, torch.float64):
    for name in FUNCTIONS:
        getattr(torch, name)(torch.full((64,), 0.5, dtype=dtype))
