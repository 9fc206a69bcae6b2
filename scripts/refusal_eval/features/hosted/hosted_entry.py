"""What the kinds of engine have in common that are servers of other parties: their entry, and what they are asked."""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from pydantic import AfterValidator, Field, ValidationError, model_validator

from refusal_eval.ask.keys import Message, is_neutral
from refusal_eval.config.engine_entry import Capability, Engine
from refusal_eval.config.entries import Sampling
from refusal_eval.config.shapes import Day, Number, Page, Text
from refusal_eval.core.errors import UserError
from refusal_eval.core.secret_names import names_a_secret
from refusal_eval.engines.engine_base import EngineLoad
from refusal_eval.features.hosted.client import HostedClient
from refusal_eval.features.hosted.hosted_trial import HostedTrial
from refusal_eval.features.hosted.price import Price
from refusal_eval.features.hosted.readings import (
    Again,
    Answered,
    EndsLoad,
    Reply,
    ReplyReading,
    by_status,
    mapping,
    unusable,
)

SEED = "seed"
FORM = "structured_outputs"  # the parameter by which a reply is held to a form
# Sampling parameters that only engines have which take token ids, and those that dialects translate by themselves.
NO_PARAMETERS = ("stop_token_ids", "logprob_token_ids", FORM)
# What `extra` may not hold: what is sent anyway, several answers at once, and other models where this one declines.
NO_EXTRA = (
    *("model", "messages", "system", "stream", "n", "best_of", "models", "route", "fallbacks"),
    *("logprobs", "cache_control", "max_tokens", "max_completion_tokens", "max_output_tokens"),
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WORD = r"[`'\"]{0}[`'\"]|^{0}:"  # how the message of an error names a parameter
_UNSUPPORTED = re.compile(
    r"unsupported|not supported|deprecated|unknown|unrecogni[sz]ed|not permitted|not allowed|unexpected", re.IGNORECASE
)
_INSTEAD = re.compile(r"[Uu]se [`'\"](\w+)[`'\"] instead")


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a name or a password; name the environment variable with the key in `key_variable`")
    if secret := next((name for name, _ in parse_qsl(parts.query) if names_a_secret(name)), None):
        raise ValueError(f"holds `{secret}`, a secret; name the environment variable with it in `key_variable`")
    return address


class Hosted(Engine):
    """A model on a server of another party. A dialect adds how it is asked, and how its replies are read."""

    elsewhere: ClassVar[bool] = True
    reads_of_study: ClassVar[tuple[str, ...]] = ("study", "store_dir", "budget")
    capabilities: ClassVar[frozenset[Capability]] = frozenset(
        {"writes_text", "takes_messages", "structured_outputs", "may_block"}
    )
    spoken: ClassVar[str]  # the dialect in words
    path: ClassVar[str]  # behind the address; `{served}` in it is the model's name
    messages_key: ClassVar[str] = "messages"  # the key of a request that holds them
    names: ClassVar[Mapping[str, str]]  # of the parameters that the dialect has: our name and its name
    required: ClassVar[frozenset[str]] = frozenset()  # those that its servers do not go without
    refusal_test: ClassVar[str | None] = None  # a prompt that the provider documents to be refused by its classifier

    address: Annotated[Page, AfterValidator(_without_secrets)] = Field(
        description="Where the API begins, such as `https://api.openai.com/v1`. In the request key, without a query."
    )
    served: Text = Field(description="The model's name there. In the request key.")
    key_variable: Text | None = Field(
        None,
        description="Environment variable that holds the key of the API. Its value is read when the load starts and "
        "written nowhere. Default: no key is sent.",
    )
    as_of: Day = Field(
        description="The day since which answers count: a model behind a name changes. In the request key, so that a "
        "later day asks again and keeps the earlier answers; two entries with two days are two models, which can be "
        "compared in pairs."
    )
    parameters: dict[Text, Text | None] = Field(
        {},
        description="What our sampling parameters, and `seed`, are called there, such as `{max_tokens: "
        "max_completion_tokens}`. One that is named here is always sent, also at the value that switches it off, for "
        "servers with other defaults; `null` means that it is not sent. In the request key.",
    )
    extra: dict[Text, Any] = Field(
        {},
        description="Sent as it is with every request: a pinned provider, safety settings, `reasoning`. In the request "
        "key.",
    )
    known_as: list[Text] = Field(
        [],
        description="Other names by which its replies may call the model, such as the model behind a deployment. "
        "Longer ones that begin with `served` need not be listed. A reply with any other name counts as failed. In no "
        "key.",
    )
    price: Price | None = Field(
        None, description="What tokens cost. A study with a `budget` needs it of each of its hosted engines. In no key."
    )
    timeout: Number = Field(3600, gt=0, description="Seconds that an answer may take. In no key.")

    @model_validator(mode="after")
    def _sends_what_it_says(self) -> Self:
        known = {*Sampling.model_fields, SEED}
        if unknown := sorted(self.parameters.keys() - known):
            raise ValueError(f"`parameters` has `{unknown[0]}`, and ours are {', '.join(sorted(known))}")
        if missing := sorted(name for name in self.required if self.parameters.get(name, "") is None):
            raise ValueError(f"`parameters`: this API needs `{missing[0]}`")
        sent = {*NO_EXTRA, self.messages_key, *self._names().values()}
        if twice := sorted(self.extra.keys() & sent):
            raise ValueError(f"`extra` has `{twice[0]}`, which is not for `extra`: {self._why_not_extra(twice[0])}")
        if secret := next(filter(names_a_secret, _keys(self.extra)), None):
            raise ValueError(
                f"`extra` has `{secret}`, a secret, which would be in files; only `key_variable` names one"
            )
        parts = urlsplit(self.address)
        if self.key_variable and parts.scheme == "http" and not self.is_here:
            raise ValueError(
                "`address` begins with http://, by which the key would travel openly; use https://, or a "
                "tunnel to this machine"
            )
        return self

    def _why_not_extra(self, name: str) -> str:
        if name in ("models", "route", "fallbacks"):
            return "another model would answer where this one declines"
        if name == "cache_control":
            return "what is written into a cache costs more than `price` says"
        if name in ("n", "best_of"):
            return "a study draws its `samples` one by one"
        return "it is sent already"

    def _names(self) -> dict[str, str]:
        """Return what is sent, by our names, under which name."""
        return {ours: theirs for ours, theirs in {**self.names, **self.parameters}.items() if theirs is not None}

    @property
    def is_here(self) -> bool:
        """Whether the server is on this machine."""
        return urlsplit(self.address).hostname in LOOPBACK

    @property
    def sends_seeds(self) -> bool:
        return SEED in self._names()

    @property
    def place(self) -> str:
        """The address without query and without a slash at its end."""
        parts = urlsplit(self.address)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))

    @property
    def url(self) -> str:
        """The address to which requests are sent."""
        parts = urlsplit(self.address)
        path = parts.path.rstrip("/") + self.path.replace("{served}", quote(self.served))
        return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))

    def identity(self, weights: Mapping[str, Any] | None) -> dict[str, Any]:
        names = ("kind", "served", "parameters", "extra")
        return {name: getattr(self, name) for name in names} | {"address": self.place, "as_of": str(self.as_of)}

    @classmethod
    def described(cls, entry: Mapping[str, Any]) -> str:
        own = cls.model_construct(**entry)
        further = f", with {json.dumps(own.extra, sort_keys=True)} in each request" if own.extra else ""
        return f"{own.place} as {own.served} ({cls.spoken}, as of {own.as_of}{further})"

    def sent_sampling(self, sampling: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in sampling.items() if self.parameters.get(name, "") is not None}

    def unsent(self, sampling: Mapping[str, Any]) -> Iterator[str]:
        names = self._names()
        for name, value in sampling.items():
            known = name in names or name in NO_PARAMETERS or name in self.parameters
            if not known and not is_neutral(name, value):
                yield name

    def most_at_once(self, device: str | None) -> int:
        return 16

    def variables(self) -> list[str]:
        return [self.key_variable] if self.key_variable else []

    def trial(self, sampling: Mapping[str, Any], folder: str) -> HostedTrial:
        """Return what `refusal-eval check --model` asks it."""
        return HostedTrial(self, sampling, folder)

    def running(self, load: EngineLoad) -> HostedClient:
        """Return the client for one load."""
        return HostedClient(self, load)

    def sampled(self, sampling: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """Return the parameters of a request, as they are called there.

        Raises:
            UserError: for one that the dialect does not have.
        """
        if unsent := list(self.unsent(sampling)):
            raise UserError(
                f"an engine of kind {self.kind} does not send {unsent[0]}: leave it out of `sampling`, or name it in "
                f"`parameters` of the engine, as in `parameters: {{{unsent[0]}: {unsent[0]}}}`"
            )
        given = {**sampling, SEED: seed}
        return {
            theirs: given[ours]
            for ours, theirs in self._names().items()
            if given.get(ours) is not None and (ours in self.parameters or not is_neutral(ours, given[ours]))
        }

    def is_other(self, name: str | None) -> bool:
        """Tell whether a reply names another model than the one that was asked, or a version of it."""
        if not name:
            return False
        asked = [_bare(one) for one in (self.served, *self.known_as)]
        return not any(_bare(name).startswith(one) for one in asked)

    def parameter_at_fault(self, named: str | None, message: str, reply: Reply) -> EndsLoad | None:
        """Return that a parameter, or its value, is not taken, with the line that mends it; None for another error.

        Args:
            named: the parameter that the error names in a field of its own.
            message: its message.
        """
        for ours, theirs in self._names().items():
            if named == theirs or (not named and re.search(_WORD.format(re.escape(theirs)), message)):
                if not _UNSUPPORTED.search(message):
                    return EndsLoad(f"sampling: {ours}", reply.shown)
                found = _INSTEAD.search(message)
                return EndsLoad(f"parameters: {{{ours}: {found[1] if found else 'null'}}}", reply.shown)
        return None

    def lacks_logprobs(self, response: Mapping[str, Any]) -> bool:
        """Tell whether log-probabilities were asked for, and an answer has none."""
        return False

    @abc.abstractmethod
    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request."""

    @abc.abstractmethod
    def body(self, messages: Sequence[Message], sampling: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """Return what a request says."""

    def reading(self, reply: Reply) -> ReplyReading:
        """Return what becomes of a reply: a pure function of it and of the entry."""
        if reply.status != 200 or self.is_error(mapping(reply.body)):
            found = self.without_answer(reply)
            return by_status(reply, found) if isinstance(found, int) else found
        if reply.is_page:
            return EndsLoad("address", reply.shown)
        if reply.body is None:
            reason = "the reply is no whole JSON"  # it may hold an answer, which no log shows
            return Again(reason, unusable(reason), unknown_bill=True)
        try:
            return self.answered(reply)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            return Answered(unusable(f"the reply is not in the form of `{self.kind}`: {place}: {first['msg']}"))

    @abc.abstractmethod
    def is_error(self, body: Mapping[str, Any]) -> bool:
        """Tell whether a reply with HTTP 200 is an error all the same."""

    @abc.abstractmethod
    def answered(self, reply: Reply) -> ReplyReading:
        """Return what becomes of a reply with an answer; what pydantic does not take of it is no answer."""

    @abc.abstractmethod
    def without_answer(self, reply: Reply) -> ReplyReading | int:
        """Return what becomes of an error, or the HTTP status that says it."""


def schema_of(form: Mapping[str, Any]) -> Any:
    """Return the JSON schema of a form, which is text where the order of its keys counts: request files sort theirs."""
    schema = form["json"]
    return json.loads(schema) if isinstance(schema, str) else schema


def _keys(value: object) -> Iterator[str]:
    """Yield the keys of a value at every depth."""
    if isinstance(value, Mapping):
        yield from map(str, value)
    for item in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _keys(item)


def _bare(name: str) -> str:
    """Return a model's name without its publisher, its variant and the word for its newest version."""
    name = name.casefold().rpartition("/")[2].partition(":")[0]
    return re.sub(r"[._@-]+", "-", name).removesuffix("-latest")
