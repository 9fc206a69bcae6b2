"""What `refusal-eval check --model` makes of an engine: each way in which it can be wrong is a failed line."""

import asyncio
import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from engine_entries import engine_of
from test_devices import Machine
from test_server_engine import ENTRY

from refusal_eval.__main__ import main
from refusal_eval.ask.requests import Request, RequestSettings
from refusal_eval.config.entries import Sampling
from refusal_eval.config.kinds import ENGINES, MODEL_CHECKS
from refusal_eval.config.load_study import load_study
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.core.packing import pack_floats
from refusal_eval.engines.devices.device_pool import Device
from refusal_eval.engines.devices.lease import lease_devices
from refusal_eval.engines.devices.nvidia_smi import Gpu, computing
from refusal_eval.engines.listeners import Listener
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.program.check_lines import any_failed
from refusal_eval.study.paths import Paths
from refusal_eval.tools.check import check_command, checked_model, model_checks
from refusal_eval.tools.check.check_report import block, failed_block
from refusal_eval.tools.check.checked_model import (
    SPLITS,
    CheckedModel,
    checked_entry,
    checking_catalogue,
    checking_study,
    prepare,
)
from refusal_eval.tools.check.model_checks import AFTER_IT_STOPPED, WHILE_IT_RUNS, CheckSample, Trial
from refusal_eval.weights.engine_file import describe_engine, weight_source

STOP = 2
SERVING = {"vllm": "0.32.0", "device": "cuda", "gpus": ["NVIDIA H100 80GB HBM3, 580.65.06"] * 2, "cores": 64}
SERVING |= {"arguments": ["--model=FOLDER", "--dtype=bfloat16", "--uds=SOCKET", "--seed=0"]}
DRAWN = {"temperature": 1.0, "top_k": 0, "max_tokens": 64, "min_tokens": 0}
SAMPLING = DRAWN | {"stop_token_ids": [STOP]}  # as it is asked
MODEL = {"sampling": DRAWN, "reasoning": None, "template": "default", "template_options": {}, "system_prompt": None}
MADE_UP = 15  # the token of the answers that is made a stop token


def sample(prompt="p1", ids=(11, 12, 13, 14, 10, MADE_UP, STOP), logprobs=None, finish="stop", reason=STOP, **answer):
    response = {"token_ids": list(ids), "finish_reason": finish, "stop_reason": reason, "text": "SECRET ANSWER"}
    response["logprobs"] = pack_floats([-0.5] * len(ids) if logprobs is None else logprobs)
    fields = {"state": "complete", "answer": "SECRET ANSWER", "reasoning_tokens": 0} | answer
    return CheckSample(Request(prompt, 0, 0, "key", 7, [1, 5]), response, fields)


CUT = sample(ids=(11, 12, 14), finish="length", reason=None, state="truncated")
SAMPLES = [sample(), CUT, sample("p2"), sample("p3")]


