"""Checks of a model on this machine: each sends its requests to the running engine and judges the replies."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import os
import re
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple

import numpy as np

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.pending import pending_requests
from refusal_eval.ask.reasoning_marks import marks_in
from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Request, RequestSettings
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.config.kinds import LOAD_CHECKS, MODEL_CHECKS
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.packing import unpack_floats
from refusal_eval.core.states import COMPLETE, TRUNCATED, TRUNCATED_REASONING
from refusal_eval.core.time_limit import within
from refusal_eval.engines.devices.device_pool import VISIBLE, Device, device_pool, gpu_names
from refusal_eval.engines.devices.lease import WAIT_VARIABLE, lease_devices
from refusal_eval.engines.devices.nvidia_smi import computing, read_gpus
from refusal_eval.engines.engine_base import Rejected
from refusal_eval.engines.engine_client import request_body
from refusal_eval.engines.execution import Execution
from refusal_eval.engines.listeners import listeners_of
from refusal_eval.engines.load_plan import LoadPlan
from refusal_eval.engines.local_engine import LocalEngine
from refusal_eval.engines.process import process_start
from refusal_eval.engines.server import OFFLINE, Server, ask_versions, read_versions
from refusal_eval.engines.vllm_engine import VllmEngine
from refusal_eval.judges.follow_ups import following
from refusal_eval.program.check_lines import (
    ISSUE,
    SAME_LOGPROB,
    CheckLine,
    CheckOutcome,
    fail,
    not_applicable,
    ok,
    warn,
)
from refusal_eval.tools.check.check_report import first_line
from refusal_eval.tools.check.checked_model import CheckedModel, is_greedy

# Nats per token, between the mean while generating and the mean while reading: bfloat16 rounds, a temperature or a
# constraint that got into log-probabilities shows tenths.
MOST_DIFFERENCE = 0.05
# The same between two readings of single tokens, one of them perhaps from the cache.
REPEATED_TOKENS = 64  # repeats run one by one, so they are kept short
TOP_K, TOP_P, UNSEEDED_TOKENS = 5, 0.95, 16
NAMED_TOKENS = 20  # the most that vLLM lists as the likeliest
LETTERS, FORM_TOKENS = "[a-c]{3}[0-9]{2}", 32
CHOICE = {"type": "object", "properties": {"label": {"enum": ["yes", "no"]}}, "required": ["label"]}
STOP_AT = 5  # the token of an answer that is made a stop token, counted from 0
AT_ONCE = {"cpu": (32,), "cuda": (256, 1024)}  # requests whose tokens per second are measured
LEASE_SECONDS = 60.0  # until the GPUs of a stopped engine must be free
MESSAGES = "gpu-check"
# What comes of a check that gets no answer, or an odd one; also where there is no sample to ask with.
NO_ANSWER = (OSError, TimeoutExpired, ValueError, ArithmeticError, LookupError, TypeError, Rejected)


class CheckSample(NamedTuple):
    """A request with its response as the store keeps it, and the fields of its answer."""

    request: Request
    response: Mapping[str, Any]
    answer: Mapping[str, Any]

    @property
    def ids(self) -> list[int]:
        return list(self.response["token_ids"])

    @property
    def logprobs(self) -> list[float]:
        return list(map(float, unpack_floats(self.response["logprobs"])))


@dataclass
class Trial:
    """A model on trial: its engine while it runs, and what was seen of it."""

    model: CheckedModel
    engine: Server = field(init=False)
    network: str = ""  # what keeps the engine from the network while it starts; empty if nothing does
    # versions, device, arguments; before the engine is healthy, what is to serve
    serving: Mapping[str, Any] = field(default_factory=dict)
    start_seconds: float = 0.0  # until the engine was healthy
    work_seconds: float = 0.0  # for all answers, asked together
    samples: Sequence[CheckSample] = ()
    failed: int = 0  # how many requests failed or were rejected
    processes: Sequence[int] = ()  # the numbers of the server's processes
    devices: Sequence[Device] = ()  # what the engine leased

    async def run(self, say: Callable[[str], None]) -> list[CheckLine]:
        """Start the engine, ask it everything, and stop it; return a line for each check.

        Raises:
            UserError: if the engine does not start, or dies.
        """
        plan = self.model.plan
        self.engine = engine_of_plan(plan, self.model.log)
        versions = read_versions(ask_versions(plan.python)) if Path(plan.python).is_file() else {}
        self.serving = {**versions, **self.engine.serving_record(), "gpus": gpu_names(_leasable(plan))}
        started = time.monotonic()
        say("starting the engine ...")
        async with self.engine:
            self.start_seconds = time.monotonic() - started
            self.serving, self.devices = self.engine.serving_record(), self.engine.devices
            say(f"healthy after {self.start_seconds:.0f} s; asking ...")
            await self._answer()
            lines = await self.lines([*WHILE_IT_RUNS, *map(MODEL_CHECKS.get, MODEL_CHECKS.names())])
            self.processes = self.engine.processes()
        return lines + await self.lines([*AFTER_IT_STOPPED, *map(LOAD_CHECKS.get, LOAD_CHECKS.names())])

    async def lines(self, checks: Sequence[Check]) -> list[CheckLine]:
        """Run checks and return their outcomes by name. A check that cannot run fails, unless the engine has died."""
        lines = list[CheckLine]()
        # Nobody watches the engine here: one that hangs would hold up everything.
        seconds = float(self.local_engine.stall_timeout)
        for check in checks:
            try:
                outcome = await within(seconds, check(self))
            except NO_ANSWER as error:
                outcome = fail(f"{type(error).__name__}: {str(error)[:200]}", ISSUE)
            lines.append((check.__name__.replace("_", " "), outcome))
        return lines

    def other_engine(self, plan: LoadPlan, log: Path) -> Server:
        """Return an engine that is not running yet; its output goes to `log`."""
        return engine_of_plan(plan, log)

    async def same_scores(self, engine: Server) -> CheckOutcome:
        """Return whether an engine that reads (the first tokens of) answers gives the log-probabilities they have."""
        read = [(sample.logprobs, await self.score(engine, sample)) for sample in self.one_per_prompt]
        apart = [np.subtract(first[: len(again)], again) for first, again in read if again]
        mean, token = (max(map(size, apart)) for size in (lambda one: abs(one.mean()), lambda one: abs(one).max()))
        seen = f"{len(apart)} answers, means differ by at most {mean:.1e} nats per token, single tokens by {token:.1e}"
        if mean <= MOST_DIFFERENCE:
            return ok(seen)
        todo = f"more than {MOST_DIFFERENCE}: they are not the model's own, or its kernels disagree; {ISSUE}"
        return fail(seen, todo)  # also for NaN

    async def score(self, engine: Server, sample: CheckSample, changed: bool = True) -> list[float]:
        """Return the log-probabilities of an answer's tokens, read as part of a prompt.

        Args:
            changed: whether the model is asked, or the one that the engine serves without a change.
        """
        name = self.settings({}).served_as
        served = {"model": name} if changed and name else {}
        prompt = list(sample.request.token_ids)
        answer = sample.ids[: self.local_engine.max_model_len - len(prompt) - 1]
        body = {"prompt": prompt + answer, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0}
        reply = await engine.ask("/v1/completions", body | {"add_special_tokens": False} | served)
        rows = reply["choices"][0]["prompt_logprobs"][len(prompt) :]
        return [float(row[str(token)]["logprob"]) for token, row in zip(answer, rows, strict=True)]

    def failure(self, error: UserError) -> CheckOutcome:
        """Return the outcome of an engine that did not start or broke off."""
        return fail(first_line(str(error)), ISSUE)

    async def _answer(self) -> None:
        """Execute the requests into the store, and read the answers back from it, as the rules do."""
        plan, files = self.model.plan, self.model.files
        store = StoreReader(plan.store_dir, str(files[0].header["engine_id"]))
        pending = pending_requests(files, store, plan.tokenizer_folder, follow=following)
        seeded = plan.determinism != "free"
        started = time.monotonic()
        with StoreWriter(plan.store_dir, store.folder.name, MESSAGES) as writer:
            writer.describe(MESSAGES, dict(self.serving))
            outcome = await Execution(self.engine, writer, store, MESSAGES, plan.in_flight, seeded).run(pending)
        self.work_seconds = time.monotonic() - started
        self.failed = len(outcome.failed) + len(outcome.rejected)
        store.refresh()
        trust = self.local_engine.trust_remote_code
        reader = AnswerReader(plan.tokenizer_folder, self.model.entry["reasoning"], trust)
        requests = [request for file in files for request in file.requests() if request.key is not None]
        found = store.lookup([str(request.key) for request in requests])
        rows = [(request, found[str(request.key)]["response"]) for request in requests if str(request.key) in found]
        self.samples = [CheckSample(request, response, reader.fields(request, response)) for request, response in rows]

    @property
    def local_engine(self) -> LocalEngine:
        """The engine's entry."""
        assert isinstance(self.model.plan.engine, LocalEngine)
        return self.model.plan.engine

    @property
    def sampling(self) -> dict[str, Any]:
        """The model's sampling settings; `stop_token_ids` are those sent as stop tokens."""
        return dict(self.model.files[0].header["sampling"])

    @property
    def on_cpu(self) -> bool:
        return self.serving.get("device") == "cpu"

    @property
    def one_per_prompt(self) -> list[CheckSample]:
        """The first answer with tokens to each prompt."""
        first: dict[str, CheckSample] = {}
        for sample in self.samples:
            if sample.ids:
                first.setdefault(sample.request.prompt_id, sample)
        return list(first.values())

    def shorter(self, most: int = REPEATED_TOKENS) -> dict[str, Any]:
        """Return how the model draws, with at most `most` tokens."""
        most = min(most, int(self.sampling["max_tokens"]))
        return self.sampling | {"max_tokens": most, "min_tokens": min(most, int(self.sampling["min_tokens"]))}

    def settings(self, sampling: Mapping[str, Any]) -> RequestSettings:
        return dataclasses.replace(self.model.files[0].settings, sampling=sampling)

    async def complete(self, request: Request, sampling: Mapping[str, Any]) -> dict[str, Any]:
        return await self.engine.complete(request.token_ids, self.settings(sampling), request.seed)

    async def first_reply(self, **sampling: Any) -> Mapping[str, Any]:
        """Return the server's own reply to the first prompt, asked without a seed."""
        body = request_body(self.samples[0].request.token_ids, self.settings({**NEUTRAL_SAMPLING, **sampling}), None)
        reply: Mapping[str, Any] = (await self.engine.ask("/v1/completions", body))["choices"][0]
        return reply


