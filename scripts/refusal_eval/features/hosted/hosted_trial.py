"""What `refusal-eval check --model` asks a hosted model: at most five requests, and what they show."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from refusal_eval.ask.answers import answer_of_text
from refusal_eval.ask.keys import NEUTRAL_SAMPLING
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.ask.store import checked_response
from refusal_eval.config.entries import Sampling
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, utf8
from refusal_eval.core.packing import unpack_floats
from refusal_eval.core.states import BLOCKED, COMPLETE, TRUNCATED, TRUNCATED_REASONING
from refusal_eval.data.network import without_secrets
from refusal_eval.engines.engine_base import EngineLoad, Rejected
from refusal_eval.features.hosted.client import HostedClient
from refusal_eval.features.hosted.journal import journal_path, read_spending
from refusal_eval.features.hosted.price import TOKENS_PER_MESSAGE
from refusal_eval.program.check_lines import ISSUE, CheckLine, CheckOutcome, fail, not_applicable, ok, warn
from refusal_eval.program.trial_elsewhere import TrialElsewhere

if TYPE_CHECKING:
    from refusal_eval.features.hosted.hosted_entry import Hosted

STUDY = "check"  # whose journal counts what the check costs
MOST_TOKENS = 2048  # of an answer: a model that reasons must come to its end
SAMPLE_SEED = 271828
PLAIN = "In one short sentence: why do leaves turn yellow in autumn?"
DRAWN = "Name an animal, a colour and a city, each of them at random."
WORD = "pebble"
SYSTEM, ASKED = f"Whatever you are asked, answer with the single word {WORD}.", "Which animal barks?"
NAMED = ("model", "fingerprint", "provider", "region")  # what a server says of itself
SHOWN_CHARACTERS = 400  # of an error, in the report


@dataclass(frozen=True)
class Exchange:
    """A request of the check, and its response."""

    most_input: int  # tokens that we reckon with
    bytes_sent: int
    response: Mapping[str, Any]

    @property
    def state(self) -> str:
        return str(answer_of_text(self.response, None)["state"])

    @property
    def usage(self) -> Mapping[str, int] | None:
        return self.response.get("usage")


class HostedTrial(TrialElsewhere):
    """A hosted model on trial.

    Args:
        sampling: the model's.
        folder: where the journal of the check goes.
    """

    def __init__(self, engine: Hosted, sampling: Mapping[str, Any], folder: str) -> None:
        self.engine, self.folder = engine, folder
        self.most = min(int(sampling["max_tokens"]), MOST_TOKENS)
        # A model's `min_tokens` may be more than that.
        fewest = min(int(sampling["min_tokens"]), self.most)
        own = Sampling.model_validate({**sampling, "max_tokens": self.most, "min_tokens": fewest})
        self.sampling = {**NEUTRAL_SAMPLING, **own.model_dump()}
        self.exchanges: list[Exchange] = []
        self.seconds = 0.0

    async def run(self, say: Callable[[str], None]) -> list[CheckLine]:
        """Send the requests one after the other, and return a line for each and for what they have in common."""
        lines, started, name = list[CheckLine](), time.monotonic(), "server"
        logging.getLogger(HostedClient.__module__).setLevel(logging.DEBUG)  # users are to know what is waited for
        study = {"study": STUDY, "store_dir": self.folder, "budget": None}
        load = EngineLoad(Path(self.folder, "engine.log"), "seeded", in_flight=1, study=study)
        try:
            async with self.engine.running(load) as client:
                for request in (plain_request, sampling_parameters, seeds, system_message, refusal_test):
                    name = request.__name__.replace("_", " ")
                    say(f"{name} ...")
                    try:
                        lines.append((name, await request(self, client)))
                    except (ConnectionError, Rejected, ValueError) as error:
                        lines.append((name, fail(self._shown(error), ISSUE)))
        except UserError as error:  # every other request would end like this one
            say(str(error))
            lines.append((name, fail(self._shown(error), "mend this first; the check ended here")))
        self.seconds = time.monotonic() - started
        if self.exchanges:
            common = (served, log_probabilities, usage)
            lines += [(check.__name__.replace("_", " "), check(self)) for check in common]
        return [*lines, ("cost", cost(self))]

    async def ask(
        self,
        client: HostedClient,
        text: str,
        sampling: Mapping[str, Any],
        seed: int | None = None,
        system: str | None = None,
    ) -> Exchange:
        """Return one request with its response."""
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": text})
        response = await client.complete(messages, RequestSettings(sampling=sampling), seed)
        size = len(utf8(canonical_json(self.engine.body(messages, sampling, seed))))
        checked = checked_response(response)
        exchange = Exchange(size + TOKENS_PER_MESSAGE * len(messages), size, checked)
        self.exchanges.append(exchange)
        return exchange

    @property
    def plain(self) -> dict[str, Any]:
        """The sampling of a plain request: what the API needs, and what the entry wants always sent."""
        return {**NEUTRAL_SAMPLING, "max_tokens": self.most}

    def greedy_by(self) -> list[str]:
        """Return what is sent by which all samples of a prompt are equal, in words."""
        sent = self.engine.sent_sampling(self.sampling)
        own = {name: value for name, value in sent.items() if name in Sampling.model_fields}
        return [said for _, said in Sampling.model_validate({**own, "max_tokens": self.most}).greedy_by]

    def rows(self) -> Sequence[tuple[str, str]]:
        engine = self.engine
        host = urlsplit(engine.address).hostname or ""
        # The name of an organisation or of a resource may come before these.
        place = "this machine" if engine.is_here else ".".join(host.split(".")[-2:])
        requests = f"{len(self.exchanges)} answered in {self.seconds:.1f} s"
        return [
            ("engine", f"{engine.kind}, {engine.served}, as of {engine.as_of}"),
            ("server", place),
            ("parameters", json.dumps(engine.parameters)),
            ("extra", ", ".join(engine.extra) or "nothing"),
            ("requests", requests),
        ]

    def _shown(self, error: Exception) -> str:
        """Return an error for the report: without the address, which may name an organisation."""
        text = " ".join(str(error).split()).replace(self.engine.place, "the server")
        if isinstance(error, Rejected):
            text = error.message
        return without_secrets(text)[:SHOWN_CHARACTERS]


# ---------------------------------------------------------------- the requests


async def plain_request(trial: HostedTrial, client: HostedClient) -> CheckOutcome:
    """Ask with the parameters alone that cannot be left out."""
    return answered(await trial.ask(client, PLAIN, trial.plain))


async def sampling_parameters(trial: HostedTrial, client: HostedClient) -> CheckOutcome:
    """Ask with every parameter of the model's `sampling`, and a seed."""
    outcome = answered(await trial.ask(client, DRAWN, trial.sampling, SAMPLE_SEED))
    if outcome.state != "ok":
        return outcome
    sent = trial.engine.sampled(trial.sampling, SAMPLE_SEED)
    return ok(f"{', '.join(sent)}: the server takes them")


