"""Which GPUs a job may take, and that it gets them all at once, alone, or waits."""

import json
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from refusal_eval.devices import lease as module
from refusal_eval.devices.lease import lease_devices, lock_folder
from refusal_eval.devices.pool import device_pool
from refusal_eval.devices.smi import Gpu, list_gpus, parse_list, parse_use
from refusal_eval.engines.process import session_members
from refusal_eval.errors import UserError

LIST = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-aaaa)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-11111111-bbbb)
  MIG 3g.40gb     Device  0: (UUID: MIG-31111111-cccc)
  MIG 3g.40gb     Device  1: (UUID: MIG-32222222-dddd)
GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-22222222-eeee)
"""
GPUS = parse_list(LIST)
FAKE_SMI = """#!/bin/sh
case "$1" in
  -L) cat "$SMI/list" ;;
  --query-gpu=uuid,memory.used) cat "$SMI/memory" ;;
  --query-compute-apps=*) cat "$SMI/apps" ;;
  --id=*) cat "$SMI/names" ;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return an environment with a made-up nvidia-smi; `machine.gpus(n)` gives it n GPUs."""
    return Machine(tmp_path, monkeypatch)


class Machine(dict):
    """The environment of a job on a machine with simulated GPUs."""

    def __init__(self, folder, monkeypatch):
        super().__init__(os.environ)
        self.folder = folder / "smi"
        self.folder.mkdir()
        program = self.folder / "nvidia-smi"
        program.write_text(FAKE_SMI)
        program.chmod(0o755)
        for name in [name for name in self if name.startswith(("CUDA_", "SLURM_"))]:
            del self[name]
        self["REFUSAL_EVAL_LOCKS"] = str(folder / "locks")
        monkeypatch.setenv("PATH", f"{self.folder}:{os.environ['PATH']}")
        monkeypatch.setenv("SMI", str(self.folder))
        self.set(list="", memory="", apps="", names="")

    def set(self, **answers):
        for name, text in answers.items():
            (self.folder / name).write_text(text)

    def gpus(self, count):
        self.set(list="".join(f"GPU {n}: Simulated (UUID: GPU-{n}000)\n" for n in range(count)))
        return self


def names(lease):
    return [device.name for device in lease.devices]


# ---------------------------------------------------------------- the pool


def test_gpus_and_their_parts_are_read():
    expected = [
        Gpu(0, "NVIDIA A100-SXM4-80GB", "GPU-00000000-aaaa"),
        Gpu(1, "NVIDIA A100-SXM4-80GB", "GPU-11111111-bbbb", ("MIG-31111111-cccc", "MIG-32222222-dddd")),
        Gpu(2, "NVIDIA H100 80GB HBM3", "GPU-22222222-eeee"),
    ]
    assert parse_list(LIST) == expected
    assert parse_list("No devices found.\n") == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["0", "MIG-31111111-cccc", "MIG-32222222-dddd", "2"]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, ["2", "0"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-2222, MIG-32222222-dddd"}, ["GPU-2222", "MIG-32222222-dddd"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,2"}, ["0"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2"}, ["0", "2"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2", "SLURM_STEP_GPUS": "2"}, ["2"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2", "CUDA_VISIBLE_DEVICES": "2"}, ["2"]),
        ({"SLURM_JOB_GPUS": "0"}, ["0", "MIG-31111111-cccc", "MIG-32222222-dddd", "2"]),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "4,5,6,7"}, ["0", "MIG-31111111-cccc", "MIG-32222222-dddd", "2"]),
        ({"SLURM_JOB_ID": "7"}, []),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "0"}, []),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "4"}, ["0", "MIG-31111111-cccc", "MIG-32222222-dddd", "2"]),
    ],
)
def test_the_pool_is_what_the_user_slurm_or_the_machine_leaves(environment, expected):
    assert [device.name for device in device_pool(environment, GPUS)] == expected


def test_a_device_has_one_lock_however_it_is_spelled():
    (by_number,) = device_pool({"CUDA_VISIBLE_DEVICES": "2"}, GPUS)
    (by_uuid,) = device_pool({"CUDA_VISIBLE_DEVICES": "GPU-22222222-eeee"}, GPUS)
    assert by_number.key == by_uuid.key == by_number.gpu
    (part,) = device_pool({"CUDA_VISIBLE_DEVICES": "MIG-3222"}, GPUS)
    assert part.key == "MIG-32222222-dddd" and part.gpu is None


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,3"}, "names the device 3"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-9"}, "names the device GPU-9"),
        ({"CUDA_VISIBLE_DEVICES": "0,GPU-0000"}, "twice"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "4"}, "^SLURM_JOB_GPUS names the device 4, and nvidia-smi sees 0 "),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "2,2"}, "^SLURM_STEP_GPUS=2,2 names a device twice"),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}, "nothing tells which.*set CUDA_VISIBLE_DEVICES"),
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, "UUID"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(environment, says):
    with pytest.raises(UserError, match=says):
        device_pool(environment, GPUS)


def test_without_nvidia_smi_names_count_within_a_slurm_job():
    here, elsewhere = ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": job} for job in ("7", "8"))
    assert device_pool(here, [])[0].key != device_pool(elsewhere, [])[0].key
    assert device_pool({"CUDA_VISIBLE_DEVICES": "0"}, [])[0].key == "0"


def test_who_is_on_a_gpu_is_read():
    memory = "GPU-0, 3\nGPU-1, 40000\nGPU-2, [N/A]\n"
    use = parse_use(memory, "GPU-2, 4711, 512\nGPU-3, 4712, [N/A]\nno running processes\n")
    assert use == {
        "GPU-1": "40000 MiB of its memory are in use",
        "GPU-2": "process 4711 computes on it and holds 512 MiB",
        "GPU-3": "process 4712 computes on it",
    }


def test_a_machine_without_gpus_has_none(machine, monkeypatch):
    assert list_gpus() == []
    monkeypatch.setenv("PATH", "/nowhere")
    assert list_gpus() == []
    with pytest.raises(UserError, match="nvidia-smi finds no GPU"):
        lease_devices(1, machine)


# ---------------------------------------------------------------- leases


def test_two_leases_share_no_device_and_a_third_waits(machine):
    machine.gpus(4)
    first, second = lease_devices(1, machine), lease_devices(3, machine)
    assert names(first) == ["0"] and names(second) == ["1", "2", "3"]
    assert second.environment() == {"CUDA_VISIBLE_DEVICES": "1,2,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    with pytest.raises(UserError, match=r"time limit.*2 of 4 devices.*0 is leased"):
        lease_devices(2, machine, time.monotonic() + 0.2)
    second.release()
    third = lease_devices(2, machine, time.monotonic())
    assert names(third) == ["1", "2"]
    first.release()
    third.release()


def test_who_waits_gets_the_devices_when_they_are_given_back(machine):
    held = lease_devices(2, machine.gpus(2))
    threading.Timer(0.7, held.release).start()
    started = time.monotonic()
    lease_devices(2, machine, time.monotonic() + 20).release()
    assert time.monotonic() - started > 0.6


def test_nothing_is_leased_for_an_engine_without_gpus(machine):
    lease = lease_devices(0, machine)
    assert names(lease) == [] and lease.environment() == {} and not (machine.folder.parent / "locks").exists()


def test_more_devices_than_there_are_is_an_error_at_once(machine):
    machine.gpus(2)["CUDA_VISIBLE_DEVICES"] = "1"
    with pytest.raises(UserError, match=r"needs 2 GPUs, and the job has 1 \(CUDA_VISIBLE_DEVICES=1\)"):
        lease_devices(2, machine)


def test_a_slurm_job_without_gpus_takes_none_of_the_nodes_and_says_how_to_ask_for_them(machine):
    machine.gpus(8)["SLURM_JOB_ID"] = "7"
    with pytest.raises(UserError, match=r"needs 1 GPUs, and the job has none: Slurm gave it no GPU.*--gpus=N"):
        lease_devices(1, machine)
    machine["SLURM_JOB_GPUS"] = "5"
    assert names(lease_devices(1, machine)) == ["5"]


def test_a_device_with_foreign_processes_is_left_alone_and_told(machine, caplog):
    machine.gpus(3).set(apps="GPU-0000, 99, 800\n", memory="GPU-0000, 900\nGPU-1000, 5000\nGPU-2000, 10\n")
    lease = lease_devices(1, machine)
    assert names(lease) == ["2"]
    assert "0 is left alone: process 99 computes on it" in caplog.text
    assert "1 is left alone: 5000 MiB" in caplog.text
    with pytest.raises(UserError, match="left alone"):
        lease_devices(1, machine, time.monotonic())
    lease.release()


def waits(machine, count, seconds=60.0):
    """Wait for a lease in another thread, until it has had the turn; return the thread and the list for the lease."""
    found = []
    thread = threading.Thread(target=lambda: found.append(lease_devices(count, machine, time.monotonic() + seconds)))
    thread.start()
    while not any(path.read_text() for path in (machine.folder.parent / "locks").glob("turn-*")):
        time.sleep(0.02)
    return thread, found


def is_behind(machine, what):
    """Tell whether a job that needs one device comes after another one."""
    try:
        lease_devices(1, machine, time.monotonic()).release()
    except UserError as error:
        return what in str(error)
    return False


def test_who_waits_for_what_strangers_use_does_not_keep_others_from_the_rest(machine, monkeypatch):
    """Somebody computes on GPU 3 for days: a job that needs all waits, and one that needs one does not wait behind."""
    monkeypatch.setattr(module, "STRANGER_SECONDS", 0.0)
    monkeypatch.setattr(module, "SMI_SECONDS", 0.0)
    machine.gpus(4).set(apps="GPU-3000, 99, 800\n")
    large, got_large = waits(machine, 4)
    small = lease_devices(1, machine, time.monotonic() + 30)
    assert names(small) == ["0"] and not got_large
    machine.set(apps="")
    # Now only jobs of this user are in the way, and whoever waits for all keeps the turn again.
    behind, deadline = 0, time.monotonic() + 30
    while behind < 5 and time.monotonic() < deadline:
        behind = behind + 1 if is_behind(machine, f"process {os.getpid()} waits for 4 of 4 before this one") else 0
        time.sleep(0.3)
    assert behind == 5
    small.release()
    large.join()
    assert names(got_large[0]) == ["0", "1", "2", "3"]
    got_large[0].release()


def test_a_device_that_was_just_given_back_is_no_strangers_for_those_who_wait(machine):
    """Its memory is given back after its lease, and nvidia-smi tells it late; the turn is kept meanwhile."""
    machine.gpus(2).set(memory="GPU-1000, 5000\n")
    large, got_large = waits(machine, 2)
    assert is_behind(machine, "waits for 2 of 2 before this one")
    machine.set(memory="")
    large.join()
    assert len(got_large[0].devices) == 2
    got_large[0].release()


def test_processes_of_a_server_that_did_not_inherit_the_lock_still_hold_the_device(machine):
    """As vLLM's engine core, if job, API server and guard are killed: it was spawned, and has no open files of them."""
    lease = lease_devices(1, machine.gpus(2))
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
            with pytest.raises(UserError, match=f"0 is left alone: processes {left.pid} of an engine"):
                lease_devices(2, machine, time.monotonic())
            other = lease_devices(1, machine)
            assert names(other) == ["1"]
            other.release()
        finally:
            os.kill(left.pid, 9)
    lease_devices(2, machine, time.monotonic() + 5).release()


