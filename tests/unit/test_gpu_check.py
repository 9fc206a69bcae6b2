"""What gpu-check makes of what it found out: each way in which an engine can be wrong is a failed line."""

import asyncio
import dataclasses
import math
import os
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
from refusal_eval.config.load_study import load_study
from refusal_eval.core.files import write_json
from refusal_eval.core.packing import pack_floats
from refusal_eval.engines.devices.nvidia_smi import computing
from refusal_eval.engines.listeners import Listener
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.study.paths import Paths
from refusal_eval.tools.check import check_command, probes
from refusal_eval.tools.check import prepare as module
from refusal_eval.tools.check.answer_checks import CHECKS, run_checks
from refusal_eval.tools.check.check import any_failed
from refusal_eval.tools.check.check_report import arguments_text, block, device_text, failed_block, without_paths
from refusal_eval.tools.check.check_study import SPLITS, asking_study, checking_catalogue, checking_study
from refusal_eval.tools.check.gpu_facts import Facts, Rescored, Sample, StopProbe, Template
from refusal_eval.tools.check.prepare import checked_entry, prepare
from refusal_eval.tools.check.probes import Prepared

STOP = 2


def sample(prompt="p1", ids=(11, 12, 13, STOP), logprobs=None, finish="stop", reason=STOP, **answer):
    response = {"token_ids": list(ids), "finish_reason": finish, "stop_reason": reason, "text": "SECRET ANSWER"}
    response["logprobs"] = pack_floats([-0.5] * len(ids) if logprobs is None else logprobs)
    fields = {"state": "complete", "answer": "SECRET ANSWER", "reasoning_tokens": 0} | answer
    return Sample(Request(prompt, 0, 0, "key", 7, [1, 5]), response, fields)


CUT = sample(ids=(11, 12, 14), finish="length", reason=None, state="truncated")
SERVING = {"vllm": "0.32.0", "device": "cuda", "gpus": ["NVIDIA H100 80GB HBM3, 580.65.06"] * 2, "cores": 64}
STRICT = SERVING | {"determinism": "strict"}
MISSED = {"prefix_cache_queries": 100.0, "prefix_cache_hits": 0.0}
GOOD = Facts(
    serving=SERVING | {"arguments": ["--model=FOLDER", "--dtype=bfloat16", "--uds=SOCKET", "--seed=0"]},
    stop_token_ids=[STOP],
    start_seconds=40.2,
    work_seconds=2.0,
    counters={"prefix_cache_queries": 100.0, "prefix_cache_hits": 60.0},
    samples=[sample(), CUT],
    templates=[Template([1, 2, 3], [1, 2, 3])],
    rescored=[Rescored([-0.5, -1.0], [-0.52, -0.99])],
    repeats=[([1, 2], [1, 2])],
    together=[([1, 2], [1, 2]), ([3], [3])],
    told_offline=True,
    leased={"GPU-a", "GPU-b"},
    computing={"GPU-a", "GPU-b"},
    stops=[StopProbe(13, [11, 12, 13], "stop", 13)],
    unseeded=[(-0.5, -3.0), (-3.0, -3.0)],
    named=[(-0.5, -0.5), (-4.0, -3.97)],
    forms={"regex": True, "json": True},
    listeners=[Listener(5, "127.0.0.1", 4000)],
)


def states(facts):
    return {check.name: check.state for check in run_checks(facts) if check.state not in ("ok", "not applicable")}


def test_good_facts_pass():
    assert states(GOOD) == {}
    assert len(run_checks(GOOD)) == len(CHECKS)


