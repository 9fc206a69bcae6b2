"""The client of hosted engines: one request after the other, waiting where a server is busy, within the budget."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email.utils
import json
import logging
import os
import random
import re
import time
from collections.abc import Mapping
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from refusal_eval.ask.keys import EnginePrompt, is_messages
from refusal_eval.ask.requests import RequestSettings
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json, utf8
from refusal_eval.engines.engine_base import EngineLoad, Rejected, RunningEngine
from refusal_eval.features.hosted.journal import Journal, journal_path
from refusal_eval.features.hosted.pace import RequestPace
from refusal_eval.features.hosted.price import Most
from refusal_eval.features.hosted.readings import Again, Answered, EndsLoad, Refused, Reply, ReplyReading, unusable

if TYPE_CHECKING:
    from refusal_eval.features.hosted.hosted_entry import Hosted

LOG = logging.getLogger(__name__)
TRIES = 8  # which take two minutes
BUSY_SECONDS = 900.0  # as long may a server be busy
LONGEST_WAIT = 60.0  # where the server does not say how long
REPLY_BYTES = 2**25  # no answer is longer
CONNECT_SECONDS = 30.0
KEPT_SECONDS = 4.0  # that a connection waits for the next request; servers close theirs after 5 or more
LAST_REPLIES_SECONDS = 60.0  # to be waited for when a load ends
FORM_TOKENS = 512  # at most, that a provider writes around the form of a reply
HIDDEN = "***"  # in the place of the key
# What to do, by what is to be mended.
ADVICE: Mapping[str, str] = {
    "key": "the server does not take the key in {key}",
    "permission": "the key in {key} has no permission for this, or the server does not serve this region",
    "credits": "the account has no money left; nothing was lost, and a rerun asks only for the rest",
    "quota": "the account's quota is used up; nothing was lost, and a rerun asks only for the rest",
    "served": "the server does not know the model `{served}`, or nothing is served at `address`",
    "address": "this is no answer of an API; mend `address`",
    "unreachable": "nobody is there; is the server up, and `address` right?",
    "known_as": "the reply is of another model than `{served}`. If that is the same, list its name under `known_as`; "
    "else mend `served`",
    "sampling": "the server does not take the value of `{mend}`; mend it in the entries of models and judges",
    "logprobs": "the server gives no log-probabilities; write `logprobs: false` in the entry of this engine",
    "budget": "the study's `budget` leaves no room. Raise it, and a rerun asks only for the rest",
}


class HostedClient(RunningEngine):
    """Asks the server of an engine. Its first request goes alone: what is wrong with all of them costs one."""

    def __init__(self, engine: Hosted, load: EngineLoad) -> None:
        self._engine, self._load = engine, load
        self._first, self._begun, self._answers = asyncio.Lock(), False, 0
        self._reached = False  # whether there ever was a connection
        self._ended: UserError | None = None
        self._awaited = 0  # replies
        self._settled = asyncio.Condition()

    async def __aenter__(self) -> Self:
        engine, study = self._engine, self._load.study
        self._key = os.environ.get(engine.key_variable, "") if engine.key_variable else None
        if self._key == "":
            raise UserError(f"{engine.key_variable} is not set: it holds the key for {engine.place}")
        self._pace = RequestPace(self._load.in_flight)
        self._stack = contextlib.ExitStack()
        self._journal = await self._open_journal() if engine.price is not None and study else None
        limits = aiohttp.ClientTimeout(total=engine.timeout, sock_connect=CONNECT_SECONDS)
        headers = {"Content-Type": "application/json", **engine.headers(self._key)}
        # `trust_env`: through the proxy that HTTPS_PROXY names, if it does.
        self._http = aiohttp.ClientSession(
            timeout=limits,
            headers=headers,
            trust_env=True,
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_SECONDS),
        )
        return self

    async def _open_journal(self) -> Journal:
        """Return the study's journal; wait while another load of the study spends its money."""
        engine, study = self._engine, self._load.study
        assert engine.price is not None
        budget = None if study.get("budget") is None else Decimal(str(study["budget"]))
        path, waiting = journal_path(study["store_dir"], study["study"]), False
        while True:
            try:
                return self._stack.enter_context(Journal(path, budget, engine.served, engine.price.currency))
            except BlockingIOError:
                if not waiting:
                    LOG.info("waiting for another load of this study that spends its money")
                waiting = True
                await asyncio.sleep(1.0)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()
        self._stack.close()

    def serving_record(self) -> dict[str, Any]:
        return {"address": self._engine.place, "served": self._engine.served, "as_of": str(self._engine.as_of)}

    def note(self) -> str:
        return self._journal.summary() if self._journal else ""

    async def complete(self, prompt: EnginePrompt, settings: RequestSettings, seed: int | None) -> dict[str, Any]:
        """Return the response to one request."""
        assert is_messages(prompt)
        body = self._engine.body(prompt, settings.sampling, seed)
        most = Most()
        if self._engine.price is not None:
            further = FORM_TOKENS if settings.sampling.get("structured_outputs") else 0
            most = self._engine.price.most(
                body, self._engine.messages_key, settings.sampling.get("max_tokens"), further
            )
        if not self._begun:
            async with self._first:
                if not self._begun:
                    response = await self._first_response(body, most)
                    self._begun = True
                    return response
        return await self._response(body, most)

    async def _first_response(self, body: Mapping[str, Any], most: Most) -> dict[str, Any]:
        """Return the first response of the load, which ends if nobody is there: others would try as long."""
        try:
            return await self._response(body, most)
        except ConnectionError as error:
            if not self._reached:
                raise await self._end("unreachable", str(error)) from error
            self._begun = True
            raise

    async def _response(self, body: Mapping[str, Any], most: Most) -> dict[str, Any]:
        data, started, tries = utf8(canonical_json(body)), time.monotonic(), 0
        while True:
            reading, wait = await self._ask(data, most)
            if isinstance(reading, Answered):
                accepted = self._accepted(reading)
                self._awaited -= 1
                # From here to where it is stored nothing else runs: see `_after_the_last_reply`.
                if not isinstance(accepted, EndsLoad):
                    return accepted
                reading = accepted
            if isinstance(reading, EndsLoad):
                raise await self._end(reading.mend, reading.reason)
            if isinstance(reading, Refused):
                raise Rejected(400, reading.reason)
            tries += 1
            # Where the server says how long, that is enough; a little more keeps requests from coming back together.
            seconds = wait * random.uniform(1.0, 1.2) or min(LONGEST_WAIT, 2.0 ** (tries - 1))
            spent = time.monotonic() - started
            if wait > BUSY_SECONDS:
                raise await self._end("quota", f"it wants to be left alone for {wait:.0f} s: {reading.reason}")
            if spent + seconds > BUSY_SECONDS if reading.busy else tries >= TRIES:
                if reading.response is not None:
                    return reading.response
                raise ConnectionError(reading.reason)
            level = logging.DEBUG if self._begun else logging.WARNING  # all others wait for the first
            LOG.log(level, "%s: waiting for %.0f s: %s", self._engine.place, seconds, reading.reason)
            if reading.busy:
                self._pace.slow_down(wait)
            await asyncio.sleep(seconds)

    def _accepted(self, reading: Answered) -> dict[str, Any] | EndsLoad:
        """Return the response to store; what says that all others would be of no use ends the load."""
        response = reading.response
        if reading.other_model is not None:
            reason = f"`{reading.other_model}` answered, and `{self._engine.served}` was asked"
            if not self._answers:
                return EndsLoad("known_as", reason)
            kept = {name: response[name] for name in ("usage", "served_by", "model_version") if name in response}
            return unusable(reason, **kept)
        if not self._answers and self._engine.lacks_logprobs(response):
            return EndsLoad("logprobs: false", "the reply has none, although the request asks for them")
        self._answers += response["finish_reason"] in ("stop", "length")
        return response

    async def _ask(self, data: bytes, most: Most) -> tuple[ReplyReading, float]:
        """Return what becomes of the request sent once, and for how many seconds the server wants no other."""
        async with self._pace:
            number = await self._reserve(most.whole)
            self._awaited += 1
            reading: ReplyReading | None = None
            try:
                reading, headers = await self._read(data)
                await self._settle(number, reading, most)
            finally:
                if not isinstance(reading, Answered):  # an answer is awaited until it is stored
                    self._awaited -= 1
        return reading, _seconds_to_wait(headers)

    async def _read(self, data: bytes) -> tuple[ReplyReading, Mapping[str, str]]:
        """Return what becomes of the reply to a request, and the reply's headers."""
        try:
            reply = await self._reply(data)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:  # nothing was sent
            return Again(f"{type(error).__name__}: {error}"[:300]), {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._reached = True
            said = str(error) or f"no answer within {self._engine.timeout:.0f} s"
            return Again(self._hidden(f"{type(error).__name__}: {said}"[:300]), unknown_bill=True), {}
        self._reached = True
        return self._engine.reading(reply), reply.headers

    async def _reply(self, data: bytes) -> Reply:
        async with self._http.post(self._engine.url, data=data, allow_redirects=False) as reply:
            raw = bytearray()
            async for part in reply.content.iter_any():
                raw += part
                if len(raw) > REPLY_BYTES:
                    raise ValueError(f"a reply of more than {REPLY_BYTES} bytes")
            text = self._hidden(raw.decode("utf-8", "replace"))
            body = None
            with contextlib.suppress(ValueError, RecursionError):
                body = json.loads(text)
            return Reply(reply.status, {name.lower(): value for name, value in reply.headers.items()}, body, text)

    def _hidden(self, text: str) -> str:
        """Return a text without the key, which servers may repeat."""
        return text.replace(self._key, HIDDEN) if self._key else text

    # ---------------------------------------------------------------- money

    async def _reserve(self, most: Decimal) -> str | None:
        """Reserve the most that a request can cost; wait where others in flight may leave room."""
        while True:
            if self._ended is not None:
                raise await self._after_the_last_reply(self._ended)
            if self._journal is None:
                return None
            if (number := self._journal.reserve(most)) is not None:
                return number
            if not self._awaited:
                raise await self._end("budget", f"the next request may cost {most:.4f} ({self._journal.summary()})")
            async with self._settled:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), 1.0)

    async def _settle(self, number: str | None, reading: ReplyReading, most: Most) -> None:
        if self._journal is None or number is None or self._engine.price is None:
            return
        response = reading.response if isinstance(reading, Answered | Again) else None
        usage = response and response.get("usage")
        if usage:
            self._journal.settle(number, self._engine.price.cost(usage))
        elif isinstance(reading, Answered) and reading.of_prompt_alone:
            self._journal.settle(number, most.prompt)  # some providers bill it, and do not say so
        elif isinstance(reading, Refused | EndsLoad) or (isinstance(reading, Again) and not reading.unknown_bill):
            self._journal.settle(number, Decimal(0))  # an error is not billed
        # Else nobody says: it stays reserved.
        async with self._settled:
            self._settled.notify_all()

    # ---------------------------------------------------------------- the end

    async def _end(self, mend: str, reason: str) -> UserError:
        """Return the error that ends the load."""
        engine = self._engine
        advice = ADVICE.get(mend.partition(": ")[0], "write `{mend}` in the entry of this engine")
        key = f"`{engine.key_variable}`" if engine.key_variable else "no `key_variable`"
        advice = advice.format(key=key, served=engine.served, mend=mend)
        self._ended = self._ended or UserError(f"{engine.place}: {advice}. {reason}")
        return await self._after_the_last_reply(self._ended)

    async def _after_the_last_reply(self, error: UserError) -> UserError:
        """Return the error once the requests in flight, which are paid, have been answered and stored."""
        until = time.monotonic() + LAST_REPLIES_SECONDS
        while self._awaited and time.monotonic() < until:
            await asyncio.sleep(0.05)
        return error


def _seconds_to_wait(headers: Mapping[str, str]) -> float:
    """Return for how long a server wants to be left alone, out of its `Retry-After`: seconds or a date."""
    if (milliseconds := headers.get("retry-after-ms", "")).isdecimal():
        return int(milliseconds) / 1000
    asked = headers.get("retry-after", "")
    if re.fullmatch(r"\d+(\.\d+)?", asked):
        return float(asked)
    with contextlib.suppress(ValueError, TypeError):
        until = email.utils.parsedate_to_datetime(asked)
        return max(0.0, (until - datetime.datetime.now(datetime.UTC)).total_seconds())
    return 0.0