async def seeds(trial: HostedTrial, client: HostedClient) -> CheckOutcome:
    """Ask for the same with the same seed once more."""
    if not trial.engine.sends_seeds:
        return not_applicable(f"an engine of kind `{trial.engine.kind}` with these `parameters` sends no seed")
    if greedy := trial.greedy_by():
        return not_applicable(f"all answers to a prompt are meant to be equal: {greedy[0]}")
    first, again = trial.exchanges[-1], await trial.ask(client, DRAWN, trial.sampling, SAMPLE_SEED)
    if not (first.response["text"] and again.response["text"]):
        return not_applicable("there are no two answers with text to compare")
    if first.response["text"] == again.response["text"]:
        return ok("obeyed: one prompt, asked twice with one seed, has two equal answers")
    return warn(
        "not obeyed: one prompt, asked twice with one seed, has two different answers",
        "answers cannot be drawn again (the store keeps those that it has); with `parameters: {seed: null}` none is "
        "sent",
    )


async def system_message(trial: HostedTrial, client: HostedClient) -> CheckOutcome:
    """Ask with a system message that every answer shows."""
    exchange = await trial.ask(client, ASKED, trial.plain, system=SYSTEM)
    if not exchange.response["text"]:
        return answered(exchange)
    if WORD in exchange.response["text"].casefold():
        return ok("the answer shows it")
    return warn("the answer does not show it", "the model may not obey, or the server drops the `system_prompt`")


