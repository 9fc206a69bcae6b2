"""Interventions in the real engine: every greedy token of a steered model is that of an independent reference."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
import real
from direction_files import control_of, random_direction
from engine_entries import engine_of
from project import ROOT, Project, change_yaml
from real import SHORT, real_project

from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.server import server_environment
from refusal_eval.features.steering.intervention import FittedDirection, write_intervention
from refusal_eval.features.steering.intervention_file import CompiledIntervention
from refusal_eval.features.steering.loaded_intervention import LoadedIntervention
from refusal_eval.study.engine_environment import engine_python

pytestmark = pytest.mark.full

PROMPTS, TOKENS = 8, 16
REFERENCE = Path(__file__).with_name("steering_reference.py")
OFFLINE = Path(__file__).with_name("steered_offline.py")
WORKER = ROOT / "scripts" / "refusal_eval" / "engines" / "vllm_worker"
GREEDY = {**NEUTRAL_SAMPLING, "max_tokens": TOKENS, "temperature": 0.0}
FIRST_LAYERS = 6  # of the model that is compiled in the full tier: the whole one takes minutes a load
TASKS = ("random", "second", "third")
CONTROL = "control"  # of the first
NEUTRAL = {"direction": "random", "scale": None, "gate": None, "offset": "none", "towards": "negative"}


def asked_of(layers: int) -> dict[str, dict[str, Any]]:
    """Return the interventions that are tried on a model with so many layers."""
    some = [layers // 3, layers // 2, 2 * layers // 3]
    return {
        "add": {"mode": "add", "layers": some, "scale": -0.5},
        "ablate": {"mode": "ablate", "layers": list(range(layers)), "scale": 1.0, "offset": "midpoint"},
        "ablate-none": {"mode": "ablate", "layers": list(range(layers)), "offset": "none"},
        "gated": {"mode": "gated", "layers": [layers // 6, layers // 2], "scale": 1.5, "gate": 0.02},
        "pull": {"mode": "pull", "layers": [2 * layers // 5, 3 * layers // 5], "scale": 0.3},
        "pull-positive": {
            **{"mode": "pull", "towards": "positive"},
            **{"layers": [2 * layers // 5, 3 * layers // 5], "scale": 0.3},
        },
        "constellation": {
            **{"mode": "constellation", "direction": list(TASKS)},
            **{"layers": [layers // 6, layers // 2], "scale": 0.4, "gate": 0.02},
        },
        "reposition": {"mode": "reposition", "layers": some, "scale": -0.5},
        "alpha": {"mode": "reposition", "layers": some, "scale": {"alpha": 1.5, "by": "quantile"}},
        "zero": {"mode": "add", "layers": some, "scale": 0.0},
        "gated-control": {
            **{"mode": "gated", "direction": CONTROL},
            **{"layers": [layers // 6, layers // 2], "scale": 1.5, "gate": 0.02},
        },
    }


class Steering:
    """A model with prompts, a direction, and what each intervention wrote; each engine is started once."""

    def __init__(self, folder: Path, model: str, tokenizer: str, entry: dict[str, Any], layers: int) -> None:
        self.folder, self.model, self.entry = folder, model, entry
        self.asked = asked_of(layers)
        renderer = Renderer(tokenizer)
        rows = list(read_jsonl(ROOT / "config" / "prompts" / "should_decline.jsonl"))[:PROMPTS]
        self.prompts = [list(renderer.token_ids([{"role": "user", "content": row["prompt"]}])) for row in rows]
        self.directions = {name: folder / "directions" / f"{name}.safetensors" for name in TASKS}
        for seed, path in enumerate(self.directions.values()):
            random_direction(path, tuple(range(layers)), seed, model_layers=layers, neutral=True)
        self.directions[CONTROL] = folder / "directions" / f"{CONTROL}.safetensors"
        control_of(self.directions[TASKS[0]], self.directions[CONTROL])
        self._found: dict[tuple[str, bool], list[list[int]]] = {}
        self.records: dict[tuple[str, bool], dict[str, Any]] = {}
        self.compiled: dict[str, set[str]] = {}  # the names under which each load that compiles kept code, where new

    def intervention(self, name: str, file_name: str = "steered") -> CompiledIntervention:
        """Return a compiled intervention: by default in one file for all, as that of a model whose entry changes."""
        file = self.folder / "interventions" / f"{file_name}.safetensors"
        asked = NEUTRAL | self.asked[name]
        names = asked["direction"] if name == "constellation" else [asked["direction"]]
        card = write_intervention(file, name, [FittedDirection.of_file(self.directions[one]) for one in names], asked)
        return CompiledIntervention.of_card(card, str(file))

    def answers(self, name: str, eager: bool = True) -> list[list[int]]:
        """Return the tokens of each answer of the model under an intervention, `none` for the plain model."""
        if (name, eager) not in self._found:
            steered = None if name == "none" else self.intervention(name)
            self._found[name, eager], self.records[name, eager] = asyncio.run(self.served(steered, name, eager))
        return self._found[name, eager]

    async def served(
        self, intervention: CompiledIntervention | None, name: str, eager: bool
    ) -> tuple[list[list[int]], dict[str, Any]]:
        """Return the tokens of each answer, and the serving record."""
        engine = engine_of(self.entry | {"args": {**self.entry["args"], "enforce-eager": eager}})
        log = self.folder / f"{name}-{'eager' if eager else 'compiled'}.server.log"
        python = engine_python(self.entry, ROOT)
        changes = [] if intervention is None else [LoadedIntervention([intervention])]
        load = EngineLoad(log, "seeded", self.model, python, "cpu", changes=changes)
        kept = kept_code()
        async with engine.running(load) as server:
            asked = [server.complete(prompt, RequestSettings(sampling=GREEDY), None) for prompt in self.prompts]
            answers, record = [answer["token_ids"] for answer in await asyncio.gather(*asked)], server.serving_record()
        self.compiled[name] = kept_code() - kept
        return answers, record

    def offline(self, names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
        """Return what vLLM's `LLM` class answers under each intervention, one after the other (see the program)."""
        options = [LoadedIntervention([self.intervention(name, name)]).options() for name in names]
        loads = [[one["worker-cls"], json.loads(one["additional-config"])] for one in options]
        given = {"folder": self.model, "prompts": self.prompts, "tokens": TOKENS, "loads": loads}
        python = engine_python(self.entry, ROOT)
        environment = server_environment("seeded", "cpu", python=python)
        # The worker writes its record into the first. The path of a socket is short, and a test's folder may be deep.
        environment |= {"TMPDIR": str(folder), "VLLM_RPC_BASE_PATH": gettempdir(), "PYTHONPATH": str(WORKER)}
        command = [python, str(OFFLINE)]
        run = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, check=False, env=environment
        )
        assert run.returncode == 0, run.stderr[-3000:]
        found: list[dict[str, Any]] = json.loads(run.stdout.splitlines()[-1])
        return found

    def reference(self, answers: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        """Return what transformers makes of the same, at every place of every answer."""
        cases = [
            {"asked": None if name == "none" else NEUTRAL | self.asked[name], "prompts": self.prompts, "answers": given}
            for name, given in answers.items()
        ]
        directions = {name: str(path) for name, path in self.directions.items()}
        given = {"folder": self.model, "directions": directions, "cases": cases}
        command = [engine_python(self.entry, ROOT), str(REFERENCE)]
        run = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-3000:]
        return dict(zip(answers, json.loads(run.stdout.splitlines()[-1]), strict=True))


