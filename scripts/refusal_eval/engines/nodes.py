"""One engine on several machines: vLLM's own launch inside one Slurm job.

The server runs on the job's own node; each other node runs one of vLLM's processes without a server (`--headless`),
started by `srun` as a step of the same job. Written from the source of vLLM 0.32 and of Slurm's manual, and not yet
tried on such hardware.
"""

import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from refusal_eval.core.errors import UserError
from refusal_eval.core.slurm_jobs import NoAnswer, slurm_answer
from refusal_eval.engines.local_engine import as_arguments
from refusal_eval.engines.vllm_engine import SERVER

HEADLESS = ("-m", "vllm.entrypoints.cli.main", "serve")
# What a step must know of its job. All else describes the step that this job runs in, and would bind the new one.
JOB_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_CONF", "SLURM_SUBMIT_DIR")
# The devices of this node say nothing about another node's.
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


@dataclass(frozen=True)
class Nodes:
    """The machines of one engine: this one first; and where their processes meet."""

    hosts: Sequence[str]  # names of the nodes
    gpus: int  # GPUs on each
    port: int  # of torch's process group, on the first node
    rpc_port: int  # of vLLM's own, on the first node; used with data parallelism


def find_nodes(count: int, gpus: int, environment: Mapping[str, str]) -> Nodes:
    """Return the nodes of this Slurm job for an engine that needs `count` nodes with `gpus` GPUs in total.

    Raises:
        UserError: outside Slurm, and in a job with a different number of nodes.
    """
    listed = environment.get("SLURM_JOB_NODELIST")
    if not listed:
        raise UserError(f"this engine needs {count} nodes, and so a Slurm job: run with `--profile profiles/slurm`")
    try:
        hosts = slurm_answer("scontrol", "show", "hostnames", listed).split()
    except NoAnswer as error:
        raise UserError(f"the names of this job's nodes ({listed}) cannot be had from scontrol: {error}") from error
    if len(hosts) != count:
        raise UserError(f"this engine needs {count} nodes, and its Slurm job has {len(hosts)}: {' '.join(hosts)}")
    here = environment.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    if here not in hosts:
        raise UserError(f"this job runs on {here}, which is none of its nodes: {' '.join(hosts)}")
    ports = _free_ports(2)
    return Nodes([here, *(host for host in hosts if host != here)], gpus // count, ports[0], ports[1])


def head_command(command: Sequence[str], nodes: Nodes) -> list[str]:
    return [*command, *as_arguments(_meeting(nodes, 0))]


def worker_command(command: Sequence[str], nodes: Nodes, rank: int) -> list[str]:
    """Return the command line of vLLM's process on node `rank` (1 ...), as this node starts it.

    The engine's options of the server's command are kept: all ranks must agree on them.
    """
    python, rest = command[0], command[1 + len(SERVER) :]
    engine = [word for word in rest if not word.startswith("--uds=")]
    step = [
        "srun",
        f"--nodelist={nodes.hosts[rank]}",
        *("--nodes=1", "--ntasks=1", f"--gpus-per-node={nodes.gpus}"),
        # This job is itself a step that holds the whole allocation.
        *("--overlap", "--kill-on-bad-exit=1", "--export=ALL"),
    ]
    return [*step, python, *HEADLESS, *engine, "--headless", *as_arguments(_meeting(nodes, rank))]


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of `srun`: the server's, without what holds for this node or this step only."""
    of_slurm, here = ("SLURM_", "SRUN_", "SBATCH_"), (*DEVICE_VARIABLES, "TMPDIR")
    return {
        name: value
        for name, value in environment.items()
        if name in JOB_VARIABLES or not (name.startswith(of_slurm) or name in here)
    }


def _meeting(nodes: Nodes, rank: int) -> dict[str, object]:
    return {
        "distributed-executor-backend": "mp",
        "nnodes": len(nodes.hosts),
        "node-rank": rank,
        "master-addr": nodes.hosts[0],
        "master-port": nodes.port,
        "data-parallel-rpc-port": nodes.rpc_port,
    }


def _free_ports(count: int) -> list[int]:
    """Return ports that are free on this machine right now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [int(one.getsockname()[1]) for one in sockets]
