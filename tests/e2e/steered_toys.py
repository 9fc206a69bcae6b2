"""The hooks of the steered worker on toy layers of every shape; for the engine environment. Prints JSON.

Argument: the folder of the worker's module.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, sys.argv[1])
import steered_worker as worker

WIDTH, LAYERS = 4, 3
SPEC = {"version": 1, "mode": "add", "layers": [1], "gate": None, "model_layers": LAYERS, "width": WIDTH}
CONFIG = SimpleNamespace(num_hidden_layers=LAYERS, hidden_size=WIDTH)
ADD = {"1.add": torch.tensor([1.0, 2.0, 3.0, 4.0])}
X, R = torch.full((2, WIDTH), 10.0), torch.full((2, WIDTH), 100.0)


class Layer(torch.nn.Module):
    """A layer that returns what it is told to."""

    def __init__(self, output: Any = X, inner: int = 0) -> None:
        super().__init__()
        self.output, self.weight = output, torch.nn.Parameter(torch.zeros(1))
        self.experts = torch.nn.ModuleList(torch.nn.Identity() for _ in range(inner))

    def forward(self) -> Any:
        return self.output


class PPMissingLayer(Layer):
    """What vLLM puts in the place of a layer that another process has."""


def model_of(*layers: torch.nn.Module, **more: Any) -> Any:
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList(layers)
    for name, part in more.items():
        setattr(model, name, part)
    return model


def told(model: Any, config: Any = CONFIG, spec: dict[str, Any] = SPEC) -> Any:
    """Return the output of the middle layer, or what is refused."""
    try:
        worker.install(model, spec, ADD, config)
        output = model.layers[1]()
    except worker.InterventionError as error:
        return str(error)
    parts = output if isinstance(output, tuple) else (output,)
    return [None if part is None else part[0].tolist() for part in parts] + [int(model.layers[1].steer_fired)]


def plain(output: Any = X, inner: int = 0) -> Any:
    return model_of(*(Layer(output, inner) for _ in range(LAYERS)))


def unchanged_at_scale_0(mode: str, output: Any) -> bool:
    """Tell whether a mode whose scale is 0 leaves the stream as it is, to the bit."""
    unit, none, share = torch.full((WIDTH,), 0.5), torch.zeros(WIDTH), torch.zeros(1)
    parts = {"add": none, "unit": unit, "offset": share, "remove": none, "target": unit, "share": share}
    model = plain(output)
    worker.install(model, {**SPEC, "mode": mode, "gate": -1.0}, {f"1.{k}": v for k, v in parts.items()}, CONFIG)
    pairs = zip(model.layers[1](), output, strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


wrapped = torch.nn.Module()
wrapped.text, wrapped.vision = plain((X, R)), plain()
wrapped.layers = wrapped.text.layers  # for the test's own call
wrapped.get_language_model = lambda: wrapped.text
found = {
    "sum and residual": told(plain((X, R))),
    "no residual yet": told(plain((X, None))),
    "one tensor": told(plain(X)),
    "bfloat16": told(plain((X.bfloat16(), R.bfloat16()))),
    "three outputs": told(plain((X, R, R))),
    "another second output": told(plain((X, R[:, :2]))),
    "as many experts as layers": told(plain(X, inner=LAYERS)),
    "the text part of several": told(wrapped),
    "two lists of that length": told(model_of(*plain().layers, more=plain().layers)),
    "no list of that length": told(model_of(Layer(), Layer())),
    "layers elsewhere": told(model_of(Layer(), Layer(), PPMissingLayer())),
    "another width": told(plain(), SimpleNamespace(num_hidden_layers=LAYERS, hidden_size=5)),
    "another depth": told(plain(), SimpleNamespace(num_hidden_layers=4, hidden_size=WIDTH)),
}
stream = torch.randn(5, WIDTH), torch.randn(5, WIDTH)
found["scale 0"] = {
    f"{mode} {dtype}": unchanged_at_scale_0(mode, tuple(part.to(dtype) for part in stream))
    for mode in worker.MODES
    for dtype in (torch.float32, torch.bfloat16)
}
print(json.dumps(found))
