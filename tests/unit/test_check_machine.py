"""`refusal-eval check`: each thing that can be wrong with a machine is a line that says what to do."""

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
import sysconfig
import time
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from engine_entries import engine_of

from refusal_eval.__main__ import main
from refusal_eval.engines.devices.nvidia_smi import Seen, parse_gpus
from refusal_eval.tools.check import environment_checks, machine_checks
from refusal_eval.tools.check.check_lines import any_failed, count_outcomes, fail, ok, text_of, warn
from refusal_eval.tools.check.gpu_checks import gpu_lines
from refusal_eval.tools.check.study_needs import EngineHere, NeededSource, Needs
from refusal_eval.tools.plan import disk_use
from refusal_eval.tools.plan.disk_use import NEED

GIB, GB = 2**30, 10**9


def engine(name, device, weights=None, estimated=False, **entry):
    whole = {"dtype": "bfloat16", "memory_share": 0.9, "tensor_parallel": 1, "pipeline_parallel": 1}
    entry = whole | {"data_parallel": 1, "nodes": 1, "python": None, "quantization": None} | entry
    return EngineHere(name, engine_of(entry), device, weights, estimated)


LARGE = engine("large", "cuda", 140 * GIB, tensor_parallel=4)
TWO, ONE = engine("two", "cuda", 60 * GIB, tensor_parallel=2), engine("one", "cuda", GIB)
SMALL = engine("small", "cpu", GIB, memory_share=0.25)
H100 = "NVIDIA H100 80GB HBM3"
HEADING = "index, name, uuid, memory.total [MiB], memory.used [MiB], driver_version, mig.mode.current, compute_cap"


def smi(count=4, name=H100, total="81559 MiB", used="4 MiB", driver="580.95.05", capability="9.0", mig="Disabled"):
    """Return what nvidia-smi prints, as its manual shows it."""
    cards = [f"{place}, {name}, GPU-{place}" for place in range(count)]
    rows = [f"{card}, {total}, {used}, {driver}, {mig}, {capability}" for card in cards]
    return "\n".join([HEADING, *rows]) + "\n"


def seen(**changes):
    return Seen(gpus=parse_gpus(smi(**changes))[0])


def beside(*groups):
    """Return a machine with GPUs of several kinds: each group is what `smi` is to change, and there is one of each."""
    gpus = [parse_gpus(smi(count=1, **changes))[0][0] for changes in groups]
    places = [dataclasses.replace(gpu, index=place, uuid=f"GPU-{place}") for place, gpu in enumerate(gpus)]
    return Seen(gpus=tuple(places))


def reported(outcome, state, *words):
    """Fail unless an outcome has this state and tells these words; what is wrong has to say what to do."""
    assert outcome.state == state, outcome
    for word in words:
        assert word in f"{outcome.seen} -> {outcome.todo}", outcome
    assert bool(outcome.todo) is (state in ("warn", "fail"))


def test_the_report_has_a_line_per_check_and_one_for_what_to_do():
    lines = [("disk", ok("80 GB free")), ("memory", warn("little", "close programs")), ("driver", fail("old", "new"))]
    assert text_of(lines).splitlines() == [
        "ok    disk    80 GB free",
        "WARN  memory  little",
        "              -> close programs",
        "FAIL  driver  old",
        "              -> new",
    ]
    assert count_outcomes(lines) == "1 ok, 1 to look at, 1 failed"
    assert any_failed(lines) and not any_failed(lines[:2])


# ---------------------------------------------------------------- environments