@pytest.mark.parametrize(
    ("name", "state", "change"),
    [
        ("answers", "fail", {"failed": 1}),
        ("answers", "fail", {"samples": [sample(state="empty"), sample(state="empty"), CUT]}),
        ("answers", "warn", {"samples": [sample(state="empty"), CUT, CUT]}),
        ("template ids", "fail", {"templates": [Template([1, 2], [1, 2]), Template([1, 2], [1, 1, 2])]}),
        ("template ids", "fail", {"templates": [Template([1, 2], [1, 2, 3])]}),
        ("template ids", "fail", {"templates": []}),
        ("reasoning marks", "fail", {"reasoning": True}),
        ("reasoning marks", "warn", {"reasoning": True, "samples": [sample(state="truncated_reasoning"), CUT]}),
        ("log-probabilities", "fail", {"samples": [sample(logprobs=[-0.5, math.nan, -0.1, -0.1]), CUT]}),
        ("log-probabilities", "fail", {"samples": [sample(logprobs=[-0.5, -math.inf, -0.1, -0.1]), CUT]}),
        ("log-probabilities", "fail", {"samples": [sample(logprobs=[-0.5, 0.25, -0.1, -0.1]), CUT]}),
        ("log-probabilities", "fail", {"samples": [sample(logprobs=[-0.5]), CUT]}),
        ("log-probabilities", "fail", {"samples": [sample(logprobs=[0.0] * 4), sample("p1", (3,), [0.0], "length")]}),
        ("scored again", "fail", {"rescored": [Rescored([-0.5, -1.0], [-1.0, -2.0])]}),  # temperature 0.5 got in
        ("scored again", "fail", {"rescored": [Rescored([-0.5, -1.0], [-0.5, math.nan])]}),
        ("scored again", "fail", {"rescored": [Rescored([-0.5, -1.0], [-0.5])]}),
        ("scored again", "fail", {"rescored": []}),
        ("same seed twice", "fail", {"repeats": [([1, 2], [1, 3]), ([1], [1])]}),
        ("same seed twice", "warn", {"repeats": [([1, 2], [1, 3]), ([1], [1]), ([2], [2])]}),
        ("same seed twice", "fail", {"repeats": []}),
        ("seeds under load", "fail", {"together": []}),
        ("seeds under load", "fail", {"together": [([1], [2]), ([3], [4])]}),
        ("seeds under load", "warn", {"together": [([1], [2]), ([3], [3])]}),
        ("seeds under load", "fail", {"together": [([1], [2]), *[([3], [3])] * 9], "serving": STRICT}),
        ("adapter", "fail", {"plain": Rescored([-0.5, -1.0], [-0.5, -1.0])}),
        ("compiled path", "warn", {"serving": SERVING | {"arguments": ["--enforce-eager"]}}),
        ("leased GPUs", "fail", {"computing": {"GPU-a", "GPU-c"}}),
        ("leased GPUs", "fail", {"computing": {"GPU-a"}}),
        ("leased GPUs", "warn", {"computing": set()}),
        ("offline start", "fail", {"told_offline": False}),
        ("other seeds", "fail", {"samples": [sample(), sample()]}),
        ("stop tokens", "fail", {"stop_token_ids": []}),
        ("stop tokens", "fail", {"samples": [sample(ids=(STOP, 11, 12), finish="length"), CUT]}),
        ("stop tokens", "fail", {"samples": [sample(ids=(11, 9), reason=9), CUT]}),
        ("stop tokens", "fail", {"stops": [StopProbe(13, [11, 13, 12], "length", None)]}),
        ("stop tokens", "warn", {"stops": [StopProbe(13, [11, 15, 12], "length", None)]}),
        ("prefix cache", "fail", {"counters": {"prefix_cache_queries": 100.0, "prefix_cache_hits": 0.0}}),
        ("prefix cache", "warn", {"counters": {}}),
        ("prefix cache", "fail", {"counters": MISSED | {"block_size": 1.0}}),
        ("unseeded sampling", "fail", {"unseeded": []}),
        ("unseeded sampling", "fail", {"unseeded": [(-0.5, -3.0), (-9.0, -3.0)]}),
        ("unseeded sampling", "fail", {"unseeded": [(math.nan, -3.0)]}),
        ("named log-probabilities", "fail", {"named": []}),
        ("named log-probabilities", "fail", {"named": [(-0.5, -0.5), (-4.0, -9999.0)]}),
        ("named log-probabilities", "fail", {"named": [(-0.5, -4.0), (-4.0, -0.5)]}),
        ("named log-probabilities", "fail", {"named": [(-0.5, math.nan)]}),
        ("forms", "fail", {"forms": {}}),
        ("forms", "fail", {"forms": {"regex": True, "json": False}}),
        ("network", "fail", {"listeners": [Listener(5, "127.0.0.1", 4000), Listener(6, "0.0.0.0", 4001)]}),
        ("network", "fail", {"listeners": [Listener(6, "192.0.2.2", 4001)]}),
        ("scored again", "fail", {"errors": {"scored again": "ConnectionError: HTTP 400"}}),
    ],
)
def test_each_fault_is_told_in_its_line(name, state, change):
    assert states(dataclasses.replace(GOOD, **change)) == {name: state}


def test_checks_that_say_nothing_here_are_not_applicable():
    greedy = dataclasses.replace(GOOD, greedy=True, samples=[sample(), sample()], untested="own template")
    found = {check.name for check in run_checks(greedy) if check.state == "not applicable"}
    assert found == {"other seeds", "template ids", "reasoning marks", "adapter"}
    assert not any_failed(run_checks(greedy))


