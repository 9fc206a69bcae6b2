"""The hooks of the steered worker on toy layers of every shape; for the engine environment. Prints JSON.

Argument: the folder of the worker's module.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch


class Platform:
    """A platform's worker whose steps are a toy layer, those of warm-up too."""

    def __init__(self, layers: Any, decodes: bool) -> None:
        asked = {"file": "", "sha256": "x"}
        self.vllm_config = SimpleNamespace(
            additional_config={"intervention": asked}, model_config=SimpleNamespace(hf_text_config=CONFIG)
        )
        self.layers, self.decodes = layers, decodes  # whether hooks are in what decoding computes

    def load_model(self) -> None:
        pass

    def get_model(self) -> Any:
        return self.layers

    def determine_available_memory(self) -> int:
        self.layers.layers[1]()
        return 1

    def compile_or_warm_up_model(self) -> None:
        for step in (PREFILL, DECODE):
            decodes, self.decodes = self.decodes, True  # graphs are captured after it
            self.execute_model(step)
            self.decodes = decodes

    def execute_model(self, step: Any) -> None:
        if self.decodes or step is PREFILL:
            self.layers.layers[1]()


for name, part in (("cpu", "CPUWorker"), ("gpu", "Worker")):
    module: Any = ModuleType(name)
    setattr(module, part, Platform)
    sys.modules[f"vllm.v1.worker.{name}_worker"] = module
sys.path.insert(0, sys.argv[1])
import steered_worker as worker  # noqa: E402 - it takes its platform from above

PREFILL = SimpleNamespace(scheduled_new_reqs=[SimpleNamespace(req_id="cmpl-1")], num_scheduled_tokens={"r": 4})
DECODE = SimpleNamespace(scheduled_new_reqs=[], num_scheduled_tokens={"r": 1})

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


class LlamaDecoderLayer(Layer):
    """A layer of a class whose forward pass was read."""


LlamaDecoderLayer.__module__ = "vllm.model_executor.models.llama"


class PPMissingLayer(Layer):
    """What vLLM puts in the place of a layer that another process has."""


def model_of(*layers: torch.nn.Module, **more: Any) -> Any:
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList(layers)
    for name, part in more.items():
        setattr(model, name, part)
    return model


def reported(model: Any, config: Any = CONFIG, spec: dict[str, Any] = SPEC) -> Any:
    """Return the output of the middle layer, or what is refused."""
    try:
        worker.install(model, spec, ADD, config)
        output = model.layers[1]()
    except worker.InterventionError as error:
        return str(error)
    parts = output if isinstance(output, tuple) else (output,)
    return [None if part is None else part[0].tolist() for part in parts] + [int(model.layers[1].steer_fired)]


def plain(output: Any = X, inner: int = 0) -> Any:
    return model_of(*(LlamaDecoderLayer(output, inner) for _ in range(LAYERS)))


