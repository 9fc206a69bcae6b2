"""What an engine's entry becomes on vLLM's command line, and what else its server is started with."""

import argparse
import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from engine_entries import engine_identity, engine_of, server_command

from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.engines import server as server_module
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.engines.engine_client import request_body
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.server import Server, check_memory, processor_id, server_environment
from refusal_eval.engines.vllm_engine import IN_THE_CORE, VllmEngine, load_format_of
from refusal_eval.features.lora.adapter import Adapter
from refusal_eval.features.lora.loaded_adapters import MAX_LORA_RANKS
from refusal_eval.features.lora.lora_change import adapter_name
from refusal_eval.study.engine_environment import engine_device
from refusal_eval.weights.engine_file import engine_id, weight_source

HUB = {"kind": "hub", "repo": "org/name", "revision": "a" * 40}


def entry(**changes: Any) -> dict[str, Any]:
    return VllmEngine(**{"weights": HUB, "max_model_len": 4096, **changes}).model_dump(mode="json")


ENTRY = entry()


def command(adapters: list[Adapter] | None = None, device: str = "cuda", **changes: Any) -> list[str]:
    return server_command("python", "folder", entry(**changes), device, "seeded", "sock", adapters or ())


def option(found: list[str], name: str) -> str:
    """Return an option's value; it must be given once, and in one word with its name."""
    (word,) = [word for word in found if word == f"--{name}" or word.startswith(f"--{name}=")]
    return word.removeprefix(f"--{name}=")


@pytest.mark.parametrize(
    ("key", "value", "name", "shown"),
    [
        ("tensor_parallel", 4, "tensor-parallel-size", "4"),
        ("pipeline_parallel", 2, "pipeline-parallel-size", "2"),
        ("data_parallel", 8, "data-parallel-size", "8"),
        ("dtype", "float16", "dtype", "float16"),
        ("quantization", "fp8", "quantization", "fp8"),
        ("max_model_len", 512, "max-model-len", "512"),
        ("memory_share", 0.35, "gpu-memory-utilization", "0.35"),
    ],
)
def test_each_field_reaches_the_command_line(key: str, value: object, name: str, shown: str) -> None:
    assert option(command(**{key: value}), name) == shown


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("determinism", ["strict", "seeded", "free"])
def test_a_strict_cpu_engine_computes_each_request_by_itself(determinism: str, device: str) -> None:
    args = {"enable-prefix-caching": True, "max-num-seqs": 8}
    found = server_command("python", "folder", entry(args=args), device, determinism, "sock")
    alone = (determinism, device) == ("strict", "cpu")
    assert option(found, "max-num-seqs") == ("1" if alone else "8")
    assert ("--no-enable-prefix-caching" in found, "--enable-prefix-caching" in found) == (alone, not alone)


def test_what_is_not_asked_for_is_not_switched_on_nor_the_servers_own_defaults() -> None:
    plain = command()
    assert {"--generation-config=vllm", "--logprobs-mode=raw_logprobs"} <= set(plain)
    for name in ("--quantization", "--trust-remote-code", "--enable-lora", "--lora-modules", "--nnodes", "--headless"):
        assert name not in plain
    assert "--trust-remote-code" in command(trust_remote_code=True)


def test_free_arguments_reach_it_in_one_spelling_and_win_over_ours() -> None:
    args = {
        "max-num-seqs": 64,
        "swap-space": 1.5,
        "enforce-eager": True,
        "enable-prefix-caching": False,
        "no-async-scheduling": False,
        "no-enable-chunked-prefill": True,
        "kv-cache-dtype": "fp8",
        "hf-overrides": '{"a": 1}',
    }
    found = command(args=args)
    assert option(found, "max-num-seqs") == "64" and option(found, "swap-space") == "1.5"
    assert option(found, "kv-cache-dtype") == "fp8" and option(found, "hf-overrides") == '{"a": 1}'
    assert {"--enforce-eager", "--no-enable-prefix-caching", "--async-scheduling"} <= set(found)
    assert found.count("--no-enable-chunked-prefill") == 1
    spelled = server_command("python", "folder", ENTRY | {"args": {"max_num_seqs": 64}}, "cuda", "seeded", "sock")
    assert option(spelled, "max-num-seqs") == "64"
    on_cpu = command(device="cpu", args={"block-size": 64, "no-enable-chunked-prefill": False})
    assert option(on_cpu, "block-size") == "64"
    assert "--enable-chunked-prefill" in on_cpu and "--no-enable-chunked-prefill" not in on_cpu


