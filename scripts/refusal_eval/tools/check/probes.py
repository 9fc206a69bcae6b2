"""Asking a running engine: the answers as a study does, then what tells whether they can be trusted."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refusal_eval.ask.answer_reader import AnswerReader
from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.pending import pending_requests
from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Request, RequestFile, RequestSettings, read_requests
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.packing import unpack_floats
from refusal_eval.core.time_limit import within
from refusal_eval.engines.devices.device_pool import device_pool, gpu_names
from refusal_eval.engines.devices.nvidia_smi import computing, read_gpus
from refusal_eval.engines.engine_base import Rejected
from refusal_eval.engines.engine_client import request_body
from refusal_eval.engines.execution import Execution
from refusal_eval.engines.listeners import listeners_of
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.engines.server import OFFLINE, Server, ask_versions, told_versions
from refusal_eval.judges.follow_ups import following
from refusal_eval.tools.check.check_study import CHECKED, SPLITS, is_greedy
from refusal_eval.tools.check.gpu_facts import Facts, Rescored, Sample, StopProbe, Template

REPEATED_TOKENS = 64  # repeats are asked one by one, so they are kept short
TOP_K, TOP_P, UNSEEDED_TOKENS = 5, 0.95, 16
NAMED_TOKENS = 20  # the most that vLLM lists as the likeliest
LETTERS, FORM_TOKENS = "[a-c]{3}[0-9]{2}", 32
CHOICE = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}
STOP_AT = 5  # the token of an answer that is made a stop token, counted from 0
COUNTERS_SECONDS = 60.0
MESSAGES = "gpu-check"


@dataclass(frozen=True)
class Prepared:
    """A study whose requests are rendered and whose weights are there.

    Attributes:
        results: folder of its results.
        config: the validated config.
        plan: how to execute.
        log: file for the server's output.
    """

    results: Path
    config: Mapping[str, Any]
    plan: LoadPlan
    log: Path

    @property
    def engine(self) -> LocalEngine:
        """The engine's entry."""
        assert isinstance(self.plan.engine, LocalEngine)
        return self.plan.engine

    @property
    def model(self) -> Mapping[str, Any]:
        """The model's entry."""
        entry: Mapping[str, Any] = self.config["model_entries"][CHECKED]
        return entry

    def files(self) -> list[RequestFile]:
        """Return the request files."""
        return [read_requests(self.results / "requests" / CHECKED / f"{split}.jsonl") for split in SPLITS]


def engine_of(prepared: Prepared) -> Server:
    """Return the engine, as a job would start it."""
    plan = prepared.plan
    server: Server = plan.engine.running(dataclasses.replace(plan.load(prepared.log), adapters=plan.adapters))
    return server


def before_start(prepared: Prepared) -> dict[str, Any]:
    """Return what is known before the start, as a serving record: versions, arguments, the GPUs that it may take."""
    execution = prepared.plan
    versions = told_versions(ask_versions(execution.python)) if Path(execution.python).is_file() else {}
    names: list[str] = []
    if execution.device != "cpu":
        with contextlib.suppress(UserError):  # the start will say it
            names = gpu_names(device_pool(os.environ, read_gpus(strangers=False)).devices)
    return {**versions, **engine_of(prepared).serving_record(), "gpus": names}