# Its name, with blanks, is that of its line in the report.
Check = Callable[[Trial], Coroutine[Any, Any, CheckOutcome]]


def engine_of_plan(plan: LoadPlan, log: Path) -> Server:
    """Return the engine, as a job would start it."""
    server: Server = plan.engine.running(plan.load(log))
    return server


def _leasable(plan: LoadPlan) -> Collection[Device]:
    try:
        return () if plan.device == "cpu" else device_pool(os.environ, read_gpus(strangers=False)).devices
    except UserError:  # the start will say it
        return ()


# ---------------------------------------------------------------- the answers as they came


async def answers(trial: Trial) -> CheckOutcome:
    """Every request has an answer with tokens."""
    states = [sample.answer["state"] for sample in trial.samples]
    seen = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "none"
    unread = sum(state not in (COMPLETE, TRUNCATED, TRUNCATED_REASONING) for state in states)
    if trial.failed or not states:
        return fail(f"{seen}; {trial.failed} requests failed", "look at the engine's log")
    if unread > len(states) / 2:
        return fail(seen, f"most answers are empty: do template and stop tokens fit the model? {ISSUE}")
    return warn(seen, "some answers are empty") if unread else ok(seen)


async def reasoning_marks(trial: Trial) -> CheckOutcome:
    """The end mark is found in the answers of a model that reasons, unless it is kept from reasoning."""
    if not trial.model.entry["reasoning"]:
        return not_applicable("the model's entry has no `reasoning`")
    whole = [one.answer for one in trial.samples if one.answer["state"] != TRUNCATED_REASONING]
    found, cut = sum(answer["reasoning_tokens"] > 0 for answer in whole), len(trial.samples) - len(whole)
    seen = f"end mark in {found} of {len(trial.samples)} answers, {cut} cut off before it"
    if found:
        return ok(seen)
    if cut:
        return warn(seen, "raise the model's `max_tokens`: no answer came to its end mark")
    texts = [answer["answer"] for answer in whole if answer["answer"]]
    if texts and not any(map(marks_in, texts)):
        return warn(seen, "all count as answers: is `reasoning` right, or does the template keep it from reasoning?")
    return fail(seen, "does the entry's `reasoning` name the marks that this model writes?")