def test_on_a_cpu_no_card_is_leased_and_nothing_compiled():
    facts = dataclasses.replace(GOOD, serving=SERVING | {"device": "cpu", "gpus": []}, leased=(), computing=())
    rows = {check.name: check for check in run_checks(facts)}
    assert states(facts) == {}
    assert rows["compiled path"].seen == rows["leased GPUs"].seen == "not on CPU"


def test_few_that_differ_under_load_are_what_seeded_promises_and_free_promises_nothing():
    few = [([1], [2]), ([3], [3]), ([4], [4])]
    assert states(dataclasses.replace(GOOD, together=few)) == {}
    free = dataclasses.replace(GOOD, together=[([1], [2])], serving=SERVING | {"determinism": "free"})
    assert states(free) == {}


def test_an_adapter_that_changes_log_probabilities_is_in_use():
    facts = dataclasses.replace(GOOD, plain=Rescored([-0.5, -1.0], [-0.6, -1.0]))
    assert next(check.state for check in run_checks(facts) if check.name == "adapter") == "ok"


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


@pytest.mark.parametrize(("block_size", "state"), [(1.0, "fail"), (2.0, "not applicable"), (272.0, "not applicable")])
def test_prompts_shorter_than_a_block_of_the_cache_are_no_fault_of_it(block_size, state):
    """The last token of a prompt is always computed: one of two tokens fills a block of one, and none of two."""
    facts = dataclasses.replace(GOOD, counters=MISSED | {"block_size": block_size})
    assert next(check.state for check in run_checks(facts) if check.name == "prefix cache") == state


class Asked:
    """Stands for an engine: keeps what it is asked, and answers each question of the new probes rightly."""

    def __init__(self):
        self.bodies = []

    async def ask(self, path, body):
        self.bodies.append(body)
        if body.get("structured_outputs", {}).get("regex"):
            choice = {"text": "abc12"}
        elif body.get("structured_outputs"):
            choice = {"text": '{"label":"yes"}'}
        else:
            row = {f"token_id:{100 + place}": -1.0 - place for place in range(body["logprobs"])}
            choice = {"logprobs": {"token_logprobs": [-1.0], "top_logprobs": [row]}}
        return {"choices": [choice]}

    async def complete(self, token_ids, settings, seed):
        self.bodies.append({**settings.sampling, "seed": seed})
        return {"named_logprobs": pack_floats([99.0 - token_id for token_id in settings.sampling["logprob_token_ids"]])}


def test_the_ways_in_which_judges_and_free_studies_ask_are_tried_on_the_engine(tmp_path, monkeypatch):
    engine, facts, prepared = Asked(), Facts(samples=[sample()], stop_token_ids=[2]), ready(tmp_path, monkeypatch)
    for probe in (probes.ask_unseeded, probes.ask_named, probes.ask_forms):
        asyncio.run(probe(prepared, engine, facts))
    unseeded = engine.bodies[0]
    assert "seed" not in unseeded and unseeded["top_k"] > 1 and 0 < unseeded["top_p"] < 1 < unseeded["max_tokens"]
    assert unseeded["temperature"] == 1.0 and len(facts.unseeded) == 1
    assert len(facts.named) == 20 and all(one == other for one, other in facts.named)
    assert facts.forms == {"regex": True, "json": True}


def test_a_reply_that_breaks_a_form_is_noticed(tmp_path, monkeypatch):
    class Free(Asked):
        async def ask(self, path, body):
            return {"choices": [{"text": "I am free"}]}

    facts = Facts(samples=[sample()], stop_token_ids=[2])
    asyncio.run(probes.ask_forms(ready(tmp_path, monkeypatch), Free(), facts))
    assert facts.forms == {"regex": False, "json": False}


def test_all_requests_are_asked_again_at_once_in_the_opposite_order(tmp_path, monkeypatch):
    class Waiting:
        """Answers only when all requests are there."""

        def __init__(self):
            self.seen, self.all_there = [], asyncio.Event()

        async def complete(self, token_ids, settings, seed):
            self.seen.append(token_ids)
            if len(self.seen) == 2:
                self.all_there.set()
            await asyncio.wait_for(self.all_there.wait(), 10)
            return {"token_ids": [*token_ids, seed]}

    first, second = sample("p1", ids=(1, 5, 7)), sample("p2", ids=(1, 6, 8))
    second = dataclasses.replace(second, request=Request("p2", 0, 0, "other", 7, [1, 6]))
    engine, facts = Waiting(), Facts(samples=[first, second])
    asyncio.run(probes.ask_together(ready(tmp_path, monkeypatch), engine, facts))
    assert engine.seen == [[1, 6], [1, 5]]
    assert [(list(one), list(other)) for one, other in facts.together] == [
        ([1, 6, 8], [1, 6, 7]),
        ([1, 5, 7], [1, 5, 7]),
    ]