async def find_out(prepared: Prepared, say: Callable[[str], None], facts: Facts) -> None:
    """Start the engine, ask it everything, stop it; what was found out is put into `facts`, also before an error.

    Raises:
        UserError: if the engine does not start, or dies.
    """
    model, trust = prepared.model, prepared.engine.trust_remote_code
    facts.greedy, facts.reasoning = is_greedy(model), bool(model["reasoning"])
    facts.serving = before_start(prepared)
    facts.stop_token_ids = prepared.files()[0].header["sampling"]["stop_token_ids"]
    started = time.monotonic()
    say("starting the engine ...")
    async with engine_of(prepared) as engine:
        facts.start_seconds = time.monotonic() - started
        facts.serving = engine.serving_record()
        say(f"healthy after {facts.start_seconds:.0f} s; asking ...")
        await _answers(prepared, engine, facts, trust)
        # Nobody watches the engine here: one that hangs would hold up everything.
        seconds = float(prepared.engine.stall_timeout)
        probes: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "template ids": lambda: _templates(prepared, engine, facts, trust),
            "scored again": lambda: _score_again(prepared, engine, facts),
            "same seed twice": lambda: _repeat(prepared, engine, facts),
            "seeds under load": lambda: ask_together(prepared, engine, facts),
            "adapter": lambda: ask_plain(prepared, engine, facts),
            "stop tokens": lambda: _stop(prepared, engine, facts),
            "unseeded sampling": lambda: ask_unseeded(prepared, engine, facts),
            "named log-probabilities": lambda: ask_named(prepared, engine, facts),
            "forms": lambda: ask_forms(prepared, engine, facts),
        }
        for name, probe in probes.items():
            await _noted(name, within(seconds, probe()), facts)
        await _noted("processes", _look_at_processes(engine, facts), facts)
        await _noted("counters", within(min(seconds, COUNTERS_SECONDS), _count(engine, facts)), facts)


async def _noted(name: str, probe: Coroutine[Any, Any, None], facts: Facts) -> None:
    """Wait for a probe; what goes wrong in it is noted, unless the engine has died."""
    try:
        await probe
    except (ConnectionError, TimeoutError, ValueError, LookupError, TypeError, Rejected) as error:
        facts.errors[name] = f"{type(error).__name__}: {str(error)[:200]}"


async def _look_at_processes(engine: Server, facts: Facts) -> None:
    pids = engine.processes()
    facts.listeners = listeners_of(pids)
    # Of all processes, because vLLM's workers write their name over their environment.
    facts.told_offline = any(map(_told_offline, pids))
    facts.leased = {device.gpu.uuid for device in engine.devices if device.gpu}
    try:
        facts.computing = await asyncio.to_thread(computing, set(pids)) if facts.leased else ()
    except subprocess.TimeoutExpired as error:
        raise TimeoutError("nvidia-smi does not answer") from error


def _told_offline(pid: int) -> bool:
    """Whether a process was started with what keeps it from asking the hub."""
    with contextlib.suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return all(f"{name}={value}".encode() in variables for name, value in OFFLINE.items())
    return False


async def _count(engine: Server, facts: Facts) -> None:
    facts.counters = await engine.metrics()


async def _answers(prepared: Prepared, engine: Server, facts: Facts, trust: bool) -> None:
    """Execute the requests into the store, and read the answers back from it, as the rules do."""
    execution, files = prepared.plan, prepared.files()
    store = StoreReader(execution.store_dir, str(files[0].header["engine_id"]))
    pending = pending_requests(files, store, execution.tokenizer_folder, follow=following)
    seeded = execution.determinism != "free"
    started = time.monotonic()
    with StoreWriter(execution.store_dir, store.folder.name, MESSAGES) as writer:
        writer.describe(MESSAGES, dict(facts.serving))
        outcome = await Execution(engine, writer, store, MESSAGES, execution.in_flight, seeded).run(pending)
    facts.work_seconds = time.monotonic() - started
    facts.failed = len(outcome.failed) + len(outcome.rejected)
    store.refresh()
    reader = AnswerReader(execution.tokenizer_folder, prepared.model["reasoning"], trust)
    requests = [request for file in files for request in file.requests() if request.key is not None]
    found = store.lookup([str(request.key) for request in requests])
    rows = [(request, found[str(request.key)]["response"]) for request in requests if str(request.key) in found]
    facts.samples = [Sample(request, response, reader.fields(request, response)) for request, response in rows]


