"""What the engine is started with and asked."""

import os
import subprocess
from pathlib import Path

import pytest
from engine_entries import engine_of, server_command

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.core.packing import unpack_floats
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.engine_client import counters_of, request_body, response_of
from refusal_eval.engines.server import check_memory, processor_id, server_environment
from refusal_eval.engines.vllm_engine import IN_THE_CORE
from refusal_eval.study.engine_environment import engine_device

ENTRY = {
    "dtype": "bfloat16",
    "quantization": None,
    "max_model_len": 2048,
    "tensor_parallel": 2,
    "pipeline_parallel": 1,
    "data_parallel": 2,
    "memory_share": 0.25,
    "device": "auto",
    "args": {"enforce-eager": True, "max_num_seqs": 64},
    "trust_remote_code": False,
    "start_timeout": 60,
    "stall_timeout": 1800,
    "python": None,
}
SAMPLING = {"max_tokens": 4, "temperature": 1.0, "top_k": 0, "stop": [], "stop_token_ids": [2]}


def test_the_server_is_started_through_the_program_that_makes_the_first_calls():
    python, flag, program = server_command("python", "folder", ENTRY, "cpu", "strict", "sock")[:3]
    assert (python, flag) == ("python", "-P")
    text = Path(program).read_text(encoding="utf-8")
    # Outside of the condition, because vLLM spawns the process that computes.
    assert text.index("first_calls.py") < text.index("\nif __name__") < text.index("api_server")
    assert Path(program).with_name("first_calls.py").is_file()


def test_the_servers_own_defaults_are_switched_off():
    command = server_command("python", "folder", ENTRY, "cuda", "seeded", "sock")
    assert {"--generation-config=vllm", "--logprobs-mode=raw_logprobs", "--tensor-parallel-size=2"} <= set(command)
    assert {"--max-num-seqs=64", "--enforce-eager"} <= set(command)
    assert "--trust-remote-code" not in command


def test_a_cpu_engine_gets_what_seeds_need_and_a_strict_gpu_engine_kernels_that_are_batch_invariant():
    seeded = server_command("python", "folder", ENTRY, "cpu", "seeded", "sock")
    assert "--no-enable-chunked-prefill" in seeded
    assert f"--max-num-batched-tokens={max(4096, ENTRY['max_model_len'])}" in seeded
    assert server_environment("strict", "cuda")["VLLM_BATCH_INVARIANT"] == "1"
    assert "VLLM_BATCH_INVARIANT" not in server_environment("seeded", "cuda")


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


def test_the_servers_threads_are_its_own_affair(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # Snakemake sets it for every job
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    assert "OMP_NUM_THREADS" not in server_environment("seeded", "cpu")
    assert "OMP_NUM_THREADS" not in server_environment("seeded", "cuda")


def test_on_few_cores_the_engine_core_computes_with_all_of_them(monkeypatch):
    alone = ENTRY | {"tensor_parallel": 1, "data_parallel": 1}
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5})  # of however many the machine has
    assert server_environment("seeded", "cpu")["OMP_NUM_THREADS"] == "2"
    command = server_command("python", "folder", alone, "cpu", "seeded", "sock")
    assert f"--distributed-executor-backend={IN_THE_CORE}" in command
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    assert IN_THE_CORE not in " ".join(server_command("python", "folder", alone, "cpu", "seeded", "sock"))


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


@pytest.mark.parametrize("entry", [{"tensor_parallel": 2}, {"data_parallel": 2}, {"pipeline_parallel": 2}])
def test_an_engine_of_several_workers_has_a_process_for_each(entry, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {3, 5})
    alone = ENTRY | {"tensor_parallel": 1, "data_parallel": 1}
    own = alone | {"args": {"distributed_executor_backend": "mp"}}
    for one, in_the_core in ((alone, True), (alone | entry, False), (own, False)):
        command = server_command("python", "folder", one, "cpu", "seeded", "sock")
        assert (f"--distributed-executor-backend={IN_THE_CORE}" in command) is in_the_core


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


def test_every_sampling_parameter_is_sent_and_stop_tokens_are_ours():
    settings = RequestSettings(sampling=SAMPLING)
    body = request_body([1, 2], settings, seed=5)
    assert body["prompt"] == [1, 2] and body["seed"] == 5
    assert body["ignore_eos"] is True and body["stop_token_ids"] == [2]
    assert body["add_special_tokens"] is False and body["n"] == 1
    assert "seed" not in request_body([1], settings, None)


def reply(**choice):
    base = {"text": "hi", "token_ids": [5, 2], "logprobs": {"token_logprobs": [-0.5, -1.0]}}
    ended = {"finish_reason": "stop", "stop_reason": 2}
    return {"choices": [{**base, **ended, **choice}], "usage": {"prompt_tokens": 3}}


def test_a_response_keeps_token_ids_and_exact_log_probabilities():
    response = response_of(reply(), SAMPLING)
    assert response["token_ids"] == [5, 2]
    assert unpack_floats(response["logprobs"]).tolist() == [-0.5, -1.0]


def test_named_tokens_are_read_by_id_in_the_order_asked_for():
    top = {"token_id:9": -3.0, "token_id:5": -0.5, "token_id:7": -2.0}
    logprobs = {"token_logprobs": [-0.5], "top_logprobs": [top]}
    response = response_of(reply(token_ids=[5], logprobs=logprobs), {**SAMPLING, "logprob_token_ids": [7, 9]})
    assert unpack_floats(response["named_logprobs"]).tolist() == [-2.0, -3.0]


def test_counters_are_summed_over_reasons_and_engines():
    text = (
        "# HELP x\n"
        'vllm:request_success_total{engine="0",finished_reason="stop"} 3.0\n'
        'vllm:request_success_total{engine="0",finished_reason="length"} 4.0\n'
        'vllm:prompt_tokens_total{engine="0"} 100.0\n'
        'vllm:prompt_tokens_created{engine="0"} 1.7e9\n'
    )
    assert counters_of(text)["requests"] == 7
    assert counters_of(text)["prompt_tokens"] == 100
    assert "block_size" not in counters_of(text)


def test_the_size_of_the_caches_blocks_is_read_and_not_summed():
    text = "".join(
        f'vllm:cache_config_info{{cache_dtype="auto",hash_block_size="16",block_size="272",engine="{engine}"}} 1.0\n'
        for engine in range(2)
    )
    assert counters_of(text)["block_size"] == 272
    assert "block_size" not in counters_of(text.replace('"272"', '"None"'))


def test_the_device_is_the_entrys_or_what_the_environment_was_built_for(tmp_path):
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
