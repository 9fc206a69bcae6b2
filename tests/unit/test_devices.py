"""Which GPUs a job may take, and that it gets them all at once, alone, or waits."""

import json
import os
import re
import stat
import subprocess
import sys
import threading
import time

import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.engines.devices import lease as module
from refusal_eval.engines.devices import nvidia_smi
from refusal_eval.engines.devices.device_pool import LOCKED_CUDA, device_pool, gpu_names
from refusal_eval.engines.devices.lease import lease_devices, lock_folder
from refusal_eval.engines.devices.nvidia_smi import Gpu, Seen, parse_apps, parse_gpus, read_gpus
from refusal_eval.engines.process import session_members
from refusal_eval.tools.check.gpu_checks import OLDEST_DRIVERS

HEADING = "index, name, uuid, memory.total [MiB], memory.used [MiB], driver_version, mig.mode.current, compute_cap\n"
LIST = f"""\
{HEADING}0, NVIDIA A100-SXM4-80GB, GPU-00000000-aaaa, 81920 MiB, 4 MiB, 580.95.05, Disabled, 8.0
1, NVIDIA A100-SXM4-80GB, GPU-11111111-bbbb, 81920 MiB, 4 MiB, 580.95.05, Enabled, 8.0
2, NVIDIA A100-SXM4-80GB, GPU-22222222-eeee, 81920 MiB, [N/A], 580.95.05, [N/A], 8.0
"""
GPUS = parse_gpus(LIST)[0]
MACHINE = Seen(gpus=GPUS)
PART = "MIG-31111111-cccc"
# Its `state.json` says: the GPUs (`list`), what differs from a usual card (`cards`), who computes on them
# (`apps`), what nvidia-smi prints in addition (`words`), its exit code (`code`), how many seconds it takes (`slow`).
FAKE_SMI = f"""#!{sys.executable} -IS
import json, os, re, sys, time
with open(os.path.join(os.path.dirname(__file__), "state.json")) as file:
    read = json.load(file).__getitem__
time.sleep(float(read("slow") or 0))
code, words, option = int(read("code") or 0), read("words"), sys.argv[1]
query, fields = option.split("=")[0], option.split("=")[-1].split(",")
cards = json.loads(read("cards") or "{{}}")
memory = dict(line.split(", ") for line in read("memory").splitlines())
rows = []
if read("list").strip() == "" and words:
    pass
elif query == "--query-gpu":
    for index, name, uuid in re.findall(r"(?m)^GPU (\\d+): (.*) [(]UUID: (\\S+)[)]", read("list")):
        card = {{"index": index, "name": name, "uuid": uuid, "driver_version": "580.95.05", "compute_cap": "9.0",
                "memory.total": "81559", "memory.used": memory.get(uuid, "4"), "mig.mode.current": "Disabled"}}
        card |= cards.get(uuid, {{}})
        unknown = [field for field in fields if card.get(field, "") is None]
        if unknown:
            print(f'Field "{{unknown[0]}}" is not a valid field to query.')
            sys.exit(2)
        rows.append([card[field] for field in fields])
elif query == "--query-compute-apps":
    names = ("gpu_uuid", "pid", "used_memory", "process_name")
    apps = [dict(zip(names, line.split(", "))) for line in read("apps").splitlines()]
    rows = [[app.get(field, "python") for field in fields] for app in apps]
if query.startswith("--query") and "noheader" not in sys.argv[-1] and not (words and not rows):
    rows.insert(0, fields)
print("".join(", ".join(row) + "\\n" for row in rows) + words, end="")
sys.exit(code)
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return an environment with a made-up nvidia-smi; `machine.gpus(n)` gives it n GPUs."""
    made = Machine(tmp_path, monkeypatch)
    yield made
    for lease in made.leases:
        lease.release()