class Engine:
    """Stands for an engine that answers every question rightly; what is given by name is wrong with it.

    Args:
        again: log-probabilities of an answer's tokens, read as a part of a prompt.
        plain: the same without the adapter.
        repeats: tokens of the answers to what is asked again, in turn (default: those of the first time).
        stopped: the end of an answer with a made-up stop token: its tokens, and why it ended.
        drawn: log-probability of the token that is drawn without a seed.
        named: log-probability of each token that is asked for by its id, by the place among the likeliest.
        written: replies to the two forms.
        counters: the server's own.
    """

    def __init__(self, samples=SAMPLES, **wrong):
        self.samples, self.wrong, self.asked = samples, wrong, []
        self.repeats = iter(wrong.get("repeats", ()))

    async def ask(self, path, body):
        self.asked.append(body)
        if path == "/tokenize":
            return {"tokens": self.wrong.get("tokens", [1, 2, 3])}
        if "prompt_logprobs" in body:
            which = "plain" if "plain" in self.wrong and "model" not in body else "again"
            values = self.wrong.get(which, [-0.5] * 99)
            answer = body["prompt"][2:]
            rows = [{str(token): {"logprob": value}} for token, value in zip(answer, values, strict=False)]
            return {"choices": [{"prompt_logprobs": [None, None, *rows]}]}
        if form := body.get("structured_outputs"):
            regex, written = self.wrong.get("written", ("abc12", '{"label":"yes"}'))
            return {"choices": [{"text": regex if "regex" in form else written}]}
        row = {f"token_id:{100 + n}": -1.0 - n for n in range(self.wrong.get("likeliest", body["logprobs"]))}
        drawn = [self.wrong.get("drawn", -1.0)]
        return {"choices": [{"logprobs": {"token_logprobs": drawn, "top_logprobs": [row]}}]}

    async def complete(self, token_ids, settings, seed):
        self.asked.append({**settings.sampling, "seed": seed, "prompt": token_ids})
        if ids := settings.sampling.get("logprob_token_ids"):
            named = self.wrong.get("named", lambda place: -1.0 - place)
            return {"named_logprobs": pack_floats([named(i - 100) for i in ids])}
        own = next(one for one in self.samples if list(one.request.token_ids) == list(token_ids))
        if MADE_UP in settings.sampling["stop_token_ids"]:
            ids, finish, reason = self.wrong.get("stopped", ([11, MADE_UP], "stop", MADE_UP))
            return {"token_ids": ids, "finish_reason": finish, "stop_reason": reason}
        return {"token_ids": next(self.repeats, own.ids)}

    async def metrics(self):
        return self.wrong.get("counters", {"prefix_cache_queries": 100.0, "prefix_cache_hits": 60.0})

    def processes(self):
        return [os.getpid()]


def device(place):
    return Device(str(place), f"GPU-{place}", Gpu(place, "H100", f"GPU-{place}"))


def trial(
    samples=SAMPLES, entry=MODEL, determinism="seeded", changes=None, stops=(STOP,), serving=SERVING, engine=(), **wrong
):
    """Return a trial of a model on two GPUs; what is given by name is wrong with its engine."""
    samples = [
        one._replace(request=dataclasses.replace(one.request, own_ids=[1, 5 + place]))
        for place, one in enumerate(samples)
    ]
    header = {"sampling": SAMPLING | {"stop_token_ids": list(stops)}, "identity": {"weights": {"repo": "org/m"}}}
    files = [
        SimpleNamespace(
            header=header,
            settings=RequestSettings(sampling=header["sampling"], changes=changes or {}),
            notes=wrong.pop("notes", []),
        )
    ]
    how = ("python", "cuda", determinism, 64, 0.0, "store")
    plan = LoadPlan(engine_of(ENTRY | dict(engine)), "engine", "m", "m", *how)
    made = Trial(CheckedModel(entry, files, [Path("prompts")], plan, Path("log")))
    made.engine, made.samples, made.serving = Engine(samples, **wrong), samples, serving | {"determinism": determinism}
    made.start_seconds, made.work_seconds, made.devices = 40.2, 2.0, (device(0), device(1))
    return made