async def _templates(prepared: Prepared, engine: Server, facts: Facts, trust: bool) -> None:
    """Render the prompts here and by the server."""
    model = prepared.model
    if model["template"] not in ("default", "none"):
        facts.untested = "the model has a template of its own, which the server does not know"
        return
    names = ("template", "template_options", "system_prompt")
    # Today, because the server knows no other day; the study's day is fixed.
    renderer = Renderer(
        prepared.plan.tokenizer_folder or "",
        **{name: model[name] for name in names},
        date=datetime.date.today(),
        trust_remote_code=trust,
    )
    system = [{"role": "system", "content": model["system_prompt"]}] if model["system_prompt"] else []
    rendered = []
    for split in SPLITS:
        for row in read_jsonl(prepared.results / "prompts" / f"{split}.jsonl"):
            if model["template"] == "none":
                asked: dict[str, Any] = {"prompt": renderer.text(row["messages"]), "add_special_tokens": True}
            else:
                asked = {"messages": [*system, *row["messages"]], "add_special_tokens": False}
                asked |= {"add_generation_prompt": True, "chat_template_kwargs": dict(model["template_options"])}
            reply = await engine.ask("/tokenize", asked)
            rendered.append(Template(renderer.token_ids(row["messages"]), reply["tokens"]))
    facts.templates = rendered