class Machine(dict):
    """The environment of a job on a machine with simulated GPUs."""

    def __init__(self, folder, monkeypatch):
        super().__init__(os.environ)
        self.leases = []
        self.folder = folder / "smi"
        self.folder.mkdir()
        program = self.folder / "nvidia-smi"
        program.write_text(FAKE_SMI)
        program.chmod(0o755)
        for name in [name for name in self if name.startswith(("CUDA_", "SLURM_"))]:
            del self[name]
        self["REFUSAL_EVAL_LOCKS"] = str(folder / "locks")
        monkeypatch.setenv("PATH", f"{self.folder}:{os.environ['PATH']}")
        self.answers = dict.fromkeys(("list", "memory", "apps", "cards", "words", "code", "slow"), "")
        self.set()

    def set(self, **answers):
        """Let nvidia-smi say this from now on, all of it at once: a lease that waits asks at any time."""
        self.answers |= answers
        (self.folder / "new.json").write_text(json.dumps(self.answers))
        (self.folder / "new.json").replace(self.folder / "state.json")

    def gpus(self, count):
        self.set(list="".join(f"GPU {n}: Simulated (UUID: GPU-{n}000)\n" for n in range(count)))
        return self

    def cards(self, **differences):
        """Say how GPUs differ from a usual card: `machine.cards(GPU_1={"compute_cap": "7.0"})` is the second."""
        self.set(cards=json.dumps({f"{name.replace('_', '-')}000": values for name, values in differences.items()}))
        return self

    def fails(self, words="Failed to initialize NVML: Unknown Error", code=255):
        """Let nvidia-smi fail with these words from now on."""
        self.set(list="", words=f"{words}\n", code=str(code))
        return self

    def lease(self, count, wait=None, **how):
        """Return a lease, which the end of the test gives back; `wait` is for how many seconds to wait."""
        self.leases.append(lease_devices(count, self, None if wait is None else time.monotonic() + wait, **how))
        return self.leases[-1]

    def refuses(self, count, says, wait=None, **how):
        """Check that a lease ends with an error."""
        with pytest.raises(UserError, match=says):
            self.lease(count, wait, **how)


def names(lease):
    return [device.name for device in lease.devices]


# ---------------------------------------------------------------- the pool


def test_gpus_are_read():
    name, driver = "NVIDIA A100-SXM4-80GB", "580.95.05"
    expected = (
        Gpu(0, name, "GPU-00000000-aaaa", 81920, 4, driver, 8.0),
        Gpu(1, name, "GPU-11111111-bbbb", 81920, 4, driver, 8.0, mig=True),
        Gpu(2, name, "GPU-22222222-eeee", 81920, None, driver, 8.0),
    )
    assert expected == GPUS
    assert parse_gpus("No devices were found\n") == ((), ["No devices were found"])


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["0", "2"]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, ["2", "0"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-2222, 0"}, ["2", "0"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,2"}, ["0"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2"}, ["0", "2"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2", "SLURM_STEP_GPUS": "2"}, ["2"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2", "CUDA_VISIBLE_DEVICES": "2"}, ["2"]),
        ({"SLURM_JOB_GPUS": "0"}, ["0", "2"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "4,5,6"}, ["0", "2"]),
        ({"SLURM_JOB_ID": "7"}, []),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "0"}, []),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "3"}, ["0", "2"]),
    ],
)
def test_the_pool_is_what_the_user_slurm_or_the_machine_leaves(environment, expected):
    assert [device.name for device in device_pool(environment, MACHINE).devices] == expected