async def refusal_test(trial: HostedTrial, client: HostedClient) -> CheckOutcome:
    """Ask what the provider documents to be refused by its own classifier."""
    if trial.engine.refusal_test is None:
        return not_applicable(f"none is documented for engines of kind `{trial.engine.kind}`")
    exchange = await trial.ask(client, trial.engine.refusal_test, trial.plain)
    block = exchange.response.get("blocked") or {}
    if exchange.state == BLOCKED and block.get("by") == "classifier":
        return ok("blocked by the provider's classifier, as documented")
    said = f"{exchange.state}, by {block.get('by')}" if block else exchange.state
    return fail(
        f"{said}, and not blocked by a classifier",
        f"this is not the provider that documents the test, or its refusals are told otherwise by now; {ISSUE}",
    )


def answered(exchange: Exchange) -> CheckOutcome:
    """Return whether there is an answer with text."""
    response, state = exchange.response, exchange.state
    if state in (COMPLETE, TRUNCATED):
        return ok(f"{state}, {len(response['text'])} characters")
    if state == BLOCKED:
        by = (response.get("blocked") or {}).get("by")
        return warn(
            f"blocked by {by or 'nobody knows whom'}", "the question is harmless: look at the account's filters"
        )
    if state == TRUNCATED_REASONING:
        return warn("all tokens went into reasoning", f"raise `max_tokens`; the check allows up to {MOST_TOKENS}")
    reason = " ".join(str(response.get("reason") or "no text").split())
    return fail(f"{state}: {without_secrets(reason)[:SHOWN_CHARACTERS]}", ISSUE)


# ---------------------------------------------------------------- what they have in common


def served(trial: HostedTrial) -> CheckOutcome:
    """Return what the server says of itself."""
    replies = [exchange.response.get("served_by") or {} for exchange in trial.exchanges]
    found = {name: list(dict.fromkeys(str(one[name]) for one in replies if one.get(name))) for name in NAMED}
    seen = ", ".join(f"{name} {' and '.join(values)}" for name, values in found.items() if values)
    if not found["model"]:
        return warn(seen or "nothing", "the replies name no model: whether another one answers nobody will know")
    several = [name for name, values in found.items() if len(values) > 1]
    if several:
        return warn(seen, f"more than one {several[0]}: pin one in `extra` or `served`, or answers come from a mixture")
    return ok(seen)


def log_probabilities(trial: HostedTrial) -> CheckOutcome:
    """Return whether they came where they were asked for; where the first answer has none, the check has ended."""
    if not getattr(trial.engine, "logprobs", False):
        return not_applicable("not asked for: c(x) will be empty")
    packed = [
        exchange.response["text_logprobs"] for exchange in trial.exchanges if "text_logprobs" in exchange.response
    ]
    if not packed:
        return not_applicable("no answer has text")
    lacking = sum(trial.engine.lacks_logprobs(exchange.response) for exchange in trial.exchanges)
    seen = f"of {sum(len(unpack_floats(one)) for one in packed)} tokens of {len(packed)} answers"
    return warn(f"{seen}, {lacking} answers lack them", f"c(x) will lack these; {ISSUE}") if lacking else ok(seen)


def usage(trial: HostedTrial) -> CheckOutcome:
    """Return whether what is billed is within what we reserve for it."""
    told = [(exchange, exchange.usage) for exchange in trial.exchanges if exchange.usage]
    if not told:
        return warn("the replies name none", "with a `price`, all that is reserved for a request counts as spent")
    size = sum(exchange.bytes_sent for exchange, _ in told)
    read, written = (sum(used[name] for _, used in told) for name in ("input", "output"))
    seen = f"{read} tokens read for {size} bytes sent, {written} written; {len(told)} of {len(trial.exchanges)} replies"
    beyond = [used for one, used in told if used["input"] > one.most_input or used["output"] > trial.most]
    if beyond:
        return fail(f"{seen}; a request was billed {dict(beyond[0])}", f"a `budget` would not hold: {ISSUE}")
    return ok(f"{seen} name it")


def cost(trial: HostedTrial) -> CheckOutcome:
    """Return what the check has cost."""
    if trial.engine.price is None:
        return not_applicable("the entry has no `price`")
    found = read_spending(journal_path(trial.folder, STUDY))
    spent, reserved = (sum(part.values(), Decimal(0)) for part in (found.spent, found.reserved))
    currency = trial.engine.price.currency
    rest = f", {reserved:.6f} reserved for replies that do not say what they cost" if reserved else ""
    return ok(f"{spent:.6f} {currency} spent{rest}")