def kept_code() -> set[str]:
    """Return the names under which vLLM has kept compiled code."""
    return {path.name for path in Path(os.environ["VLLM_CACHE_ROOT"]).glob("torch_compile_cache/torch_aot_compile/*")}


def read_json_config(results: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load((results / "config.yaml").read_text())
    return found


def equal_tokens(one: list[list[int]], other: list[list[int]]) -> int:
    return sum(a == b for row, second in zip(one, other, strict=True) for a, b in zip(row, second, strict=True))


@pytest.fixture(scope="module")
def steering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steering]:
    """Return SmolLM2 for all tests; compiled code lies in a folder of their own."""
    folder = tmp_path_factory.mktemp("steering")
    project = real_project(folder / "project")
    project.snakemake("--until", "identify_engine")
    engine = read_json(project.results / "engines" / "smollm2-135m.json")
    entry = read_json_config(project.results)["engine_entries"]["smollm2-135m"]
    entry |= {"dtype": "float32", "memory_share": 0.15, "max_model_len": 1024, "start_timeout": 3600}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CACHE_ROOT", str(folder / "cache"))
        yield Steering(folder, str(ROOT / engine["folder"]), str(ROOT / engine["tokenizer_folder"]), entry, 30)


@pytest.fixture(scope="module")
def first_layers(steering: Steering) -> Steering:
    """Return SmolLM2 without its later layers, which is compiled in a fifth of the time."""
    folder = steering.folder / "first_layers"
    model = str(real.first_layers(Project(steering.folder / "project"), folder / "model", FIRST_LAYERS))
    return Steering(folder, model, steering.model, steering.entry, FIRST_LAYERS)