def test_a_device_has_one_lock_and_one_name_for_cuda_however_it_is_spelled():
    for spelling in ("2", "GPU-2", "GPU-22222222", "GPU-22222222-eeee"):
        (device,) = device_pool({"CUDA_VISIBLE_DEVICES": spelling}, MACHINE).devices
        assert device.key == device.visible == "GPU-22222222-eeee"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,3"}, "names the device 3"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-9"}, "names the device GPU-9"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-"}, "names the device GPU-, and nvidia-smi sees"),
        ({"CUDA_VISIBLE_DEVICES": "0,GPU-0000"}, "twice"),
        ({"CUDA_VISIBLE_DEVICES": f"0,{PART}"}, f"names {PART}, a part of a GPU .MIG., which is not supported"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": PART}, f"^SLURM_JOB_GPUS names {PART}, a part of a GPU .MIG., which"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "4"}, "^SLURM_JOB_GPUS names the device 4, and nvidia-smi sees 0 "),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "2,2"}, "^SLURM_STEP_GPUS=2,2 names a device twice"),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}, "nothing tells which.*set CUDA_VISIBLE_DEVICES"),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "UUID"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(environment, says):
    with pytest.raises(UserError, match=says):
        device_pool(environment, MACHINE)


def test_without_nvidia_smi_a_gpu_has_one_spelling_which_counts_within_a_slurm_job():
    nothing = Seen(installed=False)
    here, elsewhere = ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": job} for job in ("7", "8"))
    assert device_pool(here, nothing).devices[0].key != device_pool(elsewhere, nothing).devices[0].key
    for spelling in ("0", "00"):
        assert device_pool({"CUDA_VISIBLE_DEVICES": spelling}, nothing).devices[0].key == "0"
    with pytest.raises(UserError, match="names GPU-22222222-eeee, and there is no nvidia-smi that knows it"):
        device_pool({"CUDA_VISIBLE_DEVICES": "GPU-22222222-eeee"}, nothing)
    with pytest.raises(UserError, match=r"MIG.*not supported"):
        device_pool({"CUDA_VISIBLE_DEVICES": PART}, nothing)


def test_who_is_on_a_gpu_is_read(machine):
    apps = "GPU-2000, 4711, 512, /usr/bin/python, new\nGPU-3000, 4712, [N/A], [Not Found]\nno running processes\n"
    machine.gpus(4).set(memory="GPU-0000, 3\nGPU-1000, 40000\nGPU-2000, [N/A]\n", apps=apps)
    assert [gpu.foreign for gpu in read_gpus().gpus] == [
        "",
        "40000 MiB of its memory are in use",
        "process 4711 computes on it and holds 512 MiB",
        "process 4712 computes on it",
    ]
    assert parse_apps("gpu_uuid, pid, used_gpu_memory [MiB], process_name\n") == ({}, set())


def test_a_machine_without_gpus_has_none(machine, monkeypatch):
    assert read_gpus().gpus == ()
    machine.refuses(1, "nvidia-smi finds no GPU")
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_gpus().gpus == ()
    machine.refuses(1, "there is no nvidia-smi, and CUDA_VISIBLE_DEVICES is not set")


def test_small_and_old_gpus_are_not_leased_first(machine):
    """A card for the monitor is GPU 0, and one that lacks bfloat16 has more memory than the good ones."""
    old = {"compute_cap": "7.5", "memory.total": "196608"}
    machine.gpus(4).cards(GPU_0={"memory.total": "8192"}, GPU_1=old, GPU_3={"compute_cap": "10.0"})
    lease = machine.lease(4, capability=7.5)
    assert names(lease) == ["3", "2", "0", "1"]
    lease.release()
    machine["CUDA_VISIBLE_DEVICES"] = "1,0"
    lease = machine.lease(1, capability=7.5)
    assert names(lease) == ["1"], "who names devices orders them too"


@pytest.mark.parametrize(
    ("card", "says"),
    [
        (
            {"compute_cap": "7.0"},
            "GPU 0 .Simulated. is left out: its compute capability is 7.0.*the engine's build needs 7.5",
        ),
        ({"mig.mode.current": "Enabled"}, "GPU 0 .Simulated. is left out: it is in MIG mode, which is not supported"),
    ],
)
@pytest.mark.parametrize("visible", [None, "0,1", "GPU-0,GPU-1"])
def test_gpus_that_no_engine_can_use_are_left_out_with_a_word(card, says, visible, machine, caplog):
    machine.gpus(2).cards(GPU_0=card)
    if visible:
        machine["CUDA_VISIBLE_DEVICES"] = visible
    machine.refuses(2, f"needs 2 GPUs, and the job has 1.*{says}", capability=7.5)
    lease = machine.lease(1, capability=7.5)
    assert names(lease) == ["1"] and re.search(says, caplog.text)


def test_a_driver_that_does_not_know_a_field_is_asked_without(machine):
    machine.gpus(1).cards(GPU_0={"compute_cap": None, "mig.mode.current": None, "driver_version": "470.57.02"})
    seen = read_gpus()
    assert seen.gpus == (Gpu(0, "Simulated", "GPU-0000", 81559, 4, "470.57.02"),) and not seen.error
    machine.lease(1, capability=7.5).release()


def test_what_an_engine_needs_at_least_is_what_the_locked_build_needs(repository):
    locked = re.search(r"^cuda-toolkit==(\d+)\.", (repository / "envs" / "engine-cuda.txt").read_text(), re.MULTILINE)
    assert int(locked[1]) == LOCKED_CUDA and LOCKED_CUDA in OLDEST_DRIVERS


# ---------------------------------------------------------------- nvidia-smi fails


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


@pytest.mark.parametrize("words", [MISMATCH, "NVIDIA-SMI has failed because it couldn't communicate with the driver"])
def test_no_gpu_is_leased_by_its_name_while_nvidia_smi_fails(words, machine, caplog, monkeypatch):
    """Else two jobs can hold one GPU: one knows its UUID, the other only the name in CUDA_VISIBLE_DEVICES."""
    monkeypatch.setattr(module, "FAILING_SECONDS", 0.3)
    monkeypatch.setattr(module, "SMI_SECONDS", 0.1)
    machine.gpus(1)["CUDA_VISIBLE_DEVICES"] = "0"
    machine.lease(1)
    machine.fails(words)
    for deadline in (None, time.monotonic()):
        with pytest.raises(UserError, match=f"nvidia-smi fails.*{words}"):
            lease_devices(1, machine, deadline)
    assert f"nvidia-smi fails, and is asked again for 0.3 seconds: {words}" in caplog.text


def test_an_nvidia_smi_that_does_not_answer_fails(machine, monkeypatch):
    monkeypatch.setattr(nvidia_smi, "ASK_SECONDS", 0.1)
    machine.gpus(1).set(slow="20")
    machine["CUDA_VISIBLE_DEVICES"] = "0"
    machine.refuses(1, r"nvidia-smi fails.*no answer within 0\.1 seconds", 0)


def test_a_failure_of_nvidia_smi_that_passes_delays_a_lease(machine, monkeypatch):
    monkeypatch.setattr(module, "SMI_SECONDS", 0.1)
    threading.Timer(0.5, lambda: machine.gpus(1).set(words="", code="")).start()
    lease = lease_devices(1, machine.fails(), time.monotonic() + 20)
    assert names(lease) == ["0"]


def test_a_gpu_that_is_given_back_while_nvidia_smi_fails_is_not_taken_blindly(machine, monkeypatch):
    monkeypatch.setattr(module, "SMI_SECONDS", 0.0)
    held = machine.gpus(1).lease(1)
    waiting, got = waits(machine, 1)
    machine.fails()
    held.release()
    time.sleep(1.0)
    assert not got
    machine.gpus(1).set(words="", code="")
    waiting.join()
    assert names(got[0]) == ["0"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("WARNING: infoROM is corrupted at gpu 0000:03:00.0", 14),
        ("Unable to determine the device handle for GPU0000:5E:00.0: Unknown Error", 255),
        ("Unable to determine the device handle for GPU 0000:5E:00.0: GPU is lost.  Reboot the system", 15),
        ("7, NVIDIA H100 80GB HBM3, [GPU is lost], [GPU is lost]", 15),
    ],
)
def test_the_gpus_that_nvidia_smi_lists_are_leased_whatever_its_exit_code(words, code, machine, caplog):
    machine.gpus(7).set(words=f"{words}\n", code=str(code))
    lease = machine.lease(7)
    assert len(lease.devices) == 7 and f"nvidia-smi says: {words}" in caplog.text
    lease.release()
    machine.refuses(8, f"needs 8 GPUs, and the job has 7.*{re.escape(words)}")
    machine["CUDA_VISIBLE_DEVICES"] = "7"
    machine.refuses(1, f"names the device 7.*{re.escape(words)}")