async def log_probabilities(trial: Trial) -> CheckOutcome:
    """There is one for each token, finite and not above 0."""
    values = np.array([value for sample in trial.samples for value in sample.logprobs])
    lacking = sum(len(sample.logprobs) != len(sample.ids) for sample in trial.samples)
    bad = np.sum(~np.isfinite(values) | (values > 0))
    if lacking or bad or not len(values):
        return fail(f"{len(values)} tokens; {bad} not finite or above 0, {lacking} answers lack some", ISSUE)
    if not values.any():
        return fail(f"{len(values)} tokens, all of them exactly 0", "the engine returns no raw log-probabilities")
    return ok(f"{len(values)} tokens, all finite and at most 0, mean {values.mean():.3f} nats")


async def other_seeds(trial: Trial) -> CheckOutcome:
    """Samples of one prompt differ."""
    if is_greedy(trial.model.entry):
        return not_applicable("the model's sampling draws nothing")
    drawn: dict[str, set[tuple[int, ...]]] = {}
    for sample in trial.samples:
        drawn.setdefault(sample.request.prompt_id, set()).add(tuple(sample.ids))
    several = sum(len(rows) > 1 for rows in drawn.values())
    seen = f"the samples of {several} of {len(drawn)} prompts differ"
    return ok(seen) if several else fail(seen, f"all samples are equal: something fixes the sampling; {ISSUE}")