LOOPBACK = Listener(5, "127.0.0.1", 4000)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Return what the checks see of processes, GPUs and prompts; it may be changed."""
    seen = SimpleNamespace(computing={"GPU-0", "GPU-1"}, listeners=[LOOPBACK], offline=True)
    monkeypatch.setattr(model_checks, "computing", lambda pids: seen.computing)
    monkeypatch.setattr(model_checks, "listeners_of", lambda pids: seen.listeners)
    monkeypatch.setattr(model_checks, "_is_offline", lambda pid: seen.offline)
    renderer = SimpleNamespace(token_ids=lambda messages: [1, 2, 3])
    monkeypatch.setattr(model_checks, "Renderer", lambda *_, **__: renderer)
    monkeypatch.setattr(model_checks, "read_jsonl", lambda file: [{"messages": []}])
    return seen


def lines_of(made):
    return asyncio.run(made.lines([*WHILE_IT_RUNS, *map(MODEL_CHECKS.get, MODEL_CHECKS.names())]))


def states(made):
    return {name: outcome.state for name, outcome in lines_of(made) if outcome.state not in ("ok", "not applicable")}


def test_a_good_engine_passes_every_check():
    assert states(trial()) == {}


MISSED = {"prefix_cache_queries": 100.0, "prefix_cache_hits": 0.0}
REASONS = MODEL | {"reasoning": {"end": "</think>"}}
EMPTY = sample(state="empty")
OTHER = [9, 9]


@pytest.mark.parametrize(
    ("name", "state", "wrong"),
    [
        ("answers", "fail", {"samples": [EMPTY, EMPTY, CUT, EMPTY]}),
        ("answers", "warn", {"samples": [EMPTY, CUT, CUT]}),
        ("rendering", "warn", {"notes": ["an option changes nothing"]}),
        ("template ids", "fail", {"tokens": [1, 1, 2]}),
        ("template ids", "fail", {"tokens": [1, 2]}),
        ("reasoning marks", "fail", {"entry": REASONS, "samples": [sample(answer="hm[/THINK]No."), *SAMPLES[1:]]}),
        # A model that the template keeps from reasoning writes no mark.
        ("reasoning marks", "warn", {"entry": REASONS}),
        ("reasoning marks", "warn", {"entry": REASONS, "samples": [sample(state="truncated_reasoning"), *SAMPLES[1:]]}),
        ("scored again", "fail", {"again": [-1.0] * 9}),  # temperature 0.5 got in
        ("scored again", "fail", {"again": [math.nan] * 9}),
        ("scored again", "fail", {"again": []}),
        ("same seed twice", "fail", {"repeats": [[1], OTHER, [1], OTHER]}),
        ("same seed twice", "warn", {"repeats": [[1], OTHER]}),
        ("unseeded sampling", "fail", {"drawn": -9.0}),
        ("unseeded sampling", "fail", {"drawn": math.nan}),
        ("named log probabilities", "fail", {"named": lambda place: -9999.0}),
        ("named log probabilities", "fail", {"named": lambda place: -20.0 + place}),
        ("named log probabilities", "fail", {"named": lambda place: math.nan}),
        ("forms", "fail", {"written": ("abc12", '{"label": "yes"}')}),
        ("forms", "fail", {"written": ("I am free", '{"label":"yes"}')}),
        ("adapter", "fail", {"changes": {"lora": {"folder_sha256": "a" * 64}}}),
        ("compiled path", "warn", {"serving": SERVING | {"arguments": ["--enforce-eager"]}}),
        ("other seeds", "fail", {"samples": [sample(), sample(), sample("p2")]}),
        ("stop tokens", "fail", {"stops": []}),
        ("stop tokens", "fail", {"samples": [sample(ids=(STOP, 11, 12), finish="length", reason=None), CUT]}),
        ("stop tokens", "fail", {"samples": [sample(ids=(11, 9), reason=9), CUT]}),
        ("stop tokens", "fail", {"stopped": ([11, MADE_UP, 12], "length", None)}),
        ("stop tokens", "warn", {"stopped": ([11, 15 + 1, 12], "length", None)}),
        ("prefix cache", "fail", {"counters": MISSED}),
        ("prefix cache", "fail", {"counters": MISSED | {"block_size": 1.0}}),
        ("prefix cache", "warn", {"counters": {}}),
        # The last token of a prompt is always computed: one of two tokens fills a block of one, and none of two.
        ("prefix cache", "not applicable", {"counters": MISSED | {"block_size": 2.0}}),
        ("reasoning marks", "ok", {"entry": REASONS, "samples": [sample(reasoning_tokens=2), *SAMPLES[1:]]}),
        ("adapter", "ok", {"changes": {"lora": {"folder_sha256": "a" * 64}}, "plain": [-0.6] * 99}),
        ("compiled path", "not applicable", {"serving": SERVING | {"device": "cpu", "gpus": []}}),
        ("leased gpus", "not applicable", {"serving": SERVING | {"device": "cpu", "gpus": []}}),
        ("leased gpus", "fail", {"machine": {"computing": {"GPU-0", "GPU-2"}}}),
        ("leased gpus", "fail", {"machine": {"computing": {"GPU-0"}}}),
        ("leased gpus", "warn", {"machine": {"computing": set()}}),
        ("offline start", "fail", {"machine": {"offline": False}}),
        ("network", "fail", {"machine": {"listeners": [LOOPBACK, Listener(6, "0.0.0.0", 4001)]}}),
        ("network", "fail", {"machine": {"listeners": [Listener(6, "192.0.2.2", 4001)]}}),
    ],
)
def test_each_fault_is_reported_in_its_line(name, state, wrong, machine):
    vars(machine).update(wrong.pop("machine", {}))
    lines = dict(lines_of(trial(**wrong)))
    assert lines[name].state == state
    bad = {other for other, outcome in lines.items() if outcome.state in ("fail", "warn")}
    assert bad == ({name} if state in ("fail", "warn") else set())


@pytest.mark.parametrize(
    "values", [[-0.5] * 6, *([odd] + [-0.5] * 6 for odd in (0.25, -math.inf, math.nan)), [0.0] * 7]
)
def test_log_probabilities_that_lack_or_cannot_be_fail(values):
    outcome = asyncio.run(model_checks.log_probabilities(trial([sample(logprobs=values)])))
    assert outcome.state == "fail"


def test_failed_requests_and_no_answers_fail():
    made = trial()
    made.failed = 1
    assert states(made) == {"answers": "fail"}
    failed = {name for name, state in states(trial([])).items() if state == "fail"}
    assert failed >= {"answers", "log probabilities", "scored again", "same seed twice", "seeds under load"}


@pytest.mark.parametrize(
    ("determinism", "repeats", "state"),
    [
        ("seeded", [OTHER], "ok"),  # few that differ are what `seeded` promises
        ("seeded", [OTHER, OTHER], "warn"),
        ("seeded", [OTHER] * 4, "fail"),
        ("strict", [OTHER], "fail"),
        ("strict", [], "ok"),
        ("free", [OTHER] * 4, "not applicable"),
    ],
)
def test_seeds_under_load(determinism, repeats, state):
    made = trial(determinism=determinism, repeats=repeats)
    assert asyncio.run(model_checks.seeds_under_load(made)).state == state


def test_all_requests_are_asked_again_at_once_in_the_opposite_order():
    made, seen, there = trial(), [], asyncio.Event()

    async def waiting(token_ids, settings, seed):
        seen.append(token_ids)
        if len(seen) == len(SAMPLES):
            there.set()
        await asyncio.wait_for(there.wait(), 10)
        return {"token_ids": next(one.ids for one in made.samples if one.request.token_ids == token_ids)}

    made.engine.complete = waiting
    assert asyncio.run(model_checks.seeds_under_load(made)).state == "ok"
    assert seen == [list(one.request.token_ids) for one in reversed(made.samples)]


def test_checks_that_say_nothing_here_are_not_applicable():
    entry = MODEL | {"sampling": DRAWN | {"temperature": 0}, "template": "own.jinja"}
    lines = lines_of(trial([sample(), sample(), sample("p2")], entry))
    found = {name for name, outcome in lines if outcome.state == "not applicable"}
    of_other_engines = {"attention steering"} & {name for name, _ in lines}
    assert found == {"other seeds", "template ids", "reasoning marks", "adapter"} | of_other_engines
    assert not any_failed(lines)


def test_the_ways_in_which_judges_and_free_studies_ask_are_tried_on_the_engine():
    made = trial()
    for check in (model_checks.unseeded_sampling, model_checks.named_log_probabilities):
        assert asyncio.run(check(made)).state == "ok"
    unseeded = made.engine.asked[0]
    assert "seed" not in unseeded and unseeded["top_k"] > 1 and 0 < unseeded["top_p"] < 1 < unseeded["max_tokens"]
    assert unseeded["temperature"] == 1.0
    assert len(made.engine.asked[2]["logprob_token_ids"]) == 20
    assert asyncio.run(model_checks.named_log_probabilities(trial(likeliest=0))).state == "fail"


def test_tokens_per_second_are_measured_with_many_requests_at_once():
    made = trial()
    outcome = asyncio.run(model_checks.throughput(made))
    assert outcome.state == "ok" and "tokens/s with 64 requests at once" in outcome.seen, "no more than the plan allows"
    assert len({body["seed"] for body in made.engine.asked}) == 64


def test_the_gpus_on_which_processes_compute_are_found_by_their_numbers(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\necho 'gpu_uuid, pid, used_gpu_memory [MiB], process_name'\n"
        "echo 'GPU-a, 41, 900, python'\necho 'GPU-b, 42, 900, a, b'\necho 'GPU-c, [N/A], 1, x'\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert computing({42, 7}) == {"GPU-b"}
    monkeypatch.setenv("PATH", "/nowhere")
    assert computing({42}) == set()


def test_an_engine_that_answers_a_question_no_more_holds_up_none_of_the_others():
    made = trial(engine={"stall_timeout": 0.2})

    async def hang(*_):
        await asyncio.sleep(3600)

    async def odd(path, body):
        return {"choices": [None]}  # a reply without what it should hold

    made.engine.metrics, made.engine.ask = hang, odd
    rows = dict(lines_of(made))
    assert rows["prefix cache"].seen == "TimeoutError: no answer after 0.2 s"
    assert rows["forms"].seen.startswith("TypeError") and rows["template ids"].seen.startswith("KeyError")
    assert rows["answers"].state == rows["network"].state == rows["same seed twice"].state == "ok"


# ---------------------------------------------------------------- after it was stopped


def test_what_is_left_of_a_stopped_engine_is_reported():
    made = trial()
    made.processes, made.devices = [os.getpid()], ()
    left = asyncio.run(model_checks.released(made))
    assert left.state == "fail" and "1 of the engine's 1 processes are left" in left.seen
    gone = subprocess.Popen(["true"])
    gone.wait()
    made.processes = [gone.pid]
    assert asyncio.run(model_checks.released(made)).seen == "none of the engine's 1 processes is left"


def test_the_gpus_of_a_stopped_engine_can_be_leased_again(tmp_path, monkeypatch):
    variables = simulated(tmp_path, monkeypatch)
    made, lease = trial(), lease_devices(2, variables)
    made.devices = lease.devices
    with monkeypatch.context() as patch:
        patch.setattr(model_checks, "LEASE_SECONDS", 0.3)
        held = asyncio.run(model_checks.released(made))
    assert held.state == "fail" and "its GPUs are not free" in held.seen
    lease.release()
    free = asyncio.run(model_checks.released(made))
    assert free.state == "ok" and "its 2 GPUs could be leased again" in free.seen


def simulated(folder, monkeypatch):
    """Return the variables of a machine with four simulated GPUs, which are those of this process from now on."""
    variables = Machine(folder, monkeypatch).gpus(4)
    for name in [name for name in os.environ if name.startswith(("CUDA_", "SLURM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REFUSAL_EVAL_LOCKS", variables["REFUSAL_EVAL_LOCKS"])
    return variables


@pytest.mark.parametrize(
    ("size", "there", "again", "state", "words"),
    [
        (1, 1, -0.5, "not applicable", "there is one GPU"),
        (1, 4, -0.5, "ok", "`tensor_parallel: 1` and 2: 3 answers"),
        (2, 2, -0.5, "ok", "`tensor_parallel: 2` and 1: 3 answers"),
        (2, 4, -0.9, "fail", "`tensor_parallel: 2` and 4: 3 answers"),
        (2, 4, None, "warn", "`tensor_parallel: 4` does not start: out of memory"),
    ],
)
def test_another_number_of_gpus_gives_the_same_log_probabilities(size, there, again, state, words, monkeypatch):
    made = trial(engine={"tensor_parallel": size})

    class Started(Engine):
        async def __aenter__(self):
            if again is None:
                raise UserError("out of memory")
            return self

        async def __aexit__(self, *_):
            pass

    monkeypatch.setattr(model_checks, "_leasable", lambda plan: [None] * there)
    monkeypatch.setattr(model_checks, "engine_of_plan", lambda plan, log: Started(again=[again or 0.0] * 99))
    outcome = asyncio.run(model_checks.tensor_parallel(made))
    assert outcome.state == state and words in outcome.seen
    assert [check.__name__ for check in AFTER_IT_STOPPED] == ["released", "tensor_parallel"]


# ---------------------------------------------------------------- the block


def test_the_block_names_what_ran_and_no_text_of_a_prompt_or_answer():
    made = trial()
    text = block("my-model", made, lines_of(made))
    for part in ("my-model", "repo org/m", "vllm 0.32.0", "2 x NVIDIA H100 80GB HBM3, 580.65.06", "--dtype=bfloat16"):
        assert part in text
    assert "24 tokens in 2.0 s: 12 tokens/s" in text and "start         40 s" in text
    assert text.splitlines()[0] == "```text" and text.splitlines()[-1] == "```"
    assert "passed: 18 ok" in text
    assert "SECRET" not in text and "FOLDER" not in text and "SOCKET" not in text
    made.failed = 1
    text = block("m", made, lines_of(made))
    assert "FAILED: 17 ok, 1 failed" in text and "-> look at the engine's log" in text


def test_paths_are_hidden_wherever_they_stand_and_a_cpu_is_named_with_its_cores():
    arguments = ["--logits-processors=/home/me/x.py", "--lora", "../secret/a", '--hf-overrides={"a": "/data/b"}']
    serving = {"device": "cpu", "cpu": "EPYC", "cores": 2, "gpus": [], "arguments": ["--model=/home/me/m", *arguments]}
    text = failed_block("m", trial(serving=serving), "there is no file ~/models/x (really)", "")
    assert 'arguments     --logits-processors=PATH --lora PATH --hf-overrides={"a": "PATH"}\n' in text
    assert "engine  there is no file PATH (really)" in text
    assert "device        cpu: EPYC, 2 cores" in text


LOG = """\
(APIServer pid=1) INFO 11-22 01:00:24 [utils.py:1] args: {'model': '/home/me/m'}
(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718]     secret = "code"
(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718] ValueError: no memory for /home/me/m with hf_PLANTEDTOKEN1
""" + "".join(f"(APIServer pid=1) RuntimeError: Engine core initialization failed, {n}\n" for n in range(9))


def test_the_block_of_an_engine_that_failed_has_its_versions_gpus_arguments_and_the_cause_in_its_log():
    message = "the engine died (exit code 1). From /home/me/log:\n    secret line"
    text = failed_block("m", trial(), message, LOG)
    for part in ("vllm 0.32.0", "2 x NVIDIA H100 80GB HBM3, 580.65.06", "--dtype=bfloat16", "start         40 s"):
        assert part in text
    assert "the engine died (exit code 1). From PATH:" in text
    assert "its log       ValueError: no memory for PATH with ***" in text
    assert "initialization failed, 8" in text and "initialization failed, 0" not in text, "of the rest the last few"
    for hidden in ("/home", "PLANTED", "Traceback", "secret", "args", "last lines"):
        assert hidden not in text
    assert "FAILED: 1 failed" in text and "which is kept" in text


# ---------------------------------------------------------------- the program


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return the folder for temporary files of the program, which is run inside of this process."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(check_command.tempfile, "tempdir", str(folder))
    for name in ("end_with_parent", "allow_many_connections"):
        monkeypatch.setattr(check_command, name, lambda: None)
    monkeypatch.setattr(check_command, "take_network_away", lambda: "")
    return folder


DIES = "import sys\nif sys.argv[1] != '-c':\n    sys.exit('ValueError: No memory')\nprint('{\"vllm\": \"0.32.0\"}')\n"


def test_what_is_known_before_the_start_is_reported_and_the_log_is_kept_when_the_engine_dies(
    temporary, tmp_path, monkeypatch, capsys
):
    simulated(tmp_path, monkeypatch)
    (tmp_path / "server.py").write_text(DIES)
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S {tmp_path}/server.py "$@"\n')
    (tmp_path / "python").chmod(0o755)
    model = trial().model
    plan = dataclasses.replace(model.plan, python=str(tmp_path / "python"))
    ready = dataclasses.replace(model, plan=plan)
    monkeypatch.setattr(
        check_command, "prepare", lambda *given: dataclasses.replace(ready, log=given[3] / "engine.log")
    )
    assert main(["check", "--model", "smollm2-plain"]) == 1
    reported = capsys.readouterr()
    assert "engine        vllm 0.32.0" in reported.out and "--tensor-parallel-size=2" in reported.out
    assert "device        cuda: 4 x Simulated, 580.95.05" in reported.out
    assert "its log       ValueError: No memory" in reported.out and str(tmp_path) not in reported.out
    (kept,) = temporary.glob("refusal-eval-check-*")
    assert f"check: everything is kept in {kept}" in reported.err
    assert "No memory" in (kept / "engine.log").read_text()


def test_a_mistake_before_anything_ran_leaves_nothing(temporary, capsys):
    assert main(["check", "--model", "smollm2-plian"]) == 1
    assert "did you mean `smollm2-plain`" in capsys.readouterr().err and not list(temporary.iterdir())


CUT_OFF = """
import socket
from refusal_eval.tools.check.no_network import take_network_away
server = socket.create_server(("127.0.0.1", 0))
print(take_network_away())
own = socket.create_server(("127.0.0.1", 0))
socket.create_connection(own.getsockname(), 2)
try:
    socket.create_connection(server.getsockname(), 2)
    print("reached")