def unchanged_at_scale_0(mode: str, output: Any) -> bool:
    """Tell whether a mode whose scale is 0 leaves the stream as it is, to the bit."""
    unit, none, share = torch.full((WIDTH,), 0.5), torch.zeros(WIDTH), torch.zeros(1)
    parts = {"add": none, "unit": unit, "offset": share, "remove": none, "target": unit, "share": share}
    parts |= {"targets": torch.eye(WIDTH)[:2], "units": torch.eye(WIDTH)[:2]}
    model = plain(output)
    worker.install(model, {**SPEC, "mode": mode, "gate": -1.0}, {f"1.{k}": v for k, v in parts.items()}, CONFIG)
    pairs = zip(model.layers[1](), output, strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


wrapped = torch.nn.Module()
wrapped.text, wrapped.vision = plain((X, R)), plain()
wrapped.layers = wrapped.text.layers  # for the test's own call
wrapped.get_language_model = lambda: wrapped.text
found = {
    "sum and residual": reported(plain((X, R))),
    "no residual yet": reported(plain((X, None))),
    "one tensor": reported(plain(X)),
    "bfloat16": reported(plain((X.bfloat16(), R.bfloat16()))),
    "an unread class": reported(model_of(*(Layer((X, R)) for _ in range(LAYERS)))),
    "an unread class, no residual": reported(model_of(*(Layer((X, None)) for _ in range(LAYERS)))),
    "an unread class, one tensor": reported(model_of(*(Layer(X) for _ in range(LAYERS)))),
    "three outputs": reported(plain((X, R, R))),
    "another second output": reported(plain((X, R[:, :2]))),
    "as many experts as layers": reported(plain(X, inner=LAYERS)),
    "the text part of several": reported(wrapped),
    "two lists of that length": reported(model_of(*plain().layers, more=plain().layers)),
    "no list of that length": reported(model_of(Layer(), Layer())),
    "layers elsewhere": reported(model_of(Layer(), Layer(), PPMissingLayer())),
    "another width": reported(plain(), SimpleNamespace(num_hidden_layers=LAYERS, hidden_size=5)),
    "another depth": reported(plain(), SimpleNamespace(num_hidden_layers=4, hidden_size=WIDTH)),
}
stream = torch.randn(5, WIDTH), torch.randn(5, WIDTH)
found["scale 0"] = {
    f"{mode} {dtype}": unchanged_at_scale_0(mode, tuple(part.to(dtype) for part in stream))
    for mode in worker.MODES
    for dtype in (torch.float32, torch.bfloat16)
}


def moved_by_tasks(output: Any, compiled: bool) -> list[list[float]]:
    """Return the stream of tokens like the first task, the second one and none, each half way to its task's mean."""
    tasks = torch.tensor([[4.0, 0, 0, 0], [0, 8.0, 0, 0]])
    parts = {"1.targets": tasks, "1.units": torch.eye(WIDTH)[:2], "1.share": torch.tensor([0.5])}
    model = plain(output)
    worker.install(model, {**SPEC, "mode": "constellation", "gate": 0.5}, parts, CONFIG)
    layer = torch.compile(model.layers[1], fullgraph=True, backend="eager") if compiled else model.layers[1]
    x, residual = layer()
    return (x if residual is None else x + residual).tolist()


TOKENS = torch.tensor([[2.0, 0, 0, 0.5], [0.25, 1.0, 0, 0], [0, 0, 3.0, 0], [-1.0, 0, 0, 0], [0, 0, 0, 0]])
found["tasks"] = [
    moved_by_tasks(output, compiled)
    for output in ((TOKENS, None), (TOKENS - 0.5, torch.full_like(TOKENS, 0.5)), (TOKENS[None], None))
    for compiled in (False, True)
]


def counted_tokens(mode: str, backend: str | None) -> Any:
    """Return what passed the gate in three calls of a layer, and that counting then begins again."""
    unit = torch.eye(WIDTH)[0]
    parts = {"unit": unit, "add": unit, "targets": unit[None], "units": unit[None], "share": torch.ones(1)}
    model = plain((TOKENS, None))
    worker.install(model, {**SPEC, "mode": mode, "gate": 0.5}, {f"1.{k}": v for k, v in parts.items()}, CONFIG)
    layer = torch.compile(model.layers[1], fullgraph=True, backend=backend) if backend else model.layers[1]
    for _ in range(3):
        layer()
    return [worker.gate_counts([model.layers[1]], [1]) for _ in range(2)]


found["passed the gate"] = [
    counted_tokens(mode, backend) for mode in ("gated", "constellation") for backend in (None, "eager")
]


def counts_of_a_worker() -> Any:
    """Return what a worker writes when it is asked, after the proof and after two more steps, and what it records."""
    model, written = plain((TOKENS, None)), list[Any]()
    steered = worker.SteeredWorker(model, True)
    steered._record = lambda record: None
    steered._write = lambda name, counts: written.append([name, counts])
    parts = {"1.unit": torch.eye(WIDTH)[0], "1.add": torch.eye(WIDTH)[0]}
    worker.read_intervention = lambda file, sha256: ({**SPEC, "mode": "gated", "gate": 0.5}, parts)
    ask = SimpleNamespace(scheduled_new_reqs=[SimpleNamespace(req_id=f"cmpl-{worker.COUNTING}-0-ab12")])
    ask.num_scheduled_tokens = {"r": 1}
    first = SimpleNamespace(scheduled_new_reqs=[SimpleNamespace(req_id="cmpl-1")], num_scheduled_tokens={"r": 4})
    steered.load_model()
    for step in (first, DECODE, ask, first, DECODE, ask):
        steered.execute_model(step)
    return written


def with_and_without(mode: str, compiled: bool) -> list[bool]:
    """Return whether the stream of each step is changed: of usual requests, and of such as ask for the plain model."""
    unit, model = torch.eye(WIDTH)[0], plain((TOKENS, None))
    parts = {
        "unit": unit,
        "add": unit,
        "offset": torch.zeros(1),
        "remove": unit,
        "target": unit,
        "share": torch.ones(1),
    }
    worker.read_intervention = lambda file, sha256: ({**SPEC, "mode": mode}, {f"1.{k}": v for k, v in parts.items()})
    steered, changed = worker.SteeredWorker(model, True), list[bool]()
    steered._record = lambda record: None
    steered.load_model()
    layer = torch.compile(model.layers[1], fullgraph=True, backend="eager") if compiled else model.layers[1]
    asking = SimpleNamespace(req_id=f"cmpl-{worker.PLAIN}-0-ab12")
    without = SimpleNamespace(scheduled_new_reqs=[asking], num_scheduled_tokens={"r": 1})
    for step in (PREFILL, DECODE, without, DECODE, without, DECODE, PREFILL, DECODE):
        steered.execute_model(step)
        changed.append(not torch.equal(layer()[0], TOKENS))
    return changed


found["with and without"] = [with_and_without(mode, one) for mode in ("add", "ablate", "pull") for one in (False, True)]


def reported_by_the_compiler(layer: Any) -> Any:
    """Return what is refused where the compiler meets a hook that raises."""
    torch._dynamo.reset()  # it compiles one function a few times only
    layers = [layer((X, R)) for _ in range(LAYERS)]
    worker.install(model_of(*layers), SPEC, ADD, CONFIG)
    try:
        torch.compile(layers[1], fullgraph=True, backend="eager")()
    except Exception as error:
        return worker.refusal_in(error, layers)
    return None


def records(model: Any, decodes: bool = True) -> list[Any]:
    """Return what a worker records from loading to its first decode step: which layers fired, or what is refused."""
    said: list[Any] = []
    steered = worker.SteeredWorker(model, decodes)
    steered._record = lambda record: said.append(record.get("refused", record.get("fired")))
    worker.read_intervention = lambda file, sha256: ({**SPEC, "sha256": sha256}, ADD)
    try:
        steered.load_model()
        steered.determine_available_memory()
        steered.compile_or_warm_up_model()
        said.append("warm")
        for step in (PREFILL, DECODE):
            steered.execute_model(step)
    except worker.InterventionError:
        said.append("stopped")
    return said


models = Path(find_spec("vllm").submodule_search_locations[0], "model_executor", "models")
found["classes that are not there"] = [
    name
    for name in sorted(worker.SUMMED)
    if f"\nclass {name.split('.')[1]}(" not in (models / f"{name.split('.')[0]}.py").read_text()
]
found["compiled"] = [reported_by_the_compiler(Layer), reported_by_the_compiler(LlamaDecoderLayer)]
found["counts"] = counts_of_a_worker()
found["records"] = records(plain((X, R)))
found["records without hooks in decoding"] = records(plain((X, R)), decodes=False)
found["records of an unread class"] = records(model_of(*(Layer((X, R)) for _ in range(LAYERS))))
print(json.dumps(found))