# Each mode, with each of its options.
MODES = (
    *("none", "add", "ablate", "ablate-none", "gated", "pull", "pull-positive", "constellation"),
    *("reposition", "alpha"),
)
# Compiled code is kept between loads: the plain model's comes first, and two vectors of one mode are among them. An
# option changes numbers in the same code, so that in the full tier one of each mode is compiled.
COMPILED = ("none", "add", "ablate", "gated", "pull", "constellation", "gated-control")
ALL = (*MODES, "gated-control")


@pytest.mark.parametrize(
    ("model", "eager", "names"),
    [
        pytest.param("steering", True, MODES, id="eager"),
        pytest.param("first_layers", False, COMPILED, id="compiled"),
        pytest.param("steering", False, ALL, id="whole-compiled", marks=pytest.mark.soak),
    ],
)
def test_every_token_is_that_of_an_independent_reference(
    request: pytest.FixtureRequest, model: str, eager: bool, names: tuple[str, ...]
) -> None:
    steering: Steering = request.getfixturevalue(model)
    answers = {name: steering.answers(name, eager) for name in names}
    assert all(len(row) == TOKENS for rows in answers.values() for row in rows)
    reference = steering.reference(answers)
    equal = {name: equal_tokens(answers[name], reference[name]) for name in names}
    print(f"tokens equal to the reference, of {PROMPTS * TOKENS}: {equal}")
    assert equal == dict.fromkeys(names, PROMPTS * TOKENS)
    assert len({json.dumps(rows) for rows in answers.values()}) == len(names)
    # Under one name, a load could run the code of another intervention, or the plain model's, without a word. All their
    # files had one name, too.
    assert eager or {name: len(steering.compiled[name]) for name in names} == dict.fromkeys(names, 1)


def test_a_second_load_with_the_code_that_the_first_one_compiled_gives_the_same_tokens(first_layers: Steering) -> None:
    answers, record = asyncio.run(first_layers.served(first_layers.intervention("add"), "again", False))
    assert answers == first_layers.answers("add", False)
    assert record["intervention"]["fired"] == first_layers.asked["add"]["layers"]
    assert first_layers.compiled["again"] == set(), "its code was looked for under the same name"


@pytest.mark.parametrize(
    "names", [pytest.param(("add", "gated"), id="two"), pytest.param(ALL[1:], id="all", marks=pytest.mark.soak)]
)
def test_offline_the_tokens_are_those_of_the_server_from_the_cache_of_prompts_too(
    steering: Steering, tmp_path: Path, names: tuple[str, ...]
) -> None:
    loads = dict(zip(names, steering.offline(names, tmp_path), strict=True))
    answers = {name: load["answers"][0] for name, load in loads.items()}
    reference = steering.reference(answers)
    equal = {name: equal_tokens(answers[name], reference[name]) for name in names}
    print(f"tokens equal to the reference, of {PROMPTS * TOKENS}: {equal}")
    assert equal == dict.fromkeys(names, PROMPTS * TOKENS)
    assert answers == {name: steering.answers(name) for name in names}
    for name, load in loads.items():
        # A load has a cache of its own, and one intervention: that two never share one is a test of `LoadPlan`.
        assert load["answers"][1] == answers[name] and load["cached"][0] == 0 < load["cached"][1]
    assert read_json(tmp_path / "intervention.json")["fired"] == steering.asked[names[-1]]["layers"]