# ---------------------------------------------------------------- strangers


def test_an_mps_server_is_no_stranger(machine, caplog):
    machine.gpus(2).set(
        apps="GPU-0000, 98, 30, /usr/bin/nvidia-cuda-mps-server\nGPU-1000, 98, 30, nvidia-cuda-mps-server\n"
    )
    lease = machine.lease(2, 0)
    assert "an MPS server runs on GPU 0, 1; engines were never tried under MPS" in caplog.text
    lease.release()
    machine.set(apps="GPU-0000, 98, 30, nvidia-cuda-mps-server\nGPU-0000, 99, 5000, python\n")
    machine.refuses(2, "0 is left alone: process 99 computes on it", 0)


def test_a_wait_for_strangers_ends_and_says_what_they_do(machine, monkeypatch):
    """A virtual GPU, for one, holds memory for good that no process uses."""
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.0)
    machine.gpus(2).set(memory="GPU-0000, 2048\n")
    machine["REFUSAL_EVAL_WAIT_HOURS"] = "0.0002"
    says = "0.0002 hours.*0 is left alone: 2048 MiB of its memory are in use.*REFUSAL_EVAL_SHARED=1.*WAIT_HOURS"
    machine.refuses(2, says)
    machine["REFUSAL_EVAL_WAIT_HOURS"] = "a day"
    machine.refuses(2, "REFUSAL_EVAL_WAIT_HOURS=a day is not a number of hours")
    # A job of Slurm does not wait long for what is on its own GPUs.
    del machine["REFUSAL_EVAL_WAIT_HOURS"]
    monkeypatch.setattr(module, "WAIT_HOURS_OF_SLURM", 0.0002)
    machine |= {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"}
    machine.refuses(2, "2048 MiB")


def test_gpus_that_may_be_shared_are_leased_whatever_strangers_do(machine):
    machine.gpus(1).set(memory="GPU-0000, 2048\n", apps="GPU-0000, 99, 2048, python\n")
    machine["REFUSAL_EVAL_SHARED"] = "1"
    machine.lease(1, 0)
    machine.refuses(1, "0 is leased", 0)


# ---------------------------------------------------------------- leases


def test_two_leases_share_no_device_and_a_third_waits(machine):
    machine.gpus(4)
    first, second = machine.lease(1), machine.lease(3)
    assert names(first) == ["0"] and names(second) == ["1", "2", "3"]
    visible = {"CUDA_VISIBLE_DEVICES": "GPU-1000,GPU-2000,GPU-3000", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert second.environment() == visible
    machine.refuses(2, r"time limit.*2 of 4 devices.*0 is leased", 0.2)
    second.release()
    third = machine.lease(2, 0)
    assert names(third) == ["1", "2"]


def test_who_waits_gets_the_devices_when_they_are_given_back(machine):
    held = machine.gpus(2).lease(2)
    threading.Timer(0.7, held.release).start()
    started = time.monotonic()
    machine.lease(2, 20).release()
    assert time.monotonic() - started > 0.6


def test_an_engine_gets_whole_uuids_in_the_users_order_however_the_user_spells_them(machine):
    machine.gpus(3)["CUDA_VISIBLE_DEVICES"] = "GPU-2, 0"
    lease = machine.lease(2)
    assert lease.environment()["CUDA_VISIBLE_DEVICES"] == "GPU-2000,GPU-0000"
    assert gpu_names(lease.devices) == ["Simulated, 580.95.05", "Simulated, 580.95.05"]


def test_nothing_is_leased_for_an_engine_without_gpus(machine):
    lease = machine.lease(0)
    assert names(lease) == [] and lease.environment() == {} and not (machine.folder.parent / "locks").exists()


def test_more_devices_than_the_job_has_is_an_error_at_once_and_a_slurm_job_is_told_how_to_ask_for_them(machine):
    machine.gpus(8)["CUDA_VISIBLE_DEVICES"] = "1"
    machine.refuses(2, r"needs 2 GPUs, and the job has 1 \(CUDA_VISIBLE_DEVICES=1\)")
    del machine["CUDA_VISIBLE_DEVICES"]
    machine["SLURM_JOB_ID"] = "7"
    machine.refuses(1, r"needs 1 GPUs, and the job has none: Slurm gave it no GPU.*--gpus=N")
    machine["SLURM_JOB_GPUS"] = "5"
    assert names(machine.lease(1)) == ["5"]


def test_a_device_with_foreign_processes_is_left_alone_and_reported(machine, caplog):
    machine.gpus(3).set(apps="GPU-0000, 99, 800\n", memory="GPU-0000, 900\nGPU-1000, 5000\nGPU-2000, 10\n")
    lease = machine.lease(1)
    assert names(lease) == ["2"]
    assert "0 is left alone: process 99 computes on it" in caplog.text
    assert "1 is left alone: 5000 MiB" in caplog.text
    machine.refuses(1, "left alone", 0)


def waits(machine, count):
    """Wait for a lease in another thread, until it has had the turn; return the thread and the list for the lease."""
    found = []
    thread = threading.Thread(target=lambda: found.append(machine.lease(count, 60)))
    thread.start()
    while not any(path.read_text() for path in (machine.folder.parent / "locks").glob("turn-*")):
        time.sleep(0.02)
    return thread, found


def is_behind(machine, what):
    """Tell whether a job that needs one device comes after another one."""
    try:
        machine.lease(1, 0).release()
    except UserError as error:
        return what in str(error)
    return False


def test_who_waits_for_what_strangers_use_does_not_keep_others_from_the_rest(machine, monkeypatch):
    """Somebody computes on GPU 3 for days: a job that needs all waits, and one that needs one does not wait behind."""
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.0)
    monkeypatch.setattr(module, "SMI_SECONDS", 0.0)
    machine.gpus(4).set(apps="GPU-3000, 99, 800\n")
    large, got_large = waits(machine, 4)
    small = machine.lease(1, 30)
    assert names(small) == ["0"] and not got_large
    machine.set(apps="")
    # Now only jobs of this user are in the way, and whoever waits for all keeps the turn again.
    behind, deadline = 0, time.monotonic() + 30
    while behind < 5 and time.monotonic() < deadline:
        behind = behind + 1 if is_behind(machine, f"process {os.getpid()} waits for 4 of 4 before this one") else 0
        time.sleep(0.1)
    assert behind == 5
    small.release()
    large.join()
    assert names(got_large[0]) == ["0", "1", "2", "3"]


def test_a_device_that_was_just_given_back_is_no_strangers_for_those_who_wait(machine, monkeypatch):
    """Its memory is given back after its lease, and nvidia-smi tells it late; the turn is kept meanwhile."""
    monkeypatch.setattr(module, "SMI_SECONDS", 0.2)
    machine.gpus(2).set(memory="GPU-1000, 5000\n")
    large, got_large = waits(machine, 2)
    assert is_behind(machine, "waits for 2 of 2 before this one")
    machine.set(memory="")
    large.join()
    assert len(got_large[0].devices) == 2


def test_processes_of_a_server_that_did_not_inherit_the_lock_still_hold_the_device(machine):
    """As vLLM's engine core, if job, API server and guard are killed: it was spawned, and has no open files of them."""
    lease = machine.gpus(2).lease(1)
    core = "import os, sys, time; print('up', flush=True); time.sleep(60)"
    first = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {core!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", first], start_new_session=True, stdout=subprocess.PIPE, pass_fds=lease.files
    ) as server:
        lease.hand_to(server.pid)
        assert server.stdout.readline() == b"up\n"
        while os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.02)
        lease.release()
        (left,) = session_members(server.pid)
        try:
            machine.refuses(2, f"0 is left alone: processes {left.pid} of an engine", 0)
            other = machine.lease(1)
            assert names(other) == ["1"]
            other.release()
        finally:
            os.kill(left.pid, 9)
    machine.lease(2, 5).release()