def test_without_its_adapter_a_model_is_asked_for_the_same_answer(tmp_path, monkeypatch):
    class Scoring:
        async def ask(self, path, body):
            value = -1.0 if body.get("model") == "mine" else -2.0
            return {
                "choices": [{"prompt_logprobs": [None, *({str(i): {"logprob": value}} for i in body["prompt"][1:])]}]
            }

    prepared, facts = ready(tmp_path, monkeypatch), Facts(samples=[sample()])
    asyncio.run(probes.ask_plain(prepared, Scoring(), facts))
    assert facts.plain is None
    with_one = dataclasses.replace(
        prepared, plan=dataclasses.replace(prepared.plan, adapters=[SimpleNamespace(name="mine")])
    )
    asyncio.run(probes.ask_plain(with_one, Scoring(), facts))
    assert facts.plain == Rescored([-1.0] * 4, [-2.0] * 4)


def test_a_reasoning_models_marks_are_found():
    reasoned = dataclasses.replace(GOOD, reasoning=True, samples=[sample(reasoning_tokens=2), CUT])
    assert states(reasoned) == {}


# ---------------------------------------------------------------- the block


def test_the_block_names_what_ran_and_no_text_of_a_prompt_or_answer():
    text = block("my-model", {"weights": {"repo": "org/m", "commit": "ab"}}, GOOD, run_checks(GOOD), "2026-01-02")
    for part in ("my-model", "repo org/m", "vllm 0.32.0", "2 x NVIDIA H100 80GB HBM3, 580.65.06", "--dtype=bfloat16"):
        assert part in text
    assert "7 tokens in 2.0 s: 4 tokens/s" in text and "start         40 s" in text
    assert text.splitlines()[0] == "```text" and text.splitlines()[-1] == "```"
    assert "passed: 16 ok" in text
    assert "SECRET" not in text and "FOLDER" not in text and "SOCKET" not in text


def test_a_failed_check_is_counted_and_says_what_to_do():
    bad = dataclasses.replace(GOOD, failed=1)
    text = block("m", {"weights": {}}, bad, run_checks(bad), "2026-01-02")
    assert "FAILED: 15 ok, 1 failed" in text and "-> look at the engine's log" in text


def test_paths_are_hidden_wherever_they_stand():
    arguments = ["--logits-processors=/home/me/x.py", "--lora", "../secret/a", '--hf-overrides={"a": "/data/b"}']
    shown = arguments_text(["--model=/home/me/m", *arguments])
    assert shown == '--logits-processors=PATH --lora PATH --hf-overrides={"a": "PATH"}'
    assert without_paths("there is no file ~/models/x (really)") == "there is no file PATH (really)"


def test_an_engine_that_did_not_start_gives_a_block_with_the_first_line_only():
    message = "the engine died (exit code 1). From /home/me/log:\n    secret line"
    text = failed_block("m", Facts(), message, "", "2026-01-02")
    assert "the engine died (exit code 1). From PATH:" in text
    assert "secret" not in text and "/home" not in text and "FAILED: 1 failed" in text


LOG = """\
(APIServer pid=1) INFO 11-22 01:00:24 [utils.py:1] args: {'model': '/home/me/m'}
(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718]     secret = "code"
(EngineCore pid=2) ERROR 11-22 01:00:26 [core.py:718] ValueError: no memory for /home/me/m with hf_PLANTEDTOKEN1
""" + "".join(f"(APIServer pid=1) RuntimeError: Engine core initialization failed, {n}\n" for n in range(9))


def test_the_block_of_an_engine_that_failed_has_its_versions_gpus_arguments_and_the_cause_in_its_log():
    text = failed_block("m", GOOD, "the engine died (exit code 1). Its last lines, from /x:\n  y", LOG, "2026-01-02")
    for part in ("vllm 0.32.0", "2 x NVIDIA H100 80GB HBM3, 580.65.06", "--dtype=bfloat16", "start         40 s"):
        assert part in text
    assert "its log       ValueError: no memory for PATH with ***" in text
    assert "initialization failed, 8" in text and "initialization failed, 0" not in text, "of the rest the last few"
    for hidden in ("/home", "PLANTED", "Traceback", "secret", "args", "last lines"):
        assert hidden not in text
    assert "FAILED: 1 failed" in text and "which is kept" in text