# ---------------------------------------------------------------- the same asked in other ways


async def template_ids(trial: Trial) -> CheckOutcome:
    """Our token ids of each prompt are those of the server's own tokenizer and template."""
    model = trial.model.entry
    if model["template"] not in ("default", "none"):
        return not_applicable("the model has a template of its own, which the server does not know")
    # Today, because the server knows no other day; the study's day is fixed.
    renderer = Renderer(
        trial.model.plan.tokenizer_folder or "",
        **{name: model[name] for name in ("template", "template_options", "system_prompt")},
        date=datetime.date.today(),
        trust_remote_code=trial.local_engine.trust_remote_code,
    )
    system = [{"role": "system", "content": model["system_prompt"]}] if model["system_prompt"] else []
    prompts = [row["messages"] for file in trial.model.prompts for row in read_jsonl(file)]
    differ = []
    for messages in prompts:
        asked: dict[str, Any] = {"messages": [*system, *messages], "add_special_tokens": False}
        asked |= {"add_generation_prompt": True, "chat_template_kwargs": dict(model["template_options"])}
        if model["template"] == "none":
            asked = {"prompt": renderer.text(messages), "add_special_tokens": True}
        pair = [list(renderer.token_ids(messages)), list((await trial.engine.ask("/tokenize", asked))["tokens"])]
        if pair[0] != pair[1]:
            differ.append(pair)
    seen = f"{len(prompts) - len(differ)} of {len(prompts)} prompts are rendered as the server renders them"
    if not differ:
        return ok(seen) if prompts else fail("nothing was compared", ISSUE)
    ours, servers = differ[0]
    place = next((n for n, (own, other) in enumerate(zip(ours, servers, strict=False)) if own != other), None)
    where = "one is the beginning of the other" if place is None else f"first difference at token {place}"
    return fail(f"{seen}; {len(ours)} and {len(servers)} ids, {where}", ISSUE)


async def rendering(trial: Trial) -> CheckOutcome:
    """The template renders whole messages and the header of the reply, and its options have an effect."""
    notes = list(dict.fromkeys(note for file in trial.model.files for note in file.notes))
    if notes:
        return warn("; ".join(notes), "is that meant? The study runs all the same, and its methods section says it")
    return ok("messages are whole, and every template option has an effect")


async def scored_again(trial: Trial) -> CheckOutcome:
    """Check that answers keep their log-probabilities when they are scored as part of a prompt."""
    return await trial.same_scores(trial.engine)