@pytest.mark.parametrize("mode", MODES[1:])
def test_steered_answers_differ_and_the_record_says_which_hooks_fired(steering: Steering, mode: str) -> None:
    plain, steered = steering.answers("none"), steering.answers(mode)
    differ = sum(one != other for one, other in zip(plain, steered, strict=True))
    print(f"{mode}: {differ} of {PROMPTS} answers differ from the plain model's")
    assert differ > PROMPTS / 2
    record = steering.records[mode, True]
    asked, layers = steering.asked[mode], steering.asked[mode]["layers"]
    reported = {"sha256": steering.intervention(mode).sha256, "mode": asked["mode"], "layers": layers, "fired": layers}
    assert record["intervention"] == reported
    assert str(steering.folder) not in " ".join(record["arguments"])
    assert "intervention" not in steering.records["none", True]


def test_scale_0_gives_the_plain_models_tokens(steering: Steering) -> None:
    assert steering.answers("zero") == steering.answers("none")
    assert steering.records["zero", True]["intervention"]["fired"] == steering.asked["zero"]["layers"]


def test_a_scale_that_is_lost_in_rounding_stops_the_load(steering: Steering) -> None:
    steering.asked["lost"] = steering.asked["add"] | {"scale": 1e-30}
    with pytest.raises(UserError, match=r"is at work on layers .* and changes nothing: 3 greedy answers"):
        steering.answers("lost")


def test_a_server_refuses_another_intervention_than_it_is_asked_for(steering: Steering) -> None:
    wrong = replace(steering.intervention("add"), sha256="0" * 64)
    with pytest.raises(UserError, match=f"It refused the intervention: .* and {'0' * 64} was asked for"):
        asyncio.run(steering.served(wrong, "wrong", True))


# ---------------------------------------------------------------- without an engine


@pytest.fixture(scope="module")
def toys() -> dict[str, Any]:
    """Return what the worker's hooks do to toy layers."""
    command = [engine_python({}, ROOT), str(Path(__file__).with_name("steered_toys.py")), str(WORKER)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_the_stream_is_changed_whatever_form_a_layer_returns_it_in(toys: dict[str, Any]) -> None:
    changed, residual = [11.0, 12.0, 13.0, 14.0], [100.0] * 4
    for name in ("sum and residual", "bfloat16", "the text part of several"):
        assert toys[name] == [changed, residual, 1]
    assert toys["an unread class, no residual"] == [changed, None, 1]
    assert toys["an unread class, one tensor"] == [changed, 1]
    assert toys["no residual yet"] == [changed, None, 1]
    assert toys["one tensor"] == toys["as many experts as layers"] == [changed, 1]


def test_scale_0_leaves_the_stream_as_it_is_to_the_bit_in_each_mode(toys: dict[str, Any]) -> None:
    assert len(toys["scale 0"]) == 12 and all(toys["scale 0"].values())


def test_each_token_is_moved_to_the_mean_of_the_task_that_it_is_like_compiled_or_not(toys: dict[str, Any]) -> None:
    like_no_task = [[0.0, 0.0, 3.0, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0] * 4]
    moved = [[3.0, 0.0, 0.0, 0.25], [0.125, 4.5, 0.0, 0.0], *like_no_task]
    assert toys["tasks"] == [moved] * 4 + [[moved]] * 2


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        (
            "an unread class",
            "decoder layers of class `__main__.Layer` return a residual beside their output, and whether the stream is "
            "the sum of both was never checked",
        ),
        ("three outputs", "a decoder layer returns neither the residual stream nor (x, residual)"),
        ("another second output", "a decoder layer returns neither the residual stream nor (x, residual)"),
        ("two lists of that length", "the model's 3 decoder layers cannot be identified: found layers, more"),
        ("no list of that length", "the model's 3 decoder layers cannot be identified: found none"),
        ("layers elsewhere", "with pipeline parallelism not all layers are here; interventions need all of them"),
        ("another width", "the model's hidden_size is 5, and the direction is of a model with 4"),
        ("another depth", "the model's num_hidden_layers is 4, and the direction is of a model with 3"),
    ],
)
def test_a_model_that_the_worker_does_not_understand_is_refused(
    toys: dict[str, Any], model: str, reported: str
) -> None:
    assert toys[model] == reported