def ready(folder, monkeypatch):
    """Return a check whose engine dies while it starts, on a machine with four simulated GPUs of which it takes two."""
    machine = Machine(folder, monkeypatch).gpus(4)
    for name in [name for name in os.environ if name.startswith(("CUDA_", "SLURM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REFUSAL_EVAL_LOCKS", machine["REFUSAL_EVAL_LOCKS"])
    died = (
        "import sys\nif sys.argv[1] != '-c':\n    sys.exit('ValueError: No memory')\nprint('{\"vllm\": \"0.32.0\"}')\n"
    )
    (folder / "server.py").write_text(died)
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S {folder}/server.py "$@"\n')
    (folder / "python").chmod(0o755)
    python = str(folder / "python")
    plan = LoadPlan(engine_of(ENTRY), "m", "m", None, python, "cuda", "seeded", 1, 0.0, "store")
    prepared = Prepared(folder, {}, plan, folder / "engine.server.log")
    sampling = {"temperature": 0, "top_k": 0}
    monkeypatch.setattr(Prepared, "model", {"sampling": sampling, "reasoning": None})
    header = SimpleNamespace(header={"sampling": {"stop_token_ids": [2]}}, settings=RequestSettings())
    monkeypatch.setattr(Prepared, "files", lambda self: [header])
    return prepared


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return the folder for temporary files of the program, which is run inside of this process."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(check_command.tempfile, "tempdir", str(folder))
    for name in ("end_with_parent", "allow_many_connections"):
        monkeypatch.setattr(check_command, name, lambda: None)
    monkeypatch.setattr(check_command.signal, "signal", lambda *_: None)
    return folder


def test_what_is_known_before_the_start_is_told_and_the_log_is_kept_when_the_engine_dies(
    temporary, tmp_path, monkeypatch, capsys
):
    prepared = ready(tmp_path, monkeypatch)
    monkeypatch.setattr(
        check_command, "prepare", lambda *given: dataclasses.replace(prepared, log=given[3] / "engine.log")
    )
    assert main(["check", "--model", "smollm2-plain"]) == 1
    told = capsys.readouterr()
    assert "engine        vllm 0.32.0" in told.out and "--tensor-parallel-size=2" in told.out
    assert "device        cuda: 4 x Simulated, 580.95.05" in told.out
    assert "its log       ValueError: No memory" in told.out and str(tmp_path) not in told.out
    (kept,) = temporary.glob("refusal-eval-check-*")
    assert f"check: everything is kept in {kept}" in told.err
    assert "No memory" in (kept / "engine.log").read_text()


def test_a_mistake_before_anything_ran_leaves_nothing(temporary, capsys):
    assert main(["check", "--model", "smollm2-plian"]) == 1
    assert "did you mean" in capsys.readouterr().err and not list(temporary.iterdir())


def test_a_cpu_is_named_with_its_cores():
    assert device_text({"device": "cpu", "cpu": "EPYC", "cores": 2, "gpus": []}) == "cpu: EPYC, 2 cores"


# ---------------------------------------------------------------- the study behind it


def validated(repository, study, folder):
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    return load_study(study, str(folder / "study.yaml"), str(repository))


def checked(repository, model, folder, entry_changes=None):
    entry = validated(repository, asking_study(model, []), folder)["model_entries"][model]
    entry = {**entry, **(entry_changes or {})}
    (folder / "own.yaml").write_text(yaml.safe_dump(checking_catalogue(model, entry)))
    return validated(repository, checking_study(entry, [str(folder / "own.yaml")], "/cache"), folder)


def test_the_study_asks_eight_prompts_three_times_with_the_models_own_settings(repository, tmp_path):
    config = checked(repository, "smollm2-declining", tmp_path)
    model = config["model_entries"]["checked"]
    assert model["system_prompt"].startswith("You must answer") and model["sampling"]["temperature"] == 0.5
    assert config["samples"] == 3 and config["cache_dir"] == "/cache"
    assert [split["sample"]["size"] for split in config["split_entries"].values()] == [4, 4]


def test_answers_are_kept_short_except_for_reasoning(repository, tmp_path):
    long = {"sampling": {"max_tokens": 9000, "min_tokens": 100, "temperature": 1.0, "top_k": 0}}
    for reasoning, most in ((None, 64), ({"end": "</think>"}, 2048)):
        entry = {**long, "reasoning": reasoning}
        sampling = checking_catalogue("m", entry)["models"]["checked"]["sampling"]
        assert sampling == {"max_tokens": most, "min_tokens": min(100, most)}


def test_a_greedy_model_is_asked_once(repository, tmp_path):
    entry = {"sampling": {"temperature": 0, "top_k": 0}}
    assert checking_study(entry, [], "c")["samples"] == 1


def test_a_model_that_is_not_there_is_told_with_the_nearest_name(repository, tmp_path):
    with pytest.raises(Exception, match="did you mean `smollm2-plain`"):
        validated(repository, asking_study("smollm2-plian", []), tmp_path)


@pytest.mark.parametrize("fetched", [False, True])
def test_weights_that_are_in_the_cache_are_not_asked_for(fetched, repository, tmp_path, monkeypatch):
    """They are no rule's output then, and Snakemake knows of no way to make them."""
    cache, asked = tmp_path / "cache", []
    (tmp_path / "check").mkdir()

    def make(files, study, folder, root):
        asked.extend(files)
        paths = Paths(load_study(yaml.safe_load(study.read_text()), str(study), str(root)))
        described = {"engine": "smollm2-135m", "folder": "model", "tokenizer_folder": "model"}
        write_json(folder / paths.engine("smollm2-135m"), described)
        write_json(manifest, {"folder": ".", "files": {}})

    check = "smollm2-plain", [], str(cache), tmp_path / "check", repository, str
    config = checking_config(repository, tmp_path, cache)
    manifest = Path(Paths(config).weights_manifest(config["engine_entries"]["smollm2-135m"]["weights"]))
    if fetched:
        write_json(manifest, {"folder": ".", "files": {}})
    monkeypatch.setattr(module, "_make", make)
    prepared = prepare(*check)
    assert (str(manifest) in asked) is not fetched and len(asked) == len(SPLITS) + (not fetched)
    assert Path(prepared.plan.load(prepared.log).folder) == manifest.parent


def checking_config(repository, folder, cache):
    """Return the config of the check of the small model."""
    study, catalogue = folder / "study.yaml", folder / "catalogue.yaml"
    entry = checked_entry("smollm2-plain", [], study, repository, None)
    catalogue.write_text(yaml.safe_dump(checking_catalogue("smollm2-plain", entry)))
    study.write_text(yaml.safe_dump(checking_study(entry, [str(catalogue)], str(cache))))
    return load_study(yaml.safe_load(study.read_text()), str(study), str(repository))


# ---------------------------------------------------------------- the engine's silence


def test_an_engine_that_answers_a_probe_no_more_holds_up_none_of_the_others(monkeypatch):
    class Engine:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            return None

        def serving_record(self):
            return {}

        devices = ()

        def processes(self):
            return []

        metrics = staticmethod(lambda: hang())

    async def hang(*_):
        await asyncio.sleep(3600)

    async def odd(*_):
        raise TypeError("'NoneType' object is not subscriptable")  # a reply without what it should hold

    async def fine(_, __, facts, *___):
        facts.stops = [StopProbe(13, [11, 13], "stop", 13)]

    monkeypatch.setattr(probes, "engine_of", lambda _: Engine())
    monkeypatch.setattr(probes, "before_start", lambda _: {})
    for name, probe in (("_answers", fine), ("_templates", hang), ("_score_again", odd), ("_repeat", fine)):
        monkeypatch.setattr(probes, name, probe)
    for name in ("_stop", "ask_together", "ask_plain", "ask_unseeded", "ask_named", "ask_forms"):
        monkeypatch.setattr(probes, name, fine)
    engine = engine_of({"trust_remote_code": False, "stall_timeout": 0.2})
    header = {"sampling": {"stop_token_ids": []}}
    model = {"sampling": {"temperature": 1.0, "top_k": 0}, "reasoning": None}
    prepared = SimpleNamespace(model=model, engine=engine, files=lambda: [SimpleNamespace(header=header)])
    facts = Facts()

    async def check():
        async with asyncio.timeout(20):
            await probes.find_out(prepared, lambda _: None, facts)

    asyncio.run(check())
    assert facts.errors.keys() == {"template ids", "scored again", "counters"}
    assert facts.errors["template ids"] == "TimeoutError: no answer after 0.2 s" == facts.errors["counters"]
    assert facts.stops
