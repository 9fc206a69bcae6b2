"""Where the engine runs: its environment, its priority, its devices and memory."""

import os
import subprocess
from pathlib import Path

import pytest
from engine_entries import engine_of

from refusal_eval.core.errors import UserError
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.server import check_memory, processor_id, server_environment
from refusal_eval.study.engine_environment import engine_device, gpus_needed

ENTRY = {
    "tensor_parallel": 2,
    "pipeline_parallel": 1,
    "data_parallel": 2,
    "memory_share": 0.25,
    "device": "auto",
    "python": None,
}


def test_a_gpu_engine_samples_without_kernels_that_need_a_cuda_toolkit(monkeypatch):
    assert server_environment("seeded", "cuda")["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    assert "VLLM_USE_FLASHINFER_SAMPLER" not in server_environment("seeded", "cpu")
    monkeypatch.setenv("VLLM_USE_FLASHINFER_SAMPLER", "1")  # whoever has a toolkit
    assert server_environment("free", "cuda")["VLLM_USE_FLASHINFER_SAMPLER"] == "1"


def test_the_server_finds_the_programs_of_its_own_environment_first(monkeypatch):
    monkeypatch.setenv("PATH", f"/usr/bin{os.pathsep}/bin")
    for device in ("cpu", "cuda"):
        environment = server_environment("seeded", device, python="/mine/envs/vllm/bin/python")
        assert environment["PATH"].split(os.pathsep) == ["/mine/envs/vllm/bin", "/usr/bin", "/bin"]
    monkeypatch.delenv("PATH")
    path = server_environment("seeded", "cuda", python="/mine/bin/python")["PATH"]
    assert path == f"/mine/bin{os.pathsep}{os.defpath}"


def test_the_server_runs_offline_and_without_telemetry():
    environment = server_environment("seeded", "cpu")
    assert environment["HF_HUB_OFFLINE"] == environment["VLLM_NO_USAGE_STATS"] == "1"


def test_a_strict_gpu_engine_gets_kernels_that_are_batch_invariant():
    assert server_environment("strict", "cuda")["VLLM_BATCH_INVARIANT"] == "1"
    assert "VLLM_BATCH_INVARIANT" not in server_environment("seeded", "cuda")


def test_the_servers_threads_are_its_own_affair(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # Snakemake sets it for every job
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    assert "OMP_NUM_THREADS" not in server_environment("seeded", "cpu")
    assert "OMP_NUM_THREADS" not in server_environment("seeded", "cuda")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5})
    assert server_environment("seeded", "cpu")["OMP_NUM_THREADS"] == "2", "few cores are all the engine core's"


@pytest.mark.parametrize(("cores", "priority"), [(2, 19), (16, 0)])
def test_the_api_server_stands_back_for_the_engine_on_few_cores_only(monkeypatch, cores, priority):
    load = EngineLoad(Path("log"), "seeded", "folder", "python", "cpu")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)))
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(["sleep", "60"]) as server:
        try:
            engine_of(ENTRY).server_is_ready(load, server.pid)
            assert os.getpriority(os.PRIO_PROCESS, server.pid) == (max(before, priority) if priority else before)
        finally:
            server.kill()


def test_code_that_torch_compiles_is_kept_between_starts(monkeypatch):
    for name in ("TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert server_environment("seeded", "cpu")["TORCHINDUCTOR_CACHE_DIR"] == f"/caches/vllm/inductor/{processor_id()}"
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/node/vllm")
    assert server_environment("seeded", "cpu")["TORCHINDUCTOR_CACHE_DIR"] == f"/node/vllm/inductor/{processor_id()}"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/mine")
    assert server_environment("seeded", "cpu")["TORCHINDUCTOR_CACHE_DIR"] == "/mine"


def test_gpus_are_asked_for_by_all_parallel_sizes_and_never_for_a_cpu_engine(tmp_path):
    assert gpus_needed(ENTRY, "cuda") == 4
    assert gpus_needed(ENTRY, "cpu") == 0
    assert engine_device({**ENTRY, "device": "cpu"}, tmp_path) == "cpu"
    assert engine_device(ENTRY, tmp_path) == "cuda"
    (tmp_path / ".venv" / "engine").mkdir(parents=True)
    (tmp_path / ".venv" / "engine" / "engine-kind").write_text("cpu\n")
    assert engine_device(ENTRY, tmp_path) == "cpu"


def test_too_little_memory_is_said_before_the_engine_starts(tmp_path, monkeypatch):
    import refusal_eval.engines.server as module

    monkeypatch.setattr(module, "main_memory", lambda: (8 * 2**30, 1 * 2**30))
    with pytest.raises(UserError, match=r"too little memory.*memory_share"):
        check_memory(engine_of(ENTRY), str(tmp_path), "cpu")
    check_memory(engine_of(ENTRY), str(tmp_path), "cuda")
    check_memory(engine_of({**ENTRY, "memory_share": 0.05}), str(tmp_path), "cpu")