LOCK = "# Lock.\n\nsnakemake==9.27.1 \\\n    --hash=sha256:00\n    # via -r x.in\nHugging_Face.hub==1.0\n"
LOCK += "torch==2.13.0+cpu \\\n    --hash=sha256:11\nnot-here==1.0 ; platform_machine == 'none'\n"
INSTALLED = {"snakemake": "9.27.1", "hugging-face-hub": "1.0", "torch": "2.13.0+cpu", "pip": "25.0"}
STAMP = {"lock_sha256": "ab", "python": "3.11", "machine": "x86_64", "folder": "/here/.venv/engine"}


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({}, "ok", ["cpu build"]),
        ({"stamp": None}, "fail", ["not there", "make setup"]),
        ({"python": "nowhere"}, "fail", ["not there", "make setup"]),
        ({"wanted": STAMP | {"lock_sha256": "cd"}}, "fail", ["another lock", "make setup"]),
        ({"wanted": STAMP | {"python": "3.12"}}, "fail", ["Python 3.11"]),
        ({"wanted": STAMP | {"folder": "/there"}}, "fail", ["moved"]),
        ({"installed": None}, "fail", ["does not run"]),
        ({"installed": INSTALLED | {"snakemake": "9.0"}}, "warn", ["snakemake is 9.0, not 9.27.1", "clean-envs"]),
        ({"installed": {"torch": "2.13.0+cpu"}}, "warn", ["snakemake is missing", "hugging-face-hub is missing"]),
        ({"installed": INSTALLED | {"torch": "2.13.0"}}, "warn", ["torch is 2.13.0, not 2.13.0+cpu"]),
        ({"stamp": None, "needed": False}, "not applicable", []),
    ],
)
def test_environments_and_their_locks(change, state, words, tmp_path, monkeypatch):
    now = {"stamp": STAMP, "wanted": STAMP, "installed": INSTALLED, "needed": True, "python": "python"} | change
    for name, text in (("lock", LOCK), ("python", ""), ("stamp", json.dumps(now["stamp"]))):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(environment_checks, "installed_packages", lambda python: now["installed"])
    files = {"lock": tmp_path / "lock", "stamp": tmp_path / "stamp", "python": tmp_path / now["python"]}
    planned = SimpleNamespace(name="engine", **files)
    reported(environment_checks.environment(planned, now["wanted"], now["needed"], "cpu"), state, *words)


def test_an_environment_of_the_users_own(monkeypatch):
    reported(environment_checks.own_python("/nowhere/python"), "fail", "does not run")
    assert "pytest" in environment_checks.installed_packages(sys.executable)
    for packages, state, words in [({"vllm": "0.31.0"}, "ok", ["vLLM 0.31.0"]), ({}, "fail", ["no vLLM", "`python`"])]:
        monkeypatch.setattr(environment_checks, "installed_packages", lambda python, found=packages: found)
        reported(environment_checks.own_python("/my/python"), state, *words)


# What gcc says without the file, word for word; anything but 0 is a failure.
NO_HEADER = "<stdin>:1:10: fatal error: Python.h: No such file or directory"


def compiler(folder, name="gcc", said=""):
    """Put a stand-in for a C compiler into a folder: it keeps what it is asked, and fails with what it is to say."""
    program = folder / name
    end = f'echo "{said}" >&2; exit 1' if said else "exit 0"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\ncat > {folder}/source\n{end}\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin"}


def test_a_gpu_engine_needs_a_compiler_and_pythons_headers(tmp_path):
    check = environment_checks.compiler
    reported(check(sys.executable, compiler(tmp_path)), "ok", f"{tmp_path}/gcc compiles Python.h")
    include = next(word for word in (tmp_path / "asked").read_text().split() if word.startswith("-I"))
    assert sysconfig.get_paths("posix_prefix")["include"] == include.removeprefix("-I")
    assert (tmp_path / "source").read_text() == "#include <Python.h>\n"
    lacking = compiler(tmp_path, said=NO_HEADER)
    reported(check(sys.executable, lacking), "fail", "Python.h: No such file", "python3.X-dev", "compute")
    reported(check(sys.executable, {"PATH": str(tmp_path / "empty")}), "fail", "no C compiler", "gcc")
    named = compiler(tmp_path, "cc-of-mine") | {"CC": str(tmp_path / "cc-of-mine")}
    reported(check(sys.executable, named), "ok", str(tmp_path / "cc-of-mine"))
    reported(check(sys.executable, {"PATH": "/usr/bin", "CC": str(tmp_path / "nowhere")}), "fail", "nowhere")
    reported(check("/no/python", {}), "fail", "does not run")