async def same_seed_twice(trial: Trial) -> CheckOutcome:
    """One request asked twice, alone, gives the same tokens."""
    equal, requests = 0, [sample.request for sample in trial.one_per_prompt]
    for request in requests:
        one, other = [await trial.complete(request, trial.shorter()) for _ in range(2)]
        equal += list(one["token_ids"]) == list(other["token_ids"])
    seen = f"{equal} of {len(requests)} requests gave the same tokens again"
    if requests and equal == len(requests):
        return ok(seen)
    if equal * 2 > len(requests):
        return warn(seen, "kernels round differently from run to run; `determinism: strict` may help")
    return fail(seen, f"seeds have no effect; {ISSUE}")


async def seeds_under_load(trial: Trial) -> CheckOutcome:
    """Requests asked again together, in the opposite order, give the same tokens: all of them under `strict`."""
    determinism = trial.serving.get("determinism", "seeded")
    if determinism == "free" and not is_greedy(trial.model.entry):
        return not_applicable("`determinism: free` sends no seeds")
    samples = trial.samples[::-1]
    replies = await asyncio.gather(*(trial.complete(sample.request, trial.sampling) for sample in samples))
    equal = sum(sample.ids == list(reply["token_ids"]) for sample, reply in zip(samples, replies, strict=True))
    seen = f"{equal} of {len(samples)} requests gave the same tokens again, together and in another order"
    if not equal or (determinism == "strict" and equal < len(samples)):
        return fail(seen, f"`determinism: {determinism}` does not hold; {ISSUE}")
    if equal * 2 > len(samples):
        return ok(seen)
    return warn(seen, "batches change the rounding; `determinism: strict` makes all of them equal")


async def stop_tokens(trial: Trial) -> CheckOutcome:
    """Answers end at a stop token, hold none before their end, and a token that is made one ends them."""
    stops = trial.sampling["stop_token_ids"]
    if not stops:
        return fail("none is known", "the model's folder names no end-of-sequence token")
    ended = passed = wrong = made_up = hit = 0
    for sample in trial.samples:
        ids, response = sample.ids, sample.response
        by_token = response["finish_reason"] == "stop" and isinstance(response["stop_reason"], int)
        ended += by_token
        passed += not set(stops).isdisjoint(ids[:-1])
        wrong += by_token and (not ids or ids[-1] not in stops or response["stop_reason"] not in stops)
    for sample in trial.one_per_prompt:
        ids = sample.ids
        place = next((place for place in range(STOP_AT, len(ids)) if ids[place] not in (*ids[:place], *stops)), None)
        if place is not None:
            sampling = trial.shorter(place + 4) | {"stop_token_ids": [*stops, ids[place]]}
            reply = await trial.complete(sample.request, sampling)
            made_up += 1
            hit += reply["finish_reason"] == "stop" and reply["stop_reason"] == ids[place]
            passed += ids[place] in list(reply["token_ids"])[:-1]
    seen = f"{ended} of {len(trial.samples)} answers ended by one; made-up ones ended {hit} of {made_up}"
    if passed or wrong:
        return fail(f"{seen}; {passed} went past one, {wrong} ended by another", ISSUE)
    if made_up and not hit:
        return warn(seen, "no made-up stop token was met; the answers differ too much from run to run to tell")
    return ok(seen)


async def unseeded_sampling(trial: Trial) -> CheckOutcome:
    """Without a seed, which is another sampler on a GPU, only the k likeliest tokens are drawn."""
    reply = await trial.first_reply(
        max_tokens=UNSEEDED_TOKENS, temperature=1.0, top_k=TOP_K, top_p=TOP_P, logprobs=TOP_K
    )
    rows = list(zip(reply["logprobs"]["token_logprobs"], reply["logprobs"]["top_logprobs"], strict=True))
    # A token outside the likeliest is in its row, too.
    good = sum(float(drawn) >= sorted(map(float, row.values()))[-TOP_K] for drawn, row in rows)
    seen = f"{good} of {len(rows)} tokens are among the likeliest that top_k allows"
    return ok(seen) if rows and good == len(rows) else fail(seen, ISSUE)