except OSError:
    print("not reached")
"""


def test_a_process_without_a_network_reaches_itself_and_no_server_of_before(repository):
    environment = {**os.environ, "PYTHONPATH": str(repository / "scripts")}
    done = subprocess.run([sys.executable, "-c", CUT_OFF], capture_output=True, text=True, env=environment, check=True)
    how, reached = done.stdout.splitlines()
    assert reached == ("not reached" if "without a network" in how else "reached"), done.stdout


# ---------------------------------------------------------------- the study behind it


def checked(repository, model, folder):
    """Return the config of the check of a model."""
    entry = checked_entry(model, [], folder / "study.yaml", None)
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(checking_catalogue(model, entry)))
    study = checking_study(entry, [str(folder / "catalogue.yaml")], str(folder / "cache"))
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    return load_study(study, str(folder / "study.yaml"), str(repository))


def test_the_study_asks_eight_prompts_three_times_with_the_models_own_settings(repository, tmp_path):
    config = checked(repository, "smollm2-declining", tmp_path)
    model = config["model_entries"]["checked"]
    assert model["system_prompt"].startswith("You must answer") and model["sampling"]["temperature"] == 0.5
    assert config["samples"] == 3 and config["cache_dir"] == str(tmp_path / "cache")
    assert [split["sample"]["size"] for split in config["split_entries"].values()] == [4, 4]


@pytest.mark.parametrize(("reasoning", "most"), [(None, 64), ({"end": "</think>"}, 2048)])
def test_answers_are_kept_short_except_for_reasoning_and_a_greedy_model_is_asked_once(reasoning, most):
    entry = {"sampling": {"max_tokens": 9000, "min_tokens": 100, "temperature": 0, "top_k": 0}, "reasoning": reasoning}
    sampling = checking_catalogue("m", entry)["models"]["checked"]["sampling"]
    assert sampling == {"max_tokens": most, "min_tokens": min(100, most)}
    assert checking_study(entry, [], "c")["samples"] == 1


@pytest.mark.parametrize("greedy", [{"min_p": 1.0}, {"top_p": 0.01}, {"top_k": 1}, {"temperature": 0.02}, {}])
def test_a_model_whose_samples_are_one_is_asked_once_by_the_rule_of_the_study(greedy):
    sampling = Sampling(max_tokens=9, **greedy).model_dump()
    assert checking_study({"sampling": sampling}, [], "c")["samples"] == (1 if greedy else 3)


@pytest.mark.parametrize("fetched", [False, True])
def test_weights_that_are_in_the_cache_are_not_asked_for(fetched, repository, tmp_path, monkeypatch):
    """They are no rule's output then, and Snakemake knows of no way to make them."""
    asked, folder = [], tmp_path / "check"
    folder.mkdir()
    config = checked(repository, "smollm2-plain", tmp_path)
    manifest = Path(weight_source(config["engine_entries"]["smollm2-135m"]["weights"]).copy_file(Paths(config).cache))

    def make(files, study):
        asked.extend(files)
        paths = Paths(load_study(yaml.safe_load(study.read_text()), str(study), str(repository)))
        write_json(manifest, {"folder": ".", "files": {}})
        entry = config["engine_entries"]["smollm2-135m"]
        described = describe_engine("smollm2-135m", ENGINES.entry(entry), entry["weights"], str(manifest), "cache")
        write_json(study.parent / paths.of("engines", engine="smollm2-135m"), described)

    if fetched:
        write_json(manifest, {"folder": ".", "files": {}})
    monkeypatch.setattr(checked_model, "_make", make)
    monkeypatch.setattr(checked_model, "read_requests", lambda path: path)
    ready = prepare("smollm2-plain", [], str(tmp_path / "cache"), folder, None)
    assert (str(manifest) in asked) is not fetched and len(asked) == len(SPLITS) + (not fetched)
    assert Path(ready.plan.load(ready.log).folder) == manifest.parent