@pytest.mark.parametrize(
    ("kind", "engines", "compilers"),
    [
        ("cpu", None, []),
        ("cpu", [SMALL], []),
        ("cuda", [engine("own", "cpu", python="/mine/python")], []),
        ("cuda", None, ["the engine"]),
        ("cuda", [LARGE, LARGE], ["the engine"]),
        ("", [engine("own", "cuda", python="/mine/python")], ["/mine/python"]),
    ],
)
def test_the_compiler_is_asked_for_where_an_engine_computes_on_a_gpu(kind, engines, compilers, monkeypatch):
    monkeypatch.setattr(environment_checks, "compiler", lambda python, variables: ok(python))
    monkeypatch.setattr(environment_checks, "environment", lambda *_: ok(""))
    needs = None if engines is None else Needs(tuple(engines))
    lines = [name for name, _ in environment_checks.environment_lines(needs, kind, {})]
    assert [name for name in lines if "compiler" in name] == [f"C compiler for {name}" for name in compilers]
    assert "environment workflow" in lines


# ---------------------------------------------------------------- GPUs


def of_gpus(found, *engines, kind="cuda", login=False, **variables):
    return dict(gpu_lines(found, engines, kind, variables, login))


ODD = "nvidia-smi says: WARNING: infoROM is corrupted at gpu 0000:03:00.0"
FAILED = Seen(error="Failed to initialize NVML: Driver/library version mismatch")
IN_SLURM = {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    ("found", "variables", "state", "words"),
    [
        (seen(), {}, "ok", ["4 x NVIDIA H100 80GB HBM3, 80 GiB", "4 needed at a time"]),
        (seen(total="[N/A]", used="[N/A]"), {}, "ok", ["memory unknown"]),
        (Seen(installed=False), {}, "fail", ["no nvidia-smi", "driver"]),
        (FAILED, {}, "fail", ["mismatch", "reboot"]),
        (seen(count=2), {}, "fail", ["2 x NVIDIA", "large needs 4", "tensor_parallel"]),
        (dataclasses.replace(seen(count=2), warnings=(ODD,)), {}, "fail", [ODD]),
        (dataclasses.replace(seen(), warnings=(ODD,)), {}, "warn", [ODD]),
        (seen(), {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "ok", []),
        (seen(), {"CUDA_VISIBLE_DEVICES": "0"}, "fail", ["a job may lease 1 (CUDA_VISIBLE_DEVICES=0)"]),
        (seen(), {"CUDA_VISIBLE_DEVICES": "9"}, "fail", ["names the device 9", "that are there"]),
        (seen(), {"CUDA_VISIBLE_DEVICES": "MIG-1"}, "fail", ["MIG", "not supported", "whole GPUs"]),
        (seen(), IN_SLURM | {"SLURM_JOB_GPUS": "1,2"}, "fail", ["may lease 2 (SLURM_JOB_GPUS=1,2); 4 needed"]),
        (seen(), IN_SLURM, "fail", ["Slurm gave it no GPU", "in a Slurm job ask for them"]),
    ],
)
def test_as_many_gpus_as_the_largest_engine_takes(found, variables, state, words):
    reported(of_gpus(found, LARGE, SMALL, **variables)["GPUs"], state, *words)


def test_no_gpu_where_none_is_needed_or_on_a_login_node():
    nothing = Seen(installed=False)
    reported(of_gpus(nothing, SMALL, kind="cpu")["GPUs"], "not applicable")
    reported(of_gpus(nothing, LARGE, login=True)["GPUs"], "not applicable", "login node")
    reported(of_gpus(nothing)["GPUs"], "fail", "1 needed")


def test_of_an_engine_on_several_nodes_this_machine_needs_its_part():
    wide = engine("large", "cuda", 140 * GIB, tensor_parallel=8, nodes=2)
    reported(of_gpus(seen(), wide)["GPUs"], "ok", "4 needed at a time")
    reported(of_gpus(seen(count=2), wide)["GPUs"], "fail", "large needs 4")
    reported(of_gpus(seen(), wide)["GPU memory for large"], "ok", "21.0 GiB of 71.7 GiB")
    reported(machine_checks.shared_memory([wide], 2 * GIB), "ok", "2.0 GiB for 4 GPUs")


@pytest.mark.parametrize(
    ("driver", "state"),
    [("580.95.05", "ok"), ("580.65.06", "ok"), ("580.65.05", "fail"), ("570.133.20", "fail"), ("1000.1", "ok")],
)
def test_the_driver_is_new_enough_for_the_build(driver, state):
    reported(of_gpus(seen(driver=driver))["driver"], state, driver, "CUDA 13")
    reported(of_gpus(seen(driver=driver), kind="cpu")["driver"], "not applicable")


@pytest.mark.parametrize(
    ("capability", "dtype", "state", "words"),
    [
        ("9.0", "bfloat16", "ok", ["9.0"]),
        ("7.5", "float16", "ok", ["7.5"]),
        ("7.5", "bfloat16", "fail", ["7.5"]),
        ("7.0", "float16", "fail", ["7.0; the build needs 7.5"]),
        ("[N/A]", "bfloat16", "warn", ["does not tell"]),
    ],
)
def test_gpus_are_new_enough_for_build_and_number_format(capability, dtype, state, words):
    found = of_gpus(seen(capability=capability), engine("e", "cuda", dtype=dtype))
    reported(found["compute capability"], state, *words)


@pytest.mark.parametrize(
    ("changes", "of_engine", "state", "words"),
    [
        ({}, LARGE, "ok", ["39.0 GiB of 71.7 GiB"]),
        ({"used": "[N/A]"}, LARGE, "ok", ["39.0 GiB of 71.7 GiB"]),
        ({}, engine("large", "cuda", 141 * GB, tensor_parallel=2), "ok", ["69.7 GiB of 71.7 GiB"]),
        ({}, engine("large", "cuda", 141 * GB, quantization="fp8"), "warn", ["the engine quantizes them"]),
        ({"total": "40960 MiB"}, LARGE, "fail", ["tensor_parallel"]),
        ({"used": "70000 MiB"}, LARGE, "warn", ["in use", "CUDA_VISIBLE_DEVICES"]),
        ({"total": "[Insufficient Permissions]"}, LARGE, "warn", ["does not tell the memory of GPU 0, 1, 2, 3"]),
        ({}, engine("large", "cuda"), "ok", ["not known"]),
        # An estimate fails only where the weights alone are too large.
        ({}, engine("large", "cuda", 145 * GB, True), "fail", ["(estimated) of 71.7 GiB", "tensor_parallel"]),
        ({}, engine("large", "cuda", 145 * GB, True, quantization="fp8"), "warn", ["(estimated)"]),
        ({}, engine("large", "cuda", 75 * GB, True), "warn", ["(estimated)"]),
        ({}, engine("large", "cuda", 16 * GB, True), "ok", ["(estimated)"]),
    ],
)
def test_weights_fit_the_memory_of_the_gpus(changes, of_engine, state, words):
    reported(of_gpus(seen(**changes), of_engine)["GPU memory for large"], state, *words)
    assert not any("memory" in name for name in of_gpus(seen(**changes), SMALL))


@pytest.mark.parametrize(
    "other",
    [
        {"name": "NVIDIA T400", "total": "4096 MiB", "capability": "7.5"},
        {"name": "Tesla V100", "total": "32768 MiB", "capability": "7.0"},
        {"name": "Quadro", "total": "98304 MiB", "capability": "7.5"},
        {"mig": "Enabled"},
    ],
)
def test_a_small_or_old_gpu_beside_good_ones_is_no_failure(other):
    lines = of_gpus(beside(other, {}, {}), TWO)
    reported(lines["GPUs"], "ok", "2 needed")
    reported(lines["compute capability"], "ok", "9.0")
    reported(lines["GPU memory for two"], "ok", "34.0 GiB of 71.7 GiB")


@pytest.mark.parametrize(
    ("other", "words"), [({"mig": "Enabled"}, "in MIG mode, which is not supported"), ({"capability": "7.0"}, "7.5")]
)
def test_gpus_that_no_engine_can_use_do_not_count(other, words):
    reported(of_gpus(beside(other, {}), TWO)["GPUs"], "fail", "GPU 0", words)


def test_what_a_lease_will_wait_for_is_looked_at():
    """Such as a virtual GPU, of which some memory is in use for good."""
    used = [dataclasses.replace(gpu, foreign="2048 MiB of its memory are in use") for gpu in seen(count=2).gpus]
    reported(of_gpus(Seen(gpus=tuple(used)), ONE)["GPUs"], "warn", f"GPU 0: {used[0].foreign}", "REFUSAL_EVAL_SHARED=1")


# ---------------------------------------------------------------- the machine


@pytest.mark.parametrize(
    ("outcome", "state", "words"),
    [
        (machine_checks.memory(SMALL, 24 * GIB, 12 * GIB), "ok", ["6.0 GiB needed"]),
        (machine_checks.memory(SMALL, 24 * GIB, 4 * GIB), "fail", ["memory_share"]),
        (machine_checks.memory(LARGE, 24 * GIB, 10 * GIB), "warn", ["Slurm"]),
        (machine_checks.shared_memory([SMALL], 64 * 2**20), "not applicable", []),
        (machine_checks.shared_memory([LARGE], 64 * 2**20), "fail", ["--shm-size=3g"]),  # a container's default
        (machine_checks.shared_memory([LARGE], None), "fail", ["--ipc=host"]),
        (machine_checks.shared_memory([LARGE], 16 * GIB), "ok", []),
        (machine_checks.processor("cpu", "x86_64", ["sse4_2", "avx"]), "fail", []),
        (machine_checks.processor("cpu", "x86_64", ["avx2"]), "warn", []),
        (machine_checks.processor("cpu", "x86_64", ["avx2", "avx512f", "avx512_bf16"]), "ok", ["bfloat16"]),
        (machine_checks.processor("cpu", "aarch64", ["asimd"]), "ok", []),
        (machine_checks.processor("cuda", "x86_64", ["sse4_2"]), "not applicable", []),
        (machine_checks.open_files(1024, -1), "ok", ["any number"]),
        (machine_checks.open_files(1024, 4096), "ok", []),
        (machine_checks.open_files(1024, 1024), "fail", ["ulimit", "requests_in_flight"]),
        (machine_checks.sockets([("/tmp", None)]), "ok", ["/tmp"]),
        (machine_checks.sockets([("/long", "too long"), ("/tmp", None)]), "warn", ["/tmp is used instead"]),
        (machine_checks.sockets([("/long", "long"), ("/tmp", "no sockets")]), "fail", ["no sockets", "TMPDIR"]),
    ],
)
def test_what_the_machine_has_is_held_against_what_is_needed(outcome, state, words):
    reported(outcome, state, *words)


def test_this_machine_has_what_its_tests_need(tmp_path, monkeypatch):
    monkeypatch.setenv("REFUSAL_EVAL_LOCKS", str(tmp_path / "locks"))
    lines = dict(machine_checks.machine_lines(None, "cpu", os.environ))
    for name in ("open files", "sockets", "file locks", "clock"):
        assert lines[name].state in ("ok", "warn"), lines


def test_the_folder_of_the_leases_is_the_one_that_is_looked_at(tmp_path, monkeypatch):
    variables = {"REFUSAL_EVAL_LOCKS": str(tmp_path / "locks")}
    reported(machine_checks.file_locks(variables), "ok", str(tmp_path / "locks"))
    with monkeypatch.context() as patch:
        refused = OSError(37, "No locks available")
        patch.setattr(machine_checks.fcntl, "flock", lambda *_: (_ for _ in ()).throw(refused))
        reported(machine_checks.file_locks(variables), "fail", "No locks available", "REFUSAL_EVAL_LOCKS")
    (tmp_path / "locks").chmod(0o777)
    reported(machine_checks.file_locks(variables), "fail", "where leases of GPUs are noted", "chmod 700")
    nowhere = machine_checks.file_locks({"REFUSAL_EVAL_LOCKS": str(tmp_path / "not" / "there")})
    reported(nowhere, "fail", "cannot be used", "set REFUSAL_EVAL_LOCKS")
    assert "TMPDIR" not in nowhere.seen + nowhere.todo


def test_a_wrong_clock_is_seen(tmp_path, monkeypatch):
    reported(machine_checks.clock(tmp_path / "not" / "there"), "ok", "to 0.")
    assert os.listdir(tmp_path) == []
    real = time.time
    for wrong, words in ((90, "90 s ahead of"), (-90, "90 s behind")):
        monkeypatch.setattr(machine_checks.time, "time", lambda wrong=wrong: real() + wrong)
        reported(machine_checks.clock(tmp_path), "fail", words, "timedatectl")
    monkeypatch.setattr(machine_checks, "nearest_folder", lambda folder: tmp_path / "nowhere")
    reported(machine_checks.clock(tmp_path), "warn", "results_dir")


def fetching(*sources):
    return Needs(sources=sources)


OPEN = NeededSource("weights org/m", "hub", here=False)
LONG = dataclasses.replace(OPEN, size=145 * GB)
UNKNOWN = NeededSource("weights org/unknown", "hub", here=False)
SIZES = ["weights org/m (145 GB, estimated)", "weights org/unknown (size not known)", "cache_dir"]


@pytest.mark.parametrize(
    ("free", "needs", "state", "words"),
    [
        (GB // 10, Needs(), "warn", []),
        (GB // 10, fetching(OPEN), "fail", ["weights org/m", "cache_dir"]),
        (GB // 10, fetching(dataclasses.replace(OPEN, here=True)), "warn", []),
        (80 * GB, fetching(OPEN), "ok", []),
        (6 * GB, fetching(LONG, UNKNOWN), "fail", SIZES),
        (150 * GB, fetching(LONG, UNKNOWN), "fail", SIZES),  # 5 % more than the files
        (160 * GB, fetching(LONG, UNKNOWN), "ok", SIZES[:2]),
        (160 * GB, fetching(dataclasses.replace(LONG, estimated=False)), "ok", ["weights org/m (145 GB)"]),
    ],
)
def test_disk_for_what_is_still_to_be_fetched(free, needs, state, words):
    reported(machine_checks.cache_disk("folder", free, needs), state, *words)


FILLS = [("weights", ".cache", "cache_dir", 20 * GB), ("responses", "store", "store_dir", 3 * GB)]
FILLS += [("results", "results/x", "results_dir", 1 * GB)]
NEEDED = pd.DataFrame([(*row, 2 * row[-1], "") for row in FILLS], columns=NEED)


@pytest.mark.parametrize(
    ("free", "states"),
    [
        ({"store": 2 * GB, "results": 80 * GB}, {"responses": "fail", "results": "ok"}),
        ({"store": 5 * GB, "results": 80 * GB}, {"responses": "warn", "results": "ok"}),
        ({"store": 80 * GB, "results": GB // 2}, {"responses": "ok", "results": "fail"}),
    ],
)
def test_each_disk_has_room_for_what_will_lie_on_it(free, states, monkeypatch):
    monkeypatch.setattr(disk_use, "device_of", lambda folder: folder.split("/")[0])
    monkeypatch.setattr(machine_checks, "read_free", lambda folder: free.get(folder.split("/")[0], 80 * GB))
    lines = dict(machine_checks.machine_lines(Needs(disk=NEEDED), "cpu", os.environ))
    for name, state in states.items():
        outcome = lines[f"disk for {name}"]
        assert outcome.state == state, outcome
        assert outcome.todo == (
            f"make room, or set `{name.replace('responses', 'store')}_dir` to a larger disk" if state != "ok" else ""
        )


def test_one_disk_has_room_for_downloads_and_answers_together(monkeypatch):
    monkeypatch.setattr(disk_use, "device_of", lambda folder: 1)
    monkeypatch.setattr(machine_checks, "read_free", lambda folder: 22 * GB)
    lines = dict(machine_checks.machine_lines(Needs(disk=NEEDED), "cpu", os.environ))
    reported(lines["disk for results"], "fail", "24 GB needed", "`cache_dir`")
    monkeypatch.setattr(machine_checks, "read_free", lambda folder: GB // 10)
    reported(dict(machine_checks.machine_lines(None, "cpu", os.environ))["disk for results"], "warn", "results_dir")


# ---------------------------------------------------------------- unfinished downloads

DAY = 24 * 60 * 60


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache with a stale and a fresh download of two commits, one that a job writes, and what the library left."""
    monkeypatch.chdir(tmp_path)
    blobs = tmp_path / "ca che" / "hub" / "models--org--large--model" / "blobs"
    blobs.mkdir(parents=True)
    old = time.time() - 9 * DAY
    for name, size, when in [
        ("a" * 64 + ".partial", 3_000_000, old),
        ("b" * 64 + ".partial", 5, time.time() - DAY),
        ("c" * 64 + ".partial", 7, old),
        ("d" * 64 + ".1234abcd.incomplete", 1_000_000, old - DAY),
        ("e" * 64, 11, old),
    ]:
        (blobs / name).write_bytes(b"x" * size)
        os.utime(blobs / name, (when, when))
    with open(blobs / ("c" * 64 + ".partial"), "r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield tmp_path / "ca che"


def test_downloads_that_nobody_goes_on_with_are_reported_with_size_and_command(cache):
    """Neither the fresh one nor the one that a job writes is reported, or removed by the command."""
    outcome = machine_checks.unfinished_downloads(str(cache))
    reported(outcome, "warn", "2 files, 4.0 MB, of model org/large--model", "not written to for 9 days", "`make fetch`")
    before = {path.name[0] for path in cache.rglob("*") if path.is_file()}
    os.utime(next(cache.rglob("c*.partial")))  # a job that writes touches its file
    subprocess.run(["sh", "-c", outcome.todo.split("`")[-2]], check=True)
    assert before - {path.name[0] for path in cache.rglob("*") if path.is_file()} == {"a", "d"}


def test_a_cache_without_leftovers(tmp_path):
    reported(machine_checks.unfinished_downloads(str(tmp_path / "nowhere")), "ok", "older than 7 days")


# ---------------------------------------------------------------- the program


@pytest.fixture
def check(repository, monkeypatch, capsys):
    """Return a function that checks a study and returns exit code, standard output and errors."""
    monkeypatch.chdir(repository)
    return lambda study: (main(["check", str(study)]), *capsys.readouterr())


def test_the_program_tells_every_check_and_no_secret(check, repository, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_PLANTEDTOKEN")
    code, out, errors = check(repository / "config" / "config.yaml")
    for name in ("environment workflow", "memory for smollm2-135m", "disk for results", "clock", "sockets", "Slurm"):
        assert name in out
    assert "PLANTEDTOKEN" not in out + errors
    assert code == (1 if "FAIL" in out else 0)


def test_the_program_fails_where_something_fails_or_the_study_is_not_valid(check, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    catalogue = {"engines": {"smollm2-135m": {"like": "smollm2-135m", "device": "cuda", "tensor_parallel": 16}}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(catalogue))
    study = yaml.safe_load((repository / "config" / "config.yaml").read_text()) | {"study": "other"}
    (tmp_path / "s.yaml").write_text(json.dumps(study | {"catalogue": ["c.yaml"]}))
    code, out, _ = check(tmp_path / "s.yaml")
    assert code == 1 and "FAIL  GPUs" in out
    (tmp_path / "s.yaml").write_text("study: x\n")
    code, out, errors = check(tmp_path / "s.yaml")
    assert code == 1 and "mistakes in the configuration" in errors and out == ""