def test_a_cpu_engine_gets_what_seeds_need_and_compiles_nothing_unless_its_entry_says_so() -> None:
    assert {"--no-enable-chunked-prefill", "--enforce-eager"} <= set(command(device="cpu"))
    for longest, batched in ((2048, "4096"), (5000, "5000")):
        assert option(command(device="cpu", max_model_len=longest), "max-num-batched-tokens") == batched
    for args in ({"enforce-eager": False}, {"no-enforce-eager": True}):
        found = command(device="cpu", args=args)
        assert "--no-enforce-eager" in found and "--enforce-eager" not in found
    assert not any("enforce-eager" in word for word in command(device="cuda"))


def server_parser() -> argparse.ArgumentParser:
    """Return a parser with some of vLLM's options, in the shapes that vLLM gives them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model_tag", nargs="?")
    for name in ("enforce-eager", "trust-remote-code", "enable-chunked-prefill"):
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    for name in ("model", "uds", "structured-outputs-config", "hf-overrides", "quantization", "kv-cache-dtype"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--watermark", type=float)
    return parser


@pytest.mark.parametrize("value", ["--model=/tmp/other", "--trust-remote-code", "--uds=/tmp/open.sock", "/tmp/other"])
@pytest.mark.parametrize("name", ["enforce-eager", "hf-overrides", "kv-cache-dtype", "quantization"])
def test_no_value_of_an_entry_is_read_as_another_argument(
    name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither as an option nor as the model, which vLLM also takes without a name."""
    change = {"quantization": value} if name == "quantization" else {"args": {name: value}}
    taken = ENTRY | change  # as of a caller that did not check it
    words = server_command("python", "folder", taken, "cuda", "seeded", "sock")[3:]
    try:
        found, _ = server_parser().parse_known_args(words)
    except SystemExit:  # refused: a switch takes no value
        assert f"ignored explicit argument '{value}'" in capsys.readouterr().err
        return
    assert (found.model, found.model_tag, found.uds, found.trust_remote_code) == ("folder", None, "sock", None)
    assert getattr(found, name.replace("-", "_")) == value


def test_values_of_any_shape_arrive_as_they_are() -> None:
    args = {"hf-overrides": '{"a": "x=y -- z"}', "watermark": -0.5, "kv-cache-dtype": "a b=c"}
    found, _ = server_parser().parse_known_args(command(args=args)[3:])
    assert (found.hf_overrides, found.watermark, found.kv_cache_dtype) == tuple(args.values())


def test_weights_are_read_as_safetensors_and_never_as_pickles(tmp_path: Path) -> None:
    assert option(command(), "load-format") == "safetensors"
    (tmp_path / "pytorch_model.bin").write_text("x")
    assert load_format_of(tmp_path) == "safetensors"  # vLLM then finds nothing, and says so, instead of unpickling
    (tmp_path / "consolidated.safetensors").write_text("x")
    assert load_format_of(tmp_path) == "mistral"  # what vLLM's `auto` takes, with names of its own
    assert option(command(args={"load-format": "dummy"}), "load-format") == "dummy"


def test_how_weights_are_read_changes_no_key() -> None:
    identity = engine_identity(entry(), weight_source(HUB).identity(None))
    assert engine_id(identity) == "97d713135fe4e2dc"  # as before `load-format` was written out
    for serving in ("safetensors", "auto", "fastsafetensors"):
        assert engine_identity(entry(args={"load-format": serving}), weight_source(HUB).identity(None)) == identity
    changes: list[dict[str, Any]] = [{"tensor_parallel": 2, "nodes": 2}, {"args": {"max-loras": 2}}]
    changes += [{"verified": {"date": "2026-11-22", "version": "0.32.0", "device": "cpu"}}]
    for change in changes:
        assert engine_identity(entry(**change), weight_source(HUB).identity(None)) == identity