async def _score_again(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Let the server score one answer of each prompt as a part of a prompt."""
    rescored = []
    for sample in _one_per_prompt(facts.samples):
        again = await _scored(prepared, engine, sample, adapted=True)
        rescored.append(Rescored(unpack_floats(sample.response["logprobs"])[: len(again)].tolist(), again))
    facts.rescored = rescored


async def _scored(prepared: Prepared, engine: Server, sample: Sample, adapted: bool) -> list[float]:
    """Return the log-probabilities of an answer's tokens, read as a part of a prompt; without the adapter if asked."""
    served = {"model": prepared.plan.adapters[0].name} if adapted and prepared.plan.adapters else {}
    prompt = list(sample.request.token_ids)
    answer = list(sample.response["token_ids"])[: prepared.engine.max_model_len - len(prompt) - 1]
    body = {"prompt": prompt + answer, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
    reply = await engine.ask("/v1/completions", body | {"add_special_tokens": False} | served)
    rows = reply["choices"][0]["prompt_logprobs"][len(prompt) :]
    return [float(row[str(token)]["logprob"]) for token, row in zip(answer, rows, strict=True)]


async def _repeat(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Ask one request of each prompt twice, each time alone."""
    repeats = []
    for sample in _one_per_prompt(facts.samples):
        sampling = _shorter(prepared, REPEATED_TOKENS)
        replies = [await _ask(prepared, engine, sample.request, sampling) for _ in range(2)]
        repeats.append((replies[0]["token_ids"], replies[1]["token_ids"]))
    facts.repeats = repeats


async def ask_together(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Ask all requests again at once, in the opposite order."""
    sampling = dict(prepared.files()[0].header["sampling"])
    samples = list(reversed(facts.samples))
    replies = await asyncio.gather(*(_ask(prepared, engine, sample.request, sampling) for sample in samples))
    facts.together = [
        (sample.response["token_ids"], reply["token_ids"]) for sample, reply in zip(samples, replies, strict=True)
    ]


async def ask_plain(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Let the engine without the model's adapter, if it has one, score an answer."""
    if prepared.plan.adapters:
        sample = _one_per_prompt(facts.samples)[0]
        adapted, plain = [await _scored(prepared, engine, sample, with_it) for with_it in (True, False)]
        facts.plain = Rescored(adapted, plain)


async def _stop(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Make a token of each answer a stop token."""
    own = list(facts.stop_token_ids)
    probes = []
    for sample in _one_per_prompt(facts.samples):
        ids = list(sample.response["token_ids"])
        place = next((place for place in range(STOP_AT, len(ids)) if ids[place] not in (*ids[:place], *own)), None)
        if place is not None:
            sampling = _shorter(prepared, place + 4) | {"stop_token_ids": [*own, ids[place]]}
            reply = await _ask(prepared, engine, sample.request, sampling)
            probes.append(StopProbe(ids[place], reply["token_ids"], reply["finish_reason"], reply["stop_reason"]))
    facts.stops = probes


async def ask_unseeded(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Ask a prompt without a seed and with top_k and top_p: on a GPU that can be another sampler."""
    drawing = {"max_tokens": UNSEEDED_TOKENS, "temperature": 1.0, "top_k": TOP_K, "top_p": TOP_P, "logprobs": TOP_K}
    logprobs = (await _ask_first(prepared, engine, facts, drawing))["logprobs"]
    rows = zip(logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)
    # A token outside of the likeliest stands in its row too.
    facts.unseeded = [(float(drawn), sorted(map(float, row.values()))[-TOP_K]) for drawn, row in rows]


async def ask_named(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Ask for the likeliest tokens of a prompt, and then for the same ones by their ids, as judges do."""
    greedy = {"max_tokens": 1, "temperature": 0.0}
    reply = await _ask_first(prepared, engine, facts, greedy | {"logprobs": NAMED_TOKENS})
    (row,) = reply["logprobs"]["top_logprobs"]
    likeliest = {int(name.removeprefix("token_id:")): float(value) for name, value in row.items()}
    sampling = {**NEUTRAL_SAMPLING, **greedy, "logprob_token_ids": list(likeliest)}
    response = await engine.complete(facts.samples[0].request.token_ids, _settings(prepared, sampling), None)
    values = unpack_floats(response["named_logprobs"])[: len(likeliest)].tolist()
    facts.named = list(zip(likeliest.values(), values, strict=True))


async def ask_forms(prepared: Prepared, engine: Server, facts: Facts) -> None:
    """Ask for replies in the two kinds of form that judges use."""

    async def text(form: Mapping[str, Any]) -> str:
        greedy = {"max_tokens": FORM_TOKENS, "temperature": 0.0, "stop_token_ids": list(facts.stop_token_ids)}
        return str((await _ask_first(prepared, engine, facts, greedy | {"structured_outputs": form}))["text"])

    written = await text({"json": json.dumps(CHOICE)})
    facts.forms = {
        "regex": re.fullmatch(LETTERS, await text({"regex": LETTERS})) is not None,
        "json": written in ('{"label":"yes"}', '{"label":"no"}'),  # without white space, as the server is told
    }


async def _ask_first(
    prepared: Prepared, engine: Server, facts: Facts, sampling: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the server's own reply to the first prompt, asked without a seed."""
    if not facts.samples:
        raise ValueError("there is no answer whose prompt could be asked again")
    request = facts.samples[0].request
    body = request_body(request.token_ids, _settings(prepared, {**NEUTRAL_SAMPLING, **sampling}), None)
    reply: Mapping[str, Any] = (await engine.ask("/v1/completions", body))["choices"][0]
    return reply


async def _ask(prepared: Prepared, engine: Server, request: Request, sampling: Mapping[str, Any]) -> dict[str, Any]:
    return await engine.complete(request.token_ids, _settings(prepared, sampling), request.seed)


def _settings(prepared: Prepared, sampling: Mapping[str, Any]) -> RequestSettings:
    return dataclasses.replace(prepared.files()[0].settings, sampling=sampling)


def _shorter(prepared: Prepared, most: int) -> dict[str, Any]:
    sampling = dict(prepared.files()[0].header["sampling"])
    most = min(most, int(sampling["max_tokens"]))
    return sampling | {"max_tokens": most, "min_tokens": min(most, int(sampling["min_tokens"]))}


def _one_per_prompt(samples: Sequence[Sample]) -> list[Sample]:
    first: dict[str, Sample] = {}
    for sample in samples:
        if sample.response["token_ids"]:
            first.setdefault(sample.request.prompt_id, sample)
    return list(first.values())
