"""One engine on several machines: what each of them is started with. Shapes only; no such hardware is here."""

import pytest
from engine_entries import server_command, vllm_folder, vllm_options

from refusal_eval.core.errors import UserError
from refusal_eval.engines import nodes as nodes_module
from refusal_eval.engines.nodes import Nodes, find_nodes, head_command, worker_command, worker_environment
from refusal_eval.engines.vllm_engine import VllmEngine

ENTRY = VllmEngine(
    weights={"kind": "hub", "repo": "a/b", "revision": "a" * 40},  # type: ignore[arg-type]
    max_model_len=4096,
    tensor_parallel=8,
    pipeline_parallel=2,
    nodes=2,
    args={"max-num-seqs": 64, "enable-prefix-caching": False},
).model_dump(mode="json")
SERVER = server_command("/env/bin/python", "/models/large", ENTRY, "cuda", "seeded", "/tmp/x/engine.sock")
NODES = Nodes(["node7", "node3"], 8, 40001, 40002)


def options(command: list[str]) -> dict[str, str | None]:
    """Return the values of the options, None for a switch."""
    words = [word for word in command if word.startswith("--")]
    return {word.partition("=")[0]: word.partition("=")[2] or None for word in words}


def test_the_first_node_runs_the_server_and_all_meet_at_it() -> None:
    command = head_command(SERVER, NODES)
    assert command[: len(SERVER)] == SERVER
    head, worker = options(command), options(worker_command(SERVER, NODES, 1))
    assert (head["--nnodes"], head["--node-rank"]) == ("2", "0")
    assert (worker["--nnodes"], worker["--node-rank"]) == ("2", "1")
    for meeting in ("--master-addr", "--master-port", "--data-parallel-rpc-port", "--distributed-executor-backend"):
        assert head[meeting] == worker[meeting]
    assert (head["--master-addr"], head["--master-port"]) == ("node7", "40001")


def test_another_node_runs_the_same_engine_without_a_server_as_a_step_of_the_job() -> None:
    command = worker_command(SERVER, NODES, 1)
    step, engine = command[: command.index("/env/bin/python")], command[command.index("/env/bin/python") :]
    assert step[0] == "srun" and {"--nodelist=node3", "--nodes=1", "--ntasks=1", "--gpus-per-node=8"} <= set(step)
    assert "--overlap" in step and "--kill-on-bad-exit=1" in step
    assert engine[1:4] == ["-m", "vllm.entrypoints.cli.main", "serve"]
    assert "--headless" in engine and "--uds" not in options(engine) and "engine.sock" not in " ".join(engine)
    # All ranks must agree on the engine.
    served = options(SERVER)
    for name in served.keys() - {"--uds"}:
        assert options(engine)[name] == served[name] or name.startswith("--no-")
    assert "--no-enable-prefix-caching" in engine


def test_the_step_learns_nothing_of_the_step_it_is_started_from_nor_of_this_nodes_devices() -> None:
    environment = {
        "PATH": "/bin",
        "HF_HUB_OFFLINE": "1",
        "SLURM_JOB_ID": "12",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "1",
        "SLURM_GPUS": "16",
        "SRUN_CPUS_PER_TASK": "4",
        "CUDA_VISIBLE_DEVICES": "3,5",
        "TMPDIR": "/tmp/refusal-eval-private",
    }
    assert worker_environment(environment) == {"PATH": "/bin", "HF_HUB_OFFLINE": "1", "SLURM_JOB_ID": "12"}


def test_the_nodes_are_those_of_the_slurm_job_this_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"SLURM_JOB_NODELIST": "node[3,7]", "SLURMD_NODENAME": "node7"}
    asked: list[tuple[str, ...]] = []

    def answer(*command: str) -> str:
        asked.append(command)
        return "node3\nnode7\n"

    monkeypatch.setattr(nodes_module, "slurm_answer", answer)
    nodes = find_nodes(2, 16, job)
    assert asked == [("scontrol", "show", "hostnames", "node[3,7]")]
    assert (nodes.hosts, nodes.gpus) == (["node7", "node3"], 8)
    assert nodes.port != nodes.rpc_port and min(nodes.port, nodes.rpc_port) > 1023
    with pytest.raises(UserError, match="needs 3 nodes, and its Slurm job has 2: node3 node7"):
        find_nodes(3, 24, job)
    with pytest.raises(UserError, match="runs on login, which is none of its nodes"):
        find_nodes(2, 16, {**job, "SLURMD_NODENAME": "login"})
    with pytest.raises(UserError, match="needs 2 nodes, and so a Slurm job: run with `--profile profiles/slurm`"):
        find_nodes(2, 16, {})
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="cannot be had from scontrol: there is no scontrol on this machine"):
        find_nodes(2, 16, job)


def test_the_installed_vllm_knows_these_options() -> None:
    command = worker_command(SERVER, NODES, 1)
    engine = command[command.index("serve") + 1 :]
    ours = {name.removeprefix("--").removeprefix("no-") for name in options(engine)}
    assert ours <= {"headless", *vllm_options()}
    assert '"--headless"' in (vllm_folder() / "entrypoints/launchers/cli_args.py").read_text(encoding="utf-8")
    assert (vllm_folder() / "entrypoints/cli/main.py").is_file()