def test_a_number_that_is_a_strangers_by_now_does_not_hold_a_device(machine):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        try:
            lease = lease_devices(1, machine.gpus(1))
            lease.hand_to(stranger.pid)
            (path,) = (machine.folder.parent / "locks").glob("device-*")
            lease.release()
            with pytest.raises(UserError, match=f"processes {stranger.pid} of an engine"):
                lease_devices(1, machine, time.monotonic())
            mark = json.loads(path.read_text())
            path.write_text(json.dumps(mark | {"start": mark["start"] - 1}))
            lease_devices(1, machine, time.monotonic()).release()
            path.write_text("half a ma")
            lease_devices(1, machine, time.monotonic()).release()
        finally:
            stranger.kill()


def test_a_deleted_lock_is_not_mistaken_for_the_lock(machine, monkeypatch):
    held = lease_devices(1, machine.gpus(1))
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
    lease_devices(1, machine.gpus(1)).release()
    folder = lock_folder(machine)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert lock_folder({"TMPDIR": "/elsewhere"}) == lock_folder({}) != folder


@pytest.mark.parametrize("what", ["link to a folder", "open to others", "link as a lock"])
def test_links_and_open_folders_are_refused(what, machine, tmp_path):
    folder = tmp_path / "locks"
    machine.gpus(1)
    if what == "link to a folder":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif what == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        lease_devices(1, machine).release()
        (path,) = folder.glob("device-*")
        path.unlink()
        path.symlink_to(tmp_path / "target")
    with pytest.raises(UserError):
        lease_devices(1, machine)
    assert not (tmp_path / "target").exists()
