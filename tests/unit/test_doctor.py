"""`refusal-eval check`: each thing that can be wrong with a machine is a line that says what to do."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import sysconfig

import pytest
import yaml
from hub_server import HubServer

from refusal_eval.config.load_study import load_study
from refusal_eval.engines.devices.nvidia_smi import Gpu, Seen, parse_gpus, read_gpus
from refusal_eval.tools.check import all_checks, environment_checks, machine_checks
from refusal_eval.tools.check import gpu_checks as gpus
from refusal_eval.tools.check import place_checks as places
from refusal_eval.tools.check.all_checks import lease_locks_check, study_needs
from refusal_eval.tools.check.check import any_failed, counted, fail, lines_of, ok, warn
from refusal_eval.tools.check.missing_files import Missing
from refusal_eval.tools.check.study_facts import EngineNeeds, Needs

GIB = 2**30
LARGE = EngineNeeds("large", "cuda", 4, 4, "bfloat16", 0.9, 140 * GIB, None)
SMALL = EngineNeeds("small", "cpu", 0, 1, "bfloat16", 0.25, GIB, None)
NEEDS = Needs((LARGE,), ("weights org/m",), 1, "results", ".cache", 10**9, 1024)
FETCHED = dataclasses.replace(NEEDS, from_hub=())
NO_HUB = dataclasses.replace(NEEDS, from_hub=(), in_hub=0)

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


def told(check, state, *words):
    """Fail unless a check has this state and tells these words; what is wrong has to say what to do."""
    assert check.state == state, check
    for word in words:
        assert word in f"{check.seen} -> {check.todo}", check
    assert bool(check.todo) is (state in ("warn", "fail"))


# ---------------------------------------------------------------- the report


def test_the_report_has_a_line_per_check_and_one_for_what_to_do():
    checks = [ok("disk", "80 GB free"), warn("memory", "little", "close programs"), fail("driver", "old", "update it")]
    assert lines_of(checks) == [
        "ok    disk    80 GB free",
        "WARN  memory  little",
        "              -> close programs",
        "FAIL  driver  old",
        "              -> update it",
    ]
    assert counted(checks) == "1 ok, 1 to look at, 1 failed"
    assert any_failed(checks) and not any_failed(checks[:2])


# ---------------------------------------------------------------- environments

LOCK = "# Lock.\n\nsnakemake==9.27.1 \\\n    --hash=sha256:00\n    # via -r x.in\nHugging_Face.hub==1.0\n"
LOCK += "torch==2.13.0+cpu \\\n    --hash=sha256:11\nnot-here==1.0 ; platform_machine == 'none'\n"
INSTALLED = {"snakemake": "9.27.1", "hugging-face-hub": "1.0", "torch": "2.13.0+cpu", "pip": "25.0"}
STAMP = {"lock_sha256": "ab", "python": "3.11", "machine": "x86_64", "folder": "/here/.venv/engine"}
GOOD = environment_checks.Environment("engine", STAMP, STAMP, True, LOCK, INSTALLED)


def test_an_environment_that_equals_its_lock():
    told(environment_checks.environment_check(GOOD, "cpu"), "ok", "cpu build")


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({"stamp": None}, "fail", ["not there", "make setup"]),
        ({"python_there": False}, "fail", ["not there", "make setup"]),
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
def test_environments_that_are_not_their_locks(change, state, words):
    told(environment_checks.environment_check(dataclasses.replace(GOOD, **change)), state, *words)


def test_conditions_and_spellings_of_pins():
    assert environment_checks.pins(LOCK) == {"snakemake": "9.27.1", "hugging-face-hub": "1.0", "torch": "2.13.0+cpu"}


def test_the_repositorys_own_workflow_environment_is_read(repository):
    found = {one.name: one for one in environment_checks.read_environments(repository, engine_needed=True)}
    assert set(found) >= {"workflow", "dev"}
    assert found["workflow"].wanted["lock_sha256"] == sha256(repository / "envs" / "workflow.txt")
    assert found["workflow"].needed and not found["dev"].needed


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_environment_of_the_users_own():
    told(environment_checks.own_python_check("e", "/my/python", {"vllm": "0.31.0"}), "ok", "vLLM 0.31.0")
    told(environment_checks.own_python_check("e", "/my/python", {"torch": "2.0"}), "fail", "no vLLM", "`python`")
    told(environment_checks.own_python_check("e", "/my/python", None), "fail", "does not run")
    assert environment_checks.installed_packages("/nowhere/python") is None
    assert "pytest" in environment_checks.installed_packages(sys.executable)


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
    told(environment_checks.compiler_check("engine", environment_checks.Compiled("gcc", "")), "ok", "gcc", "Python.h")
    there = environment_checks.compile_header(sys.executable, compiler(tmp_path))
    assert there == environment_checks.Compiled(f"{tmp_path}/gcc", "")
    include = next(word for word in (tmp_path / "asked").read_text().split() if word.startswith("-I"))
    assert sysconfig.get_paths("posix_prefix")["include"] == include.removeprefix("-I")
    assert (tmp_path / "source").read_text() == "#include <Python.h>\n"
    lacking = environment_checks.compile_header(sys.executable, compiler(tmp_path, said=NO_HEADER))
    told(
        environment_checks.compiler_check("engine", lacking),
        "fail",
        "Python.h: No such file",
        "python3.X-dev",
        "compute",
    )


def test_without_any_compiler_the_doctor_says_which_one_to_install(tmp_path):
    nothing = environment_checks.compile_header(sys.executable, {"PATH": str(tmp_path)})
    told(environment_checks.compiler_check("engine", nothing), "fail", "no C compiler", "gcc")
    named = compiler(tmp_path, "cc-of-mine") | {"CC": str(tmp_path / "cc-of-mine")}
    assert environment_checks.compile_header(sys.executable, named).compiler == str(tmp_path / "cc-of-mine")
    wrong = environment_checks.compile_header(sys.executable, {"PATH": "/usr/bin", "CC": str(tmp_path / "nowhere")})
    told(environment_checks.compiler_check("engine", wrong), "fail", "nowhere")
    told(
        environment_checks.compiler_check("e", environment_checks.compile_header("/no/python", {})),
        "fail",
        "does not run",
    )


def checked_compilers(tmp_path, monkeypatch, kind, engines):
    monkeypatch.setattr(environment_checks, "compile_header", lambda python, _: environment_checks.Compiled(python, ""))
    return [check.seen for check in all_checks.compiler_checks(engines, kind, tmp_path, {})]


def test_the_compiler_is_asked_for_where_an_engine_computes_on_a_gpu(tmp_path, monkeypatch):
    own = dataclasses.replace(LARGE, own_python="/mine/python")
    own_cpu = dataclasses.replace(SMALL, own_python="/mine/python")
    assert not checked_compilers(tmp_path, monkeypatch, "cpu", None)
    assert not checked_compilers(tmp_path, monkeypatch, "cpu", [SMALL])
    assert not checked_compilers(tmp_path, monkeypatch, "cuda", [own_cpu])
    assert len(checked_compilers(tmp_path, monkeypatch, "cuda", None)) == 1
    assert len(checked_compilers(tmp_path, monkeypatch, "cuda", [LARGE, LARGE])) == 1
    assert "/mine/python" in checked_compilers(tmp_path, monkeypatch, "", [own])[0]


# ---------------------------------------------------------------- GPUs


def test_what_nvidia_smi_prints_is_read():
    ((gpu,), others) = parse_gpus(smi(count=1))
    assert gpu == Gpu(0, "NVIDIA H100 80GB HBM3", "GPU-0", 81559, 4, "580.95.05", 9.0) and not others


def test_an_old_driver_that_lacks_a_field(tmp_path, monkeypatch):
    """The answer is that it is old, not that its kernel module may not match."""
    heading, row = (
        "index, name, uuid, memory.total [MiB], memory.used [MiB], driver_version",
        "0, T4, GPU-0, 15360 MiB, 2 MiB",
    )
    (tmp_path / "said").write_text(f"{heading}\n{row}, 470.57.02\n")
    unknown = [
        f"case $1 in *{field}*) echo 'Field \"{field}\" is not a valid field to query.'; exit 2;; esac"
        for field in ("compute_cap", "mig.mode.current")
    ]
    found = fake_smi(tmp_path, monkeypatch, "\n".join([*unknown, f"cat {tmp_path}/said"]))
    told(gpus.count_check(found, [], "cuda", False, gpus.leasable({}, found, 13)), "ok", "1 x T4, 15 GiB")
    told(gpus.driver_check(found, "cuda", 13), "fail", "470.57.02 is too old for CUDA 13")
    told(gpus.capability_check(found, "cuda", 13, []), "warn", "does not tell")
    assert parse_gpus(smi(capability="[N/A]"))[0][0].capability == 0
    told(gpus.capability_check(seen(capability="[N/A]"), "cuda", 13, [LARGE]), "warn")


def test_enough_gpus():
    told(gpus.count_check(seen(), [LARGE, SMALL], "cuda", False), "ok", "4 x NVIDIA H100 80GB HBM3, 80 GiB")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Seen(installed=False), ["no nvidia-smi", "driver"]),
        (Seen(error="NVIDIA-SMI has failed because it couldn't communicate"), ["couldn't communicate"]),
        (Seen(error="Failed to initialize NVML: Driver/library version mismatch"), ["mismatch", "reboot"]),
        (seen(count=2), ["2 x NVIDIA", "large needs 4", "tensor_parallel"]),
    ],
)
def test_too_few_gpus(found, words):
    told(gpus.count_check(found, [LARGE], "cuda", False), "fail", *words)


@pytest.mark.parametrize(
    ("visible", "state"), [(None, "ok"), ("0,1,2,3", "ok"), ("0", "fail"), ("GPU-1,GPU-2,", "fail"), ("", "fail")]
)
def test_gpus_that_are_hidden_from_jobs_do_not_count(visible, state):
    words = ["CUDA_VISIBLE_DEVICES"] if state == "fail" else []
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    told(gpus.count_check(seen(), [LARGE], "cuda", False, gpus.leasable(variables, seen())), state, *words)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ["a job may lease 0 (CUDA_VISIBLE_DEVICES=-1)"]),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ["a job may lease 0"]),
        ({"CUDA_VISIBLE_DEVICES": "9"}, ["names the device 9", "that are there"]),
        ({"CUDA_VISIBLE_DEVICES": "0,0"}, ["names a device twice"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "1,2"}, ["a job may lease 2 (SLURM_JOB_GPUS=1,2); 4 needed"]),
        ({"SLURM_JOB_ID": "7"}, ["Slurm gave it no GPU", "in a Slurm job ask for them"]),
    ],
)
def test_devices_that_a_job_cannot_lease_do_not_count(variables, words):
    told(gpus.count_check(seen(), [LARGE], "cuda", False, gpus.leasable(variables, seen())), "fail", *words)


def test_of_an_engine_on_several_nodes_this_machine_needs_its_part():
    wide = dataclasses.replace(LARGE, gpus=8, sharing=8, nodes=2)
    told(gpus.count_check(seen(), [wide], "cuda", False), "ok", "4 needed at a time")
    told(gpus.count_check(seen(count=2), [wide], "cuda", False), "fail", "large needs 4")
    told(gpus.memory_check(seen(), wide), "ok", "21.0 GiB of 71.7 GiB")
    told(machine_checks.shared_memory_check(2 * GIB, [wide]), "ok", "2.0 GiB for 4 GPUs")


def test_no_gpu_where_none_is_needed_or_on_a_login_node():
    told(gpus.count_check(Seen(installed=False), [SMALL], "cpu", False), "not applicable")
    told(gpus.count_check(Seen(installed=False), [LARGE], "cuda", True), "not applicable", "login node")
    told(gpus.count_check(Seen(installed=False), [], "cuda", False), "fail", "1 needed")


def test_the_version_of_cuda_is_read_from_the_lock(repository):
    assert gpus.cuda_version("a==1\ncuda-toolkit==13.0.3.0 \\\n") == 13
    assert gpus.cuda_version("nvidia-cuda-runtime-cu12==12.8.90\n") == 12
    assert gpus.cuda_version("torch==2\n") is None
    locked = gpus.cuda_version((repository / "envs" / "engine-cuda.txt").read_text())
    assert locked in gpus.OLDEST_DRIVERS and locked in gpus.OLDEST_CAPABILITY


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [
        ("580.95.05", 13, "ok"),
        ("580.65.06", 13, "ok"),
        ("580.65.05", 13, "fail"),
        ("570.133.20", 13, "fail"),
        ("525.60.13", 12, "ok"),
        ("470.57.02", 12, "fail"),
        ("580.95.05", 14, "warn"),
    ],
)
def test_the_driver_is_new_enough_for_the_build(driver, cuda, state):
    told(gpus.driver_check(seen(driver=driver), "cuda", cuda), state, driver)


def test_the_driver_does_not_matter_to_a_cpu_build():
    told(gpus.driver_check(seen(driver="390.1"), "cpu", 13), "not applicable")


@pytest.mark.parametrize(
    ("capability", "dtype", "state"),
    [
        ("9.0", "bfloat16", "ok"),
        ("7.5", "float16", "ok"),
        ("7.5", "bfloat16", "fail"),
        ("7.0", "float16", "fail"),
    ],
)
def test_gpus_are_new_enough_for_build_and_number_format(capability, dtype, state):
    engine = dataclasses.replace(LARGE, dtype=dtype)
    told(gpus.capability_check(seen(capability=capability), "cuda", 13, [engine]), state, capability)


def test_memory_of_the_gpus():
    told(gpus.memory_check(seen(), LARGE), "ok", "42.0 GiB of 71.7 GiB")
    told(gpus.memory_check(seen(total="40960 MiB"), LARGE), "fail", "tensor_parallel")
    told(gpus.memory_check(seen(used="70000 MiB"), LARGE), "warn", "in use", "CUDA_VISIBLE_DEVICES")
    told(gpus.memory_check(seen(), dataclasses.replace(LARGE, weights_bytes=None)), "ok", "not known")
    told(gpus.memory_check(seen(), SMALL), "not applicable")


def test_memory_of_the_gpus_for_weights_that_are_not_fetched_yet():
    """An estimate fails only where the weights alone are too large."""
    large = dataclasses.replace(LARGE, gpus=1, sharing=1, weights_bytes=145 * 10**9, estimated=True)
    told(gpus.memory_check(seen(), large), "fail", "(estimated) of 71.7 GiB", "tensor_parallel")
    told(gpus.memory_check(seen(), dataclasses.replace(large, quantized=True)), "warn", "(estimated)")
    told(gpus.memory_check(seen(), dataclasses.replace(large, weights_bytes=66 * 10**9)), "warn", "(estimated)")
    told(gpus.memory_check(seen(), dataclasses.replace(large, weights_bytes=16 * 10**9)), "ok", "(estimated)")


def fake_smi(folder, monkeypatch, script):
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return read_gpus()


def test_nvidia_smi_is_asked(tmp_path, monkeypatch):
    (tmp_path / "said").write_text(smi(count=2))
    assert len(fake_smi(tmp_path, monkeypatch, f"cat {tmp_path}/said").gpus) == 2
    message = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert fake_smi(tmp_path, monkeypatch, f'echo "{message}"; exit 9').error == message
    assert "not a list" in fake_smi(tmp_path, monkeypatch, "echo hello").error


@pytest.mark.parametrize("unknown", ["[N/A]", "[Insufficient Permissions]", "[Not Supported]"])
def test_memory_that_nvidia_smi_does_not_tell_is_no_failure(unknown):
    told(gpus.count_check(seen(total=unknown, used=unknown), [LARGE], "cuda", False), "ok", "memory unknown")
    told(
        gpus.memory_check(seen(total=unknown, used=unknown), LARGE),
        "warn",
        "does not tell the memory of GPU 0, 1, 2, 3",
    )
    told(gpus.memory_check(seen(used=unknown), LARGE), "ok", "42.0 GiB of 71.7 GiB")


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
    engine = dataclasses.replace(LARGE, gpus=2, sharing=2, weights_bytes=60 * GIB)
    found = beside(other, {}, {})
    allowed = gpus.leasable({}, found, 13)
    told(gpus.count_check(found, [engine], "cuda", False, allowed), "ok", "2 needed")
    found = gpus.of_jobs(found, allowed)
    told(gpus.capability_check(found, "cuda", 13, [engine]), "ok", "9.0")
    told(gpus.memory_check(found, engine), "ok", "36.0 GiB of 71.7 GiB")


def test_gpus_that_no_engine_can_use_do_not_count():
    two = dataclasses.replace(LARGE, gpus=2)
    for other, words in [
        ({"mig": "Enabled"}, "in MIG mode, which is not supported"),
        ({"capability": "7.0"}, "needs 7.5"),
    ]:
        found = beside(other, {})
        told(gpus.count_check(found, [two], "cuda", False, gpus.leasable({}, found, 13)), "fail", "GPU 0", words)
    part = gpus.leasable({"CUDA_VISIBLE_DEVICES": "MIG-1"}, seen(), 13)
    told(gpus.count_check(seen(), [LARGE], "cuda", False, part), "fail", "MIG", "not supported", "whole GPUs")
    told(gpus.capability_check(seen(capability="7.0"), "cuda", 13, [LARGE]), "fail", "7.0; the build needs 7.5")


def test_what_a_lease_will_wait_for_is_looked_at(tmp_path, monkeypatch):
    """Such as a virtual GPU, of which some memory is in use for good."""
    (tmp_path / "said").write_text(smi(count=2, used="2048 MiB"))
    found = fake_smi(tmp_path, monkeypatch, f"case $1 in --query-gpu*) cat {tmp_path}/said;; esac")
    one = dataclasses.replace(LARGE, gpus=1)
    words = ["GPU 0: 2048 MiB of its memory are in use", "REFUSAL_EVAL_SHARED=1"]
    told(gpus.count_check(found, [one], "cuda", False, gpus.leasable({}, found)), "warn", *words)
    found = read_gpus(strangers=False)
    told(gpus.count_check(found, [one], "cuda", False, gpus.leasable({}, found)), "ok")


def test_odd_exit_codes_of_nvidia_smi_are_looked_at(tmp_path, monkeypatch):
    (tmp_path / "said").write_text(f"{smi(count=2)}WARNING: infoROM is corrupted at gpu 0000:03:00.0\n")
    found = fake_smi(tmp_path, monkeypatch, f"cat {tmp_path}/said; exit 14")
    two = dataclasses.replace(LARGE, gpus=2)
    told(gpus.count_check(found, [two], "cuda", False, gpus.leasable({}, found)), "warn", "infoROM is corrupted")
    told(gpus.count_check(found, [LARGE], "cuda", False, gpus.leasable({}, found)), "fail", "infoROM is corrupted")


# ---------------------------------------------------------------- the machine


def test_main_memory():
    told(machine_checks.memory_check(24 * GIB, 12 * GIB, SMALL), "ok", "6.0 GiB needed")
    told(machine_checks.memory_check(24 * GIB, 4 * GIB, SMALL), "fail", "memory_share")
    told(machine_checks.memory_check(24 * GIB, 10 * GIB, LARGE), "warn", "Slurm")


def test_shared_memory():
    told(machine_checks.shared_memory_check(64 * 2**20, [SMALL]), "not applicable")
    told(machine_checks.shared_memory_check(64 * 2**20, [LARGE]), "fail", "--shm-size=3g")  # a container's default
    told(machine_checks.shared_memory_check(None, [LARGE]), "fail", "--ipc=host")
    told(machine_checks.shared_memory_check(16 * GIB, [LARGE]), "ok")


@pytest.mark.parametrize(
    ("kind", "flags", "engine", "state"),
    [
        ("x86_64", ["sse4_2", "avx"], "cpu", "fail"),
        ("x86_64", ["avx2"], "cpu", "warn"),
        ("x86_64", ["avx2", "avx512f", "avx512_bf16"], "cpu", "ok"),
        ("aarch64", ["asimd"], "cpu", "ok"),
        ("x86_64", ["sse4_2"], "cuda", "not applicable"),
    ],
)
def test_the_processor_runs_the_cpu_build(kind, flags, engine, state):
    told(machine_checks.processor_check(kind, flags, engine), state)


def test_open_files():
    told(machine_checks.open_files_check(-1, 1024), "ok")
    told(machine_checks.open_files_check(4096, 1024), "ok")
    told(machine_checks.open_files_check(1024, 1024), "fail", "ulimit", "requests_in_flight")


def test_sockets():
    told(machine_checks.sockets_check([("/tmp", None)]), "ok", "/tmp")
    told(machine_checks.sockets_check([("/long", "too long"), ("/tmp", None)]), "warn", "/tmp is used instead")
    told(machine_checks.sockets_check([("/long", "too long"), ("/tmp", "no sockets")]), "fail", "no sockets", "TMPDIR")
    assert (os.path.realpath("/tmp"), None) in [
        (os.path.realpath(folder), why) for folder, why in machine_checks.read_sockets()
    ]


def test_file_locks(tmp_path):
    told(machine_checks.locks_check("/x", "No locks available"), "fail", "No locks available", "REFUSAL_EVAL_LOCKS")
    told(machine_checks.locks_check(str(tmp_path), machine_checks.read_locks(str(tmp_path))), "ok")
    assert "No such file" in machine_checks.read_locks(str(tmp_path / "missing"))


def test_the_folder_of_the_leases_is_the_one_that_is_looked_at(tmp_path):
    told(lease_locks_check({"REFUSAL_EVAL_LOCKS": str(tmp_path / "locks")}), "ok", str(tmp_path / "locks"))
    (tmp_path / "locks").chmod(0o777)
    told(
        lease_locks_check({"REFUSAL_EVAL_LOCKS": str(tmp_path / "locks")}),
        "fail",
        "where leases of GPUs are noted",
        "chmod 700",
    )
    nowhere = {"REFUSAL_EVAL_LOCKS": str(tmp_path / "not" / "there")}
    told(lease_locks_check(nowhere), "fail", "cannot be used", "set REFUSAL_EVAL_LOCKS")
    assert "TMPDIR" not in lease_locks_check(nowhere).seen + lease_locks_check(nowhere).todo


def test_the_clock(tmp_path):
    told(machine_checks.clock_check("results", 0.3), "ok")
    told(machine_checks.clock_check("results", 90.0), "fail", "90 s ahead of", "timedatectl")
    told(machine_checks.clock_check("results", -90.0), "fail", "90 s behind")
    told(machine_checks.clock_check("results", None), "warn", "results_dir")
    assert abs(machine_checks.read_skew(tmp_path / "not" / "there")) < 1
    assert os.listdir(tmp_path) == []


def test_a_wrong_clock_is_seen(tmp_path, monkeypatch):
    real = machine_checks.time.time
    monkeypatch.setattr(machine_checks.time, "time", lambda: real() + 120)
    assert 118 < machine_checks.read_skew(tmp_path) < 122


# ---------------------------------------------------------------- disk, hub, Slurm


def test_disk():
    told(places.results_disk_check("results", 80 * 10**9, NEEDS), "ok", "1.00 GB")
    told(places.results_disk_check("results", 10**8, NEEDS), "fail", "results_dir")
    told(places.results_disk_check("results", 10**8, None), "warn")
    told(places.cache_disk_check(".cache", 10**8, NEEDS), "fail", "weights org/m", "cache_dir")
    told(places.cache_disk_check(".cache", 10**8, FETCHED), "warn")
    told(places.cache_disk_check(".cache", 80 * 10**9, NEEDS), "ok")


def test_disk_for_weights_that_are_still_to_be_fetched():
    large = Missing("weights org/m", 145 * 10**9)
    needs = dataclasses.replace(NEEDS, missing=(large, Missing("weights org/unknown")))
    words = ["weights org/m (145 GB, estimated)", "weights org/unknown (size not known)", "cache_dir"]
    told(places.cache_disk_check(".cache", 6 * 10**9, needs), "fail", *words)
    told(places.cache_disk_check(".cache", 150 * 10**9, needs), "fail", *words)  # 5 % more than the files
    told(places.cache_disk_check(".cache", 160 * 10**9, needs), "ok", *words[:2])
    exact = dataclasses.replace(NEEDS, missing=(dataclasses.replace(large, estimated=False),))
    told(places.cache_disk_check(".cache", 160 * 10**9, exact), "ok", "weights org/m (145 GB)")


def test_the_hub():
    up, down = places.Hub("https://hub", status=200), places.Hub("https://hub", reason="ConnectError")
    told(places.hub_check(NEEDS, up, False), "ok", "weights org/m")
    told(places.hub_check(NEEDS, down, False), "fail", "ConnectError", "HF_ENDPOINT", "login node")
    told(places.hub_check(NEEDS, places.Hub("https://hub", status=503), False), "fail", "HTTP 503")
    told(places.hub_check(NEEDS, places.Hub("https://hub", asked=False), True), "fail", "HF_HUB_OFFLINE")
    told(places.hub_check(FETCHED, down, False), "ok")
    told(places.hub_check(NO_HUB, down, False), "not applicable")
    told(places.hub_check(None, down, False), "warn")


def test_the_hub_is_asked_where_the_variable_says_and_no_password_of_its_address_is_told():
    with HubServer() as hub:
        address = hub.address.replace("http://", "http://me:PASSWORD@")
        found = places.read_hub({"HF_ENDPOINT": address}, ask=True)
        assert found.status is not None and hub.requests == ["HEAD /"]
    assert "PASSWORD" not in f"{found}"
    assert places.read_hub({"HF_ENDPOINT": "http://127.0.0.1:9"}, ask=True).reason == "ConnectError"
    assert places.read_hub({"HF_ENDPOINT": "http://127.0.0.1:9"}, ask=False).asked is False


def test_the_token_is_never_told(tmp_path):
    assert places.has_token({"HF_TOKEN": "hf_SECRET", "HF_HOME": str(tmp_path)})
    assert not places.has_token({"HF_HOME": str(tmp_path)})
    (tmp_path / "token").write_text("hf_SECRET")
    assert places.has_token({"HF_HOME": str(tmp_path)})
    told(places.token_check(NEEDS, True), "ok", "set")
    told(places.token_check(NEEDS, False), "warn", "gated")
    told(places.token_check(FETCHED, False), "not applicable")


def test_without_a_token_what_is_gated_cannot_be_fetched():
    gated = Missing("weights org/m", gated=True, terms="https://hub/org/m")
    needs = dataclasses.replace(NEEDS, missing=(gated, Missing("weights org/open", gated=None)))
    told(places.token_check(needs, False), "fail", "gated: weights org/m", "https://hub/org/m", "HF_TOKEN")
    told(places.token_check(needs, True), "ok")
    told(places.token_check(dataclasses.replace(NEEDS, missing=needs.missing[1:]), False), "warn")


NODES = frozenset({"gpu01", "gpu02"})


@pytest.mark.parametrize(
    ("slurm", "state", "words"),
    [
        (places.Slurm(("sinfo", "squeue", "sbatch"), None), "not applicable", []),
        (places.Slurm(("sbatch",), "2.8"), "warn", ["sbatch not found", "module"]),
        (places.Slurm((), "2.8"), "warn", ["does not answer"]),
        (places.Slurm((), None, nodes=NODES, host="login1"), "fail", ["not installed", "make setup"]),
        (places.Slurm((), "2.8", nodes=NODES, host="login1"), "ok", ["2 nodes", "login node"]),
        (places.Slurm((), "2.8", nodes=NODES, host="gpu01"), "ok", ["a node that runs jobs"]),
        (places.Slurm((), "2.8", job="77", nodes=NODES, host="gpu01"), "ok", ["inside job 77"]),
    ],
)
def test_slurm(slurm, state, words):
    told(places.slurm_check(slurm), state, *words)


def test_a_login_node_is_one_that_runs_no_jobs():
    assert places.Slurm((), "2.8", nodes=NODES, host="login1").on_login_node
    assert not places.Slurm((), "2.8", nodes=NODES, host="gpu01").on_login_node
    assert not places.Slurm((), "2.8", job="1", nodes=NODES, host="login1").on_login_node
    assert not places.Slurm(("sinfo", "squeue", "sbatch"), None).on_login_node


# ---------------------------------------------------------------- the study


def test_what_a_study_needs(repository, tmp_path):
    source = {"kind": "hub", "repo": "org/prompts", "revision": "a" * 40, "split": "train"}
    catalogue = {
        "engines": {
            "big": {
                "weights": {"kind": "hub", "repo": "org/model", "revision": "b" * 40},
                "max_model_len": 4096,
                "tensor_parallel": 2,
                "data_parallel": 2,
                "device": "cuda",
            }
        },
        "models": {"m": {"engine": "big", "sampling": {"max_tokens": 100}}},
        "datasets": {"d": {"splits": {"s": {"source": source, "expectation": "comply", "expected_rows": 50}}}},
    }
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(catalogue))
    study = {"study": "x", "models": ["m"], "splits": ["s", "sensitive"], "samples": 2, "judges": ["keyword"]}
    study |= {"catalogue": ["c.yaml"], "cache_dir": str(tmp_path / "cache")}
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(study))
    needs = study_needs(load_study(study, str(tmp_path / "x.yaml"), str(repository)), repository)
    (engine,) = needs.engines
    assert (engine.gpus, engine.sharing, engine.device, engine.weights_bytes) == (4, 2, "cuda", None)
    assert needs.from_hub == ("data set org/prompts", "weights org/model") and needs.in_hub == 2
    assert needs.response_bytes == (50 + 32) * 2 * 100 * 20
    assert needs.open_pins == ()
    catalogue["engines"]["big"]["weights"]["revision"] = None
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(catalogue))
    study_file = str(tmp_path / "x.yaml")
    assert study_needs(load_study(study, study_file, str(repository), open_pins=True), repository).open_pins == (
        "model org/model",
    )


@pytest.mark.parametrize(
    ("entry", "size", "gated"),
    [
        ({"weights_gb": 12.5}, 12_500_000_000, False),
        ({"parameters": 70}, 140_000_000_000, False),
        ({"parameters": 70, "quantization": "fp8"}, 70_000_000_000, False),
        ({"gated": True, "terms": "https://example.org/terms"}, None, True),
        ({"gated": None}, None, None),
    ],
)
def test_what_the_catalogue_knows_of_weights_that_are_not_here(entry, size, gated, repository, tmp_path):
    needs = study_with_an_engine(repository, tmp_path, entry)
    assert (needs.engines[0].weights_bytes, needs.engines[0].estimated) == (size, size is not None)
    (missing,) = needs.missing
    assert (missing.what, missing.size, missing.gated) == ("weights org/model", size, gated)
    blobs = tmp_path / "cache" / "hub" / "models--org--model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "abc.partial").write_bytes(b"x" * 1_000_000)
    (left,) = study_with_an_engine(repository, tmp_path, entry).missing
    assert left.size is None if size is None else 900_000 < size - left.size < 1_100_000, "what is here is not fetched"


def study_with_an_engine(repository, folder, entry):
    """Return what a study needs whose model runs on an engine with weights on the hub."""
    weights = {"kind": "hub", "repo": "org/model", "revision": "b" * 40}
    engine = {"weights": weights, "max_model_len": 4096, "device": "cuda", **entry}
    models = {"m": {"engine": "big", "sampling": {"max_tokens": 100}}}
    (folder / "c.yaml").write_text(yaml.safe_dump({"engines": {"big": engine}, "models": models}))
    study = {"study": "x", "models": ["m"], "splits": ["sensitive"], "samples": 2, "judges": ["keyword"]}
    study |= {"catalogue": ["c.yaml"], "cache_dir": str(folder / "cache")}
    (folder / "x.yaml").write_text(yaml.safe_dump(study))
    return study_needs(load_study(study, str(folder / "x.yaml"), str(repository)), repository)


def test_an_open_pin_is_told_with_the_command():
    assert places.pins_check(None).state == places.pins_check(NO_HUB).state == "not applicable"
    assert places.pins_check(NEEDS).state == "ok"
    check = places.pins_check(dataclasses.replace(NEEDS, open_pins=("model org/m",)))
    assert (check.state, check.seen) == ("fail", "not known yet: model org/m") and "refusal-eval pin" in check.todo


# ---------------------------------------------------------------- the program


def doctor(repository, *arguments, **variables):
    command = [sys.executable, "-m", "refusal_eval", "check", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(repository / "scripts"), **variables}
    return subprocess.run(command, capture_output=True, text=True, cwd=repository, env=environment, check=False)


def test_the_program_tells_every_check_and_no_secret(repository):
    study = str(repository / "config" / "config.yaml")
    done = doctor(repository, study, HF_TOKEN="hf_PLANTEDTOKEN")
    for name in ("environment workflow", "memory for smollm2-135m", "disk for results", "clock", "sockets", "Slurm"):
        assert name in done.stdout, done.stdout + done.stderr
    assert "PLANTEDTOKEN" not in done.stdout + done.stderr
    assert done.returncode == (1 if "FAIL" in done.stdout else 0)


def test_the_program_fails_where_something_fails(repository, tmp_path):
    catalogue = {"engines": {"smollm2-135m": {"like": "smollm2-135m", "device": "cuda", "tensor_parallel": 16}}}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(catalogue))
    study = yaml.safe_load((repository / "config" / "config.yaml").read_text()) | {"study": "other"}
    (tmp_path / "s.yaml").write_text(json.dumps(study | {"catalogue": ["c.yaml"]}))
    done = doctor(repository, str(tmp_path / "s.yaml"), PATH="/usr/bin:/bin")
    assert done.returncode == 1 and "FAIL  GPUs" in done.stdout


def test_a_study_that_is_not_valid(repository, tmp_path):
    (tmp_path / "s.yaml").write_text("study: x\n")
    done = doctor(repository, str(tmp_path / "s.yaml"))
    assert done.returncode == 1 and "mistakes in the configuration" in done.stderr and done.stdout == ""