async def named_log_probabilities(trial: Trial) -> CheckOutcome:
    """Check that log-probabilities of tokens requested by id, as judges do, belong to those tokens."""
    greedy: dict[str, Any] = {"max_tokens": 1, "temperature": 0.0}
    (row,) = (await trial.first_reply(**greedy, logprobs=NAMED_TOKENS))["logprobs"]["top_logprobs"]
    likeliest = {int(name.removeprefix("token_id:")): float(value) for name, value in row.items()}
    if not likeliest:
        return fail("nothing to compare", ISSUE)
    asked = trial.settings({**NEUTRAL_SAMPLING, **greedy, "logprob_token_ids": list(likeliest)})
    response = await trial.engine.complete(trial.samples[0].request.token_ids, asked, None)
    values = unpack_floats(response["named_logprobs"])[: len(likeliest)]
    mean = abs(np.subtract(list(likeliest.values()), values)).mean()
    seen = f"{len(likeliest)} tokens, by their ids and among the likeliest: {mean:.1e} nats apart on average"
    return ok(seen) if mean <= SAME_LOGPROB else fail(seen, f"judges read them; {ISSUE}")


async def forms(trial: Trial) -> CheckOutcome:
    """Check that replies obey the two kinds of form that judges request (`structured_outputs`)."""
    if "structured_outputs" not in trial.local_engine.able():
        return not_applicable("its engine holds no reply to a form")
    asked = {"regex": LETTERS, "json": json.dumps(CHOICE)}
    # We request JSON without white space.
    right = {"regex": LETTERS, "json": r'\{"label":"(yes|no)"\}'}
    obeyed = {}
    for kind, form in asked.items():
        greedy = {"max_tokens": FORM_TOKENS, "temperature": 0.0, "stop_token_ids": trial.sampling["stop_token_ids"]}
        reply = await trial.first_reply(**greedy, structured_outputs={kind: form})
        obeyed[kind] = re.fullmatch(right[kind], str(reply["text"])) is not None
    seen = ", ".join(f"{kind}: {'obeyed' if good else 'broken'}" for kind, good in obeyed.items())
    return ok(seen) if all(obeyed.values()) else fail(seen, f"judges that write cannot be read; {ISSUE}")


# ---------------------------------------------------------------- the engine itself


async def prefix_cache(trial: Trial) -> CheckOutcome:
    """Samples of one prompt share its prefill."""
    try:
        counters = await trial.engine.metrics()
    except ConnectionError as error:
        return warn(str(error), "whether samples of one prompt share its prefill is not known")
    queries, hits = counters.get("prefix_cache_queries", 0), counters.get("prefix_cache_hits", 0)
    if not queries:
        return warn("the engine has no prefix cache", "every sample pays for its prompt; some models have none")
    seen = f"{hits:.0f} of {queries:.0f} prompt tokens came from the cache"
    if hits:
        return ok(seen)
    block = counters.get("block_size", 0)
    longest = max((len(sample.request.token_ids) for sample in trial.samples), default=0)
    # A prompt's last token is always computed, and only whole blocks are kept.
    if longest - 1 < block:
        return not_applicable(f"prompts have up to {longest} tokens here, a block of the cache {block:.0f}")
    return fail(seen, "every sample pays for its prompt: is `enable-prefix-caching` off, or `block-size` large?")


async def throughput(trial: Trial) -> CheckOutcome:
    """Many requests at once, each with a seed of its own: tokens per second."""
    rates, requests = [], [sample.request for sample in trial.samples]
    for count in sorted({min(most, trial.model.plan.in_flight) for most in AT_ONCE["cpu" if trial.on_cpu else "cuda"]}):
        asked = [dataclasses.replace(requests[place % len(requests)], seed=place) for place in range(count)]
        started = time.monotonic()
        replies = await asyncio.gather(*(trial.complete(one, trial.shorter()) for one in asked))
        tokens = sum(len(reply["token_ids"]) for reply in replies)
        rates.append(f"{tokens / (time.monotonic() - started):,.0f} tokens/s with {count} requests at once")
    return ok("; ".join(rates))


async def compiled_path(trial: Trial) -> CheckOutcome:
    """The engine runs compiled, with CUDA graphs, as it does by default."""
    if trial.on_cpu:
        return not_applicable("not on CPU")
    if any(word.partition("=")[0] == "--enforce-eager" for word in trial.serving.get("arguments", ())):
        return warn("the engine's entry says `enforce-eager`", "it was not tried; check a model without it too")
    return ok(f"healthy after {trial.start_seconds:.0f} s, without `enforce-eager`")