@pytest.mark.parametrize(
    ("args", "replicas", "device", "expected"),
    [
        ({}, 1, "cpu", 1024),
        ({}, 1, "cuda", 2048),
        ({}, 8, "cuda", 16_384),
        ({"max-num-seqs": 64}, 1, "cuda", 1024),
        ({"max_num_seqs": 3000}, 2, "cuda", 12_000),
    ],
)
def test_as_many_requests_wait_at_the_engine_as_it_batches(
    args: dict[str, Any], replicas: int, device: str, expected: int
) -> None:
    assert engine_of({"args": args, "data_parallel": replicas}).most_at_once(device) == expected


# ---------------------------------------------------------------- LoRA

ADAPTERS = [Adapter("b", {}, "lora-b", "/a=b/with space", 12), Adapter("a", {}, "lora-a", "/other", 8)]


def test_exactly_the_adapters_that_are_asked_are_served_under_names_of_ours() -> None:
    found = command(ADAPTERS)
    at = found.index("--lora-modules")  # a list: its values are words of their own
    modules = [json.loads(text) for text in found[at + 1 : at + 3]]
    assert modules == [{"name": "lora-a", "path": "/other"}, {"name": "lora-b", "path": "/a=b/with space"}]
    assert "--enable-lora" in found
    names = ("max-lora-rank", "max-loras", "max-cpu-loras")
    assert [option(found, name) for name in names] == ["16", "2", "2"]
    assert command(ADAPTERS) == command(ADAPTERS[::-1])


def test_many_adapters_wait_in_main_memory_and_the_user_says_how_many_at_once() -> None:
    many = [Adapter("m", {}, f"lora-{n:02}", "/x", 4) for n in range(20)]
    assert (option(command(many), "max-loras"), option(command(many), "max-cpu-loras")) == ("8", "20")
    own = command(many, args={"max-loras": 3})
    assert (option(own, "max-loras"), option(own, "max-cpu-loras")) == ("3", "20")
    more = command(many, args={"max-loras": 30, "max-cpu-loras": 25})
    assert (option(more, "max-loras"), option(more, "max-cpu-loras")) == ("30", "30"), "fewer in memory cannot start"


@pytest.mark.parametrize(("adapters", "own", "slots"), [(1, {}, 2), (2, {}, 3), (20, {}, 21), (2, {"max-loras": 1}, 3)])
def test_on_a_cpu_the_last_slot_stays_empty(adapters: int, own: dict[str, int], slots: int) -> None:
    """There vLLM takes its weights for requests without an adapter."""
    many = [Adapter("m", {}, f"lora-{n:02}", "/x", 4) for n in range(adapters)]
    found = command(many, device="cpu", args=own)
    assert (option(found, "max-loras"), option(found, "max-cpu-loras")) == (str(slots), str(slots))


@pytest.mark.parametrize("value", [0, "two", True])
def test_numbers_of_adapters_are_whole_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="`max-loras` must be a whole number, at least 1"):
        entry(args={"max-loras": value})


def test_the_largest_rank_is_rounded_up_to_what_vllm_allows(repository: Path) -> None:
    for rank, allowed in ((1, "1"), (2, "8"), (8, "8"), (9, "16"), (64, "64"), (65, "128"), (512, "512")):
        assert option(command([Adapter("m", {}, "lora", "/x", rank)]), "max-lora-rank") == allowed
    for source in repository.glob(".venv/engine/lib/python3*/site-packages/vllm/config/lora.py"):
        line = next(line for line in source.read_text().splitlines() if line.startswith("MaxLoRARanks"))
        assert tuple(ast.literal_eval(line.split("Literal", 1)[1])) == tuple(MAX_LORA_RANKS)


def test_a_request_names_its_adapter_and_one_without_names_the_model() -> None:
    lora = {"repo": "org/adapter", "commit": "a" * 40}
    assert request_body([1], RequestSettings(changes={"lora": lora}), 5)["model"] == adapter_name(lora)
    assert request_body([1], RequestSettings(), 5)["model"] == "model"


