"""What servers of hosted models reply, and the journal of what they cost."""

import json
from pathlib import Path
from typing import Any

from fuzz.mutations import as_json
from fuzz.targets import is_text, target
from stub_replies import wire_forms

from refusal_eval.ask.answers import answer_of_text, said_beside
from refusal_eval.ask.store import checked_response
from refusal_eval.config.kinds import ENGINES
from refusal_eval.core.files import canonical_json, utf8
from refusal_eval.features.hosted.journal import read_spending
from refusal_eval.features.hosted.price import Price
from refusal_eval.features.hosted.readings import Again, Answered, EndsLoad, Reply

PRICE = Price(input=2, output=10, date="2026-11-01")
LOGPROBS = {"content": [{"token": "Su", "logprob": -0.5, "bytes": [83, 117]}, {"token": "re.", "logprob": -0.25}]}


def _cases(dialect: str) -> list[Any]:
    """Return all replies that are known, with their status."""
    cases = [[form["status"], form["body"]] for form in wire_forms(dialect).values()]
    if dialect == "openai":
        told = json.loads(json.dumps(cases[0]))
        told[1]["choices"][0]["logprobs"] = LOGPROBS
        cases.append(told)
    return cases


def _read(data: bytes, dialect: str) -> None:
    try:
        said = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return  # the client knows no body then
    status, body = said if isinstance(said, list) and len(said) == 2 else (200, said)
    if type(status) is not int or not 200 <= status < 600:
        status = 200
    more = {"logprobs": True} if dialect == "openai" else {}
    entry = {"kind": dialect, "address": "https://host/v1", "served": "m", "as_of": "2026-11-01", **more}
    engine = ENGINES.entry(entry)
    reading = engine.reading(Reply(status, {"retry-after": str(body)[:20]}, body, json.dumps(body)))
    if isinstance(reading, EndsLoad):
        assert is_text(reading.mend) and is_text(reading.reason)
    response = reading.response if isinstance(reading, Answered | Again) else None
    if response is None:
        return
    response = checked_response(response)
    utf8(canonical_json(response))  # as it is stored
    answer = answer_of_text(response, None) | said_beside(response)
    assert is_text(answer["answer"])
    if "usage" in response:
        usage = response["usage"]
        assert 0 <= usage["cached"] <= usage["input"] and usage["output"] >= 0
        assert PRICE.cost(usage) >= 0


@target("hosted: openai", lambda _: _cases("openai"), as_json)
def openai(data: bytes, folder: Path) -> None:
    _read(data, "openai")


@target("hosted: anthropic", lambda _: _cases("anthropic"), as_json)
def anthropic(data: bytes, folder: Path) -> None:
    _read(data, "anthropic")


JOURNAL = b"""{"what": "reserved", "id": "7-0-1", "amount": "0.25", "engine": "m", "currency": "USD"}
{"what": "reserved", "id": "7-0-2", "amount": "0.5", "engine": "m", "currency": "USD"}
{"what": "spent", "id": "7-0-1", "amount": "0.125"}
"""


@target("hosted: journals", [JOURNAL])
def journals(data: bytes, folder: Path) -> None:
    file = folder / "study.journal"
    file.write_bytes(data)
    assert read_spending(file).total.is_finite()