async def leased_gpus(trial: Trial) -> CheckOutcome:
    """The GPUs that compute are those that were leased."""
    if trial.on_cpu:
        return not_applicable("not on CPU")
    leased = {device.gpu.uuid for device in trial.devices if device.gpu}
    used = await asyncio.to_thread(computing, set(trial.engine.processes())) if leased else set()
    seen = f"{len(leased)} leased, {len(leased & used)} of them compute, {len(used - leased)} others"
    if not used:
        return warn(seen, "nvidia-smi shows none of the engine's processes; in some containers it cannot")
    return ok(seen) if used == leased else fail(seen, f"leases do not hold; do not share this machine; {ISSUE}")


async def offline_start(trial: Trial) -> CheckOutcome:
    """Check that the engine started from a folder, offline, and reached no hub."""
    # Of all processes, because vLLM's workers write their name over their environment.
    if not any(map(_is_offline, trial.engine.processes())):
        return fail("the server was not told to ask no hub", f"nodes without internet may hang; {ISSUE}")
    return ok(f"from a folder, told to ask no hub{', ' + trial.network if trial.network else ''}")


def _is_offline(pid: int) -> bool:
    """Whether a process was started with what keeps it from asking the hub."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return all(f"{name}={value}".encode() in variables for name, value in OFFLINE.items())


async def network(trial: Trial) -> CheckOutcome:
    """None of the server's processes listens to the network."""
    listeners = listeners_of(trial.engine.processes())
    if opened := sorted({f"{one.address}:{one.port}" for one in listeners if not one.on_loopback}):
        seen = f"reached from other machines: {', '.join(opened[:4])}"
        return fail(seen, f"do not run this on a shared network; {ISSUE}")
    return ok(f"a Unix socket and {len(listeners)} ports on loopback; no other")


# ---------------------------------------------------------------- after it was stopped


async def released(trial: Trial) -> CheckOutcome:
    """Nothing of the engine is left, and its GPUs can be leased again."""
    count, left = len(trial.processes), sum(process_start(pid) is not None for pid in trial.processes)
    if left:
        return fail(f"{left} of the engine's {count} processes are left", f"they hold memory; {ISSUE}")
    seen = f"none of the engine's {count} processes is left"
    if not trial.devices:
        return ok(seen)
    visible = ",".join(device.visible for device in trial.devices)
    variables = {**os.environ, VISIBLE: visible, WAIT_VARIABLE: str(LEASE_SECONDS / 3600)}
    try:
        deadline = time.monotonic() + LEASE_SECONDS
        (await asyncio.to_thread(lease_devices, len(trial.devices), variables, deadline)).release()
    except UserError as error:
        return fail(f"{seen}; its GPUs are not free: {first_line(str(error))}", f"the next job waits for them; {ISSUE}")
    return ok(f"{seen}; its {len(trial.devices)} GPUs could be leased again")


async def tensor_parallel(trial: Trial) -> CheckOutcome:
    """On another number of GPUs, answers have the same log-probabilities."""
    plan, engine = trial.model.plan, trial.model.plan.engine
    if trial.on_cpu:
        return not_applicable("not on CPU")
    if not isinstance(engine, VllmEngine) or engine.nodes > 1:
        return not_applicable("for engines of one machine")
    size, there = engine.tensor_parallel, len(_leasable(plan))
    other = 2 * size if 2 * plan.gpus <= there else size // 2
    if not other:
        return not_applicable("there is one GPU")
    plan = dataclasses.replace(plan, engine=engine.model_copy(update={"tensor_parallel": other}))
    try:
        async with trial.other_engine(plan, trial.model.log.with_suffix(".parallel.log")) as server:
            outcome = await trial.same_scores(server)
    except UserError as error:
        seen = f"`tensor_parallel: {other}` does not start: {first_line(str(error))}"
        return warn(seen, f"not every model can be split so, and weights may not fit; with {size} it works")
    return outcome._replace(seen=f"`tensor_parallel: {size}` and {other}: {outcome.seen}")


WHILE_IT_RUNS: Sequence[Check] = (
    *(
        answers,
        rendering,
        template_ids,
        reasoning_marks,
        log_probabilities,
        scored_again,
        same_seed_twice,
        seeds_under_load,
    ),
    *(other_seeds, stop_tokens, unseeded_sampling, named_log_probabilities, forms, prefix_cache, throughput),
    *(compiled_path, leased_gpus, offline_start, network),
)
AFTER_IT_STOPPED: Sequence[Check] = (released, tensor_parallel)