def test_every_sampling_parameter_is_sent_and_stop_tokens_are_ours() -> None:
    sampling = {"max_tokens": 4, "temperature": 1.0, "top_k": 0, "stop": [], "stop_token_ids": [2]}
    body = request_body([1, 2], RequestSettings(sampling=sampling), seed=5)
    expected = sampling | {"prompt": [1, 2], "seed": 5, "ignore_eos": True, "add_special_tokens": False, "n": 1}
    assert body | expected == body
    assert "seed" not in request_body([1], RequestSettings(sampling=sampling), None)


# ---------------------------------------------------------------- the server's process and environment


def test_the_server_is_started_through_the_program_that_makes_the_first_calls() -> None:
    python, flag, program = command(device="cpu")[:3]
    assert (python, flag) == ("python", "-P")
    text = Path(program).read_text(encoding="utf-8")
    # Outside of the condition, because vLLM spawns the process that computes.
    assert text.index("first_calls.py") < text.index("\nif __name__") < text.index("api_server")
    assert Path(program).with_name("first_calls.py").is_file()


INDUCTOR, SAMPLER, PATH = "TORCHINDUCTOR_CACHE_DIR", "VLLM_USE_FLASHINFER_SAMPLER", f"/usr/bin{os.pathsep}/bin"
FOLDER = f"vllm/inductor/{processor_id()}"


@pytest.mark.parametrize(
    ("ours", "asked", "name", "expected"),
    [
        ({}, ("strict", "cuda"), "VLLM_BATCH_INVARIANT", "1"),
        ({}, ("seeded", "cuda"), "VLLM_BATCH_INVARIANT", None),
        ({}, ("seeded", "cuda"), SAMPLER, "0"),  # its kernels need a CUDA toolkit
        ({}, ("seeded", "cpu"), SAMPLER, None),
        ({SAMPLER: "1"}, ("free", "cuda"), SAMPLER, "1"),  # whoever has a toolkit
        ({}, ("seeded", "cpu"), "HF_HUB_OFFLINE", "1"),
        ({}, ("seeded", "cpu"), "VLLM_NO_USAGE_STATS", "1"),
        # Snakemake sets it for every job; the server's threads are its own affair.
        ({"OMP_NUM_THREADS": "1"}, ("seeded", "cpu"), "OMP_NUM_THREADS", None),
        ({"OMP_NUM_THREADS": "1"}, ("seeded", "cuda"), "OMP_NUM_THREADS", None),
        # The programs of its own environment come first.
        ({"PATH": PATH}, ("seeded", "cpu", 1, "/mine/bin/python"), "PATH", f"/mine/bin{os.pathsep}{PATH}"),
        ({"PATH": PATH}, ("seeded", "cuda", 1, "/mine/bin/python"), "PATH", f"/mine/bin{os.pathsep}{PATH}"),
        ({"PATH": ""}, ("seeded", "cuda", 1, "/mine/bin/python"), "PATH", f"/mine/bin{os.pathsep}{os.defpath}"),
        # Code that torch compiles is kept between starts.
        ({"XDG_CACHE_HOME": "/caches", "TMPDIR": "/somewhere"}, ("seeded", "cpu"), INDUCTOR, f"/caches/{FOLDER}"),
        ({"VLLM_CACHE_ROOT": "/node/vllm"}, ("seeded", "cpu"), INDUCTOR, f"/node/{FOLDER}"),
        ({"VLLM_CACHE_ROOT": "/node/vllm", INDUCTOR: "/mine"}, ("seeded", "cpu"), INDUCTOR, "/mine"),
    ],
)
def test_the_servers_environment(
    ours: dict[str, str], asked: Any, name: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (INDUCTOR, SAMPLER, "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(other, raising=False)
    for variable, value in ours.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))
    assert server_environment(*asked).get(name) == expected


@pytest.mark.parametrize(
    ("cores", "change", "in_the_core"),
    [
        (2, {}, True),  # on few cores the engine core computes with all of them
        (16, {}, False),
        (2, {"tensor_parallel": 2}, False),  # an engine of several workers has a process for each
        (2, {"data_parallel": 2}, False),
        (2, {"pipeline_parallel": 2}, False),
        (2, {"args": {"distributed_executor_backend": "mp"}}, False),
    ],
)
def test_on_few_cores_the_engine_core_computes_itself(
    cores: int, change: dict[str, Any], in_the_core: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(3, 3 + cores)))  # of however many there are
    found = server_command("python", "folder", ENTRY | change, "cpu", "seeded", "sock")
    assert (f"--distributed-executor-backend={IN_THE_CORE}" in found) is in_the_core
    assert server_environment("seeded", "cpu").get("OMP_NUM_THREADS") == ("2" if cores == 2 else None)