def test_a_number_that_is_a_strangers_by_now_does_not_hold_a_device(machine):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            lease = machine.gpus(1).lease(1)
            lease.hand_to(stranger.pid)
            (path,) = (machine.folder.parent / "locks").glob("device-*")
            lease.release()
            machine.refuses(1, f"processes {stranger.pid} of an engine", 0)
            mark = json.loads(path.read_text())
            path.write_text(json.dumps(mark | {"start": mark["start"] - 1}))
            machine.lease(1, 0).release()
            path.write_text("half a ma")
            machine.lease(1, 0).release()
        finally:
            stranger.kill()


def test_a_deleted_lock_is_not_mistaken_for_the_lock(machine, monkeypatch):
    held = machine.gpus(1).lease(1)
    (path,) = (machine.folder.parent / "locks").glob("device-*")
    before = path.stat().st_ino
    held.release()
    opened = os.open(path, os.O_RDWR)
    real = module.fcntl.flock

    def deleted_meanwhile(file, how):
        monkeypatch.setattr(module.fcntl, "flock", real)
        path.unlink()
        path.touch(0o600)
        return real(file, how)

    monkeypatch.setattr(module.fcntl, "flock", deleted_meanwhile)
    file = module._try_lock(path)
    assert os.fstat(file).st_ino == path.stat().st_ino != before
    os.close(file)
    os.close(opened)


# ---------------------------------------------------------------- the folder of the locks


def test_locks_are_private_and_in_one_place_whatever_tmpdir_says(machine, monkeypatch):
    machine.gpus(1).lease(1).release()
    folder = lock_folder(machine)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert lock_folder({"TMPDIR": "/elsewhere"}) == lock_folder({}) != folder


def test_an_open_folder_of_locks_and_a_link_as_a_lock_are_refused(machine, tmp_path):
    machine.gpus(1).lease(1).release()
    (path,) = (tmp_path / "locks").glob("device-*")
    path.unlink()
    path.symlink_to(tmp_path / "target")
    machine.refuses(1, "the lock of a device cannot be opened")
    assert not (tmp_path / "target").exists()
    path.parent.chmod(0o777)
    machine.refuses(1, "is open to others")