def test_layers_count_as_fired_after_a_prefill_and_a_decode_step_that_come_after_warm_up(toys: dict[str, Any]) -> None:
    assert toys["records"][toys["records"].index("warm") - 1 :] == [[], "warm", [], [1]]
    silent = "in a decode step the hooks of layers [1] did not fire"
    assert toys["records without hooks in decoding"][-3:] == [[], silent, "stopped"]


def test_tokens_that_pass_a_gate_are_counted_compiled_or_not(toys: dict[str, Any]) -> None:
    once = [{"tokens": 15, "passed": {"1": 3}}, {"tokens": 0, "passed": {"1": 0}}]
    assert toys["passed the gate"] == [once] * 4


def test_a_worker_that_is_asked_writes_what_passed_since_it_was_last_asked(toys: dict[str, Any]) -> None:
    assert toys["counts"] == [["intervention_gate.json", {"tokens": 10, "passed": {"1": 2}}]] * 2


def test_a_request_may_ask_for_the_model_without_the_intervention_compiled_or_not(toys: dict[str, Any]) -> None:
    assert toys["with and without"] == [[True, True, False, False, False, False, True, True]] * 6


def test_what_a_hook_refuses_is_recorded(toys: dict[str, Any]) -> None:
    _, reported, stopped = toys["records of an unread class"]
    assert "decoder layers of class `__main__.Layer`" in reported and stopped == "stopped"
    never = "what decoder layers of class `__main__.Layer` return was never checked; the engine's log has more"
    assert toys["compiled"] == [never, None]


def test_the_classes_that_were_read_are_in_this_version_of_the_engine(toys: dict[str, Any]) -> None:
    assert toys["classes that are not there"] == []


# ---------------------------------------------------------------- the whole workflow


def test_a_study_of_a_model_and_its_steered_self(tmp_path: Path) -> None:
    project = real_project(tmp_path / "project", models=["plain"], splits=["safe"], judges=["keyword"])
    project.study(models=["plain", "steered", "control"], directions=["refusal", "chance"])
    asked = {"direction": "refusal", "mode": "add", "layers": {"best": 3}, "scale": -8.0}
    steered = {"like": "smollm2-plain", "label": "steered", "sampling": SHORT, "intervention": asked}
    control = {"like": "steered", "label": "control", "intervention": {"direction": "chance"}}
    engines = {"smollm2-135m": {"like": "smollm2-135m", "start_timeout": 3600}}
    direction = {"model": "plain", "positive": {"split": "decline"}, "negative": {"split": "sensitive4"}}
    change_yaml(
        project.folder / "catalogue.yaml",
        lambda data: {
            **data,
            "engines": engines,
            "models": data["models"] | {"steered": steered, "control": control},
            "directions": {"refusal": direction, "chance": {"like": "refusal", "method": "random"}},
        },
    )
    project.snakemake()
    receipts = {str(path.parent.name): read_json(path) for path in (project.results / "receipts").rglob("*.json")}
    assert sorted(receipts) == ["control", "smollm2-135m", "steered"]  # loads of their own
    card = read_json(project.results / "interventions" / "steered.json")
    ranking = read_json(project.results / "directions" / "refusal.json")["ranking"]
    assert card["layers"] == sorted(ranking[:3])
    serving = receipts["steered"]["engine"]["serving"]["intervention"]
    assert serving == {"sha256": card["sha256"], "mode": "add", "layers": card["layers"], "fired": card["layers"]}
    assert read_json(project.results / "manifest.json")["interventions"]["steered"] == card
    texts = [
        [row["answer"] for row in read_jsonl(project.results / "answers" / model / "safe.jsonl")]
        for model in ("plain", "steered")
    ]
    assert sum(one != other for one, other in zip(*texts, strict=True)) > len(texts[0]) / 2
    assert project.planned() == {}