@pytest.mark.parametrize(("cores", "priority"), [(1, 0), (2, 19), (16, 0)])
def test_the_api_server_stands_back_for_the_engine_on_a_few_cores_only(
    cores: int, priority: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = EngineLoad(Path("log"), "seeded", "folder", "python", "cpu")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)))
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(["sleep", "60"]) as server:
        try:
            engine_of(ENTRY).server_is_ready(load, server.pid)
            assert os.getpriority(os.PRIO_PROCESS, server.pid) == (max(before, priority) if priority else before)
        finally:
            server.kill()


def test_the_device_is_the_entrys_or_what_the_environment_was_built_for(tmp_path: Path) -> None:
    assert engine_device(entry(device="cpu"), tmp_path) == "cpu"
    assert engine_device(ENTRY, tmp_path) == "cuda"
    (tmp_path / ".venv" / "engine").mkdir(parents=True)
    (tmp_path / ".venv" / "engine" / "engine-kind").write_text("cpu\n")
    assert engine_device(ENTRY, tmp_path) == "cpu"


def test_too_little_memory_is_said_before_the_engine_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "main_memory", lambda: (8 * 2**30, 1 * 2**30))
    with pytest.raises(UserError, match=r"too little memory.*memory_share"):
        check_memory(engine_of(entry(memory_share=0.25)), str(tmp_path), "cpu")
    check_memory(engine_of(entry(memory_share=0.25)), str(tmp_path), "cuda")
    check_memory(engine_of(entry(memory_share=0.05)), str(tmp_path), "cpu")


def test_variables_with_which_an_engine_computes_otherwise_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(**variables: str) -> Any:
        with monkeypatch.context() as ours:
            for name in [name for name in os.environ if name.startswith("VLLM_")]:
                ours.delenv(name)
            for name, value in variables.items():
                ours.setenv(name, value)
            load = EngineLoad(Path("log"), "strict", "folder", "python", "cuda")
            return Server(engine_of(ENTRY), load).serving_record().get("variables")

    assert recorded() is None, "or finished studies that go on were marked as served in two ways"
    places = {
        "VLLM_PORT": "5000",
        "VLLM_HOST_IP": "10.0.0.1",
        "VLLM_CACHE_ROOT": "/node",
        "VLLM_LOGGING_LEVEL": "DEBUG",
    }
    assert recorded(**places, VLLM_API_KEY="planted", VLLM_NO_USAGE_STATS="0", HOME="/home/me") is None
    asked = {"VLLM_USE_DEEP_GEMM": "0", "VLLM_KV_CACHE_LAYOUT": "HND", "NVIDIA_TF32_OVERRIDE": "1"}
    assert recorded(**asked, **places) == asked
    assert recorded(VLLM_BATCH_INVARIANT="0") == {"VLLM_BATCH_INVARIANT": "1"}, "as the server has it"


def test_two_loads_without_seeds_draw_different_samples_and_have_one_record(tmp_path: Path) -> None:
    def load(determinism: str) -> EngineLoad:
        engine = engine_of(ENTRY)
        plan = LoadPlan(engine, "engine", None, None, "", "cuda", determinism, 1, 0.0, "store")
        return plan.load(tmp_path / "log")

    def seed(one: EngineLoad) -> str:
        return option(engine_of(ENTRY).command(one, "folder", "sock"), "seed")

    def recorded(one: EngineLoad) -> list[str]:
        arguments: list[str] = Server(engine_of(ENTRY), one).serving_record()["arguments"]
        return arguments

    free = [load("free"), load("free")]
    assert seed(free[0]) != seed(free[1]), "without a seed of its own a sample draws from the engine's"
    assert recorded(free[0]) == recorded(free[1]), "else cells of two loads were marked as served in two ways"
    assert {seed(load("seeded")) for _ in range(2)} == {"0"} and "--seed=0" in recorded(load("seeded"))
