"""What the stub provider answers: a pure function of its options, a request's body, and how often it was asked."""

import dataclasses
import functools
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WIRE_FORMS = Path(__file__).parent / "unit" / "wire_forms.jsonl"
DIALECTS = ("openai", "anthropic")
WORDS = tuple(
    [
        "first",
        "then",
        "take",
        "a",
        "clean",
        "bowl",
        "and",
        "add",
        "two",
        "cups",
        "of",
        "flour,",
        "stir",
        "it",
        "until",
        "«smooth»",
        "naïve",
        "好",
        "ok",
    ]
)
REFUSAL = "I can't help with that."

# What happens instead of a reply, or to one. `BILLED` are those that a provider bills although nobody can read them.
FAULTS = (
    "429",
    "500",
    "503",
    "504",  # a gateway gave up on a provider that works on
    "529",
    "reset before",  # the connection breaks before any work is done
    "reset after",  # and here after it, before a byte of the reply
    "reset within",  # within the body
    "slow",  # the body comes byte by byte
    "endless",  # the body never ends
    "headers",  # 10 MB of them
    "html",  # the page of somebody's proxy, under 200
    "types",  # JSON of another form
    "cut",  # JSON that ends too soon, in a reply that does not
    "bytes",  # which are not UTF-8
    "redirect",  # to `redirect_to`
)
BILLED = {"504", "reset after", "reset within", "slow", "endless", "headers", "types", "cut", "bytes"}
# Another form of each part that is read of a reply.
OTHER_TYPES: dict[str, list[Any]] = {
    "openai": [
        [],
        None,
        "Sure.",
        17,
        {"choices": {}},
        {"choices": ["Sure."]},
        {"choices": [{"message": "Sure.", "finish_reason": "stop"}]},
        {"choices": [{"message": {"role": "assistant", "content": 5}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"role": "assistant", "content": {"text": "Sure."}}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"role": "assistant", "content": "Sure."}, "finish_reason": 7}]},
        {"choices": [{"message": {"role": "assistant", "content": "Sure."}, "finish_reason": None}]},
        {"choices": [{"message": {"role": "assistant", "content": "Sure."}, "finish_reason": "unheard_of"}]},
        {"error": ["no capacity"]},
    ],
    "anthropic": [
        [],
        None,
        "Sure.",
        17,
        {"type": "message", "content": "Sure.", "stop_reason": "end_turn"},
        {"type": "message", "content": ["Sure."], "stop_reason": "end_turn"},
        {"type": "message", "content": [{"type": "text", "text": 5}], "stop_reason": "end_turn"},
        {"type": "message", "content": [{"type": "text", "text": "Sure."}], "stop_reason": 7},
        {"type": "message", "content": [{"type": "text", "text": "Sure."}], "stop_reason": None},
        {"type": "message", "content": [{"type": "text", "text": "Sure."}], "stop_reason": "unheard_of"},
        {"type": "error", "error": "Overloaded"},
    ],
}
TAKEN = {
    "openai": set(
        [
            "model",
            "messages",
            "max_tokens",
            "max_completion_tokens",
            "temperature",
            "top_p",
            "n",
            "stream",
            "stop",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "user",
            "seed",
            "tools",
            "tool_choice",
            "response_format",
            "reasoning_effort",
            "store",
            "metadata",
            "service_tier",
            "parallel_tool_calls",
            "safety_identifier",
            "verbosity",
        ]
    ),
    "anthropic": set(
        [
            "model",
            "messages",
            "max_tokens",
            "system",
            "temperature",
            "top_p",
            "top_k",
            "stop_sequences",
            "stream",
            "tools",
            "tool_choice",
            "thinking",
            "metadata",
            "service_tier",
            "output_config",
        ]
    ),
}
REFUSED = "MAGIC_STRING_TRIGGER_REFUSAL"  # in the prompt that the provider documents to be refused
TOOL_TOKENS = 346  # which a forced tool adds to the prompt, by the provider's documentation


@dataclass
class Options:
    """How the stub behaves. Shares are of all requests, drawn by the hash of each."""

    key: str | None = "sk-stub-secret"  # another one is a 401; None takes each
    blocked: float = 0.0
    block_forms: Sequence[str] = ()  # names of wire forms; none: all of the dialect that are blocks
    declared: float = 0.0  # refusals in the field for them (openai; a plain refusal where there is none)
    refused: float = 0.0  # in plain words
    length: int = 12  # mean number of tokens of an answer
    reasoning: int = 0  # tokens of reasoning before the answer, which count towards max_tokens
    cached: float = 0.0  # share of requests of which half the prompt comes out of the cache
    latency: float = 0.0  # mean seconds
    rate: float = 0.0  # requests per second, more are a 429; 0: any number
    retry_after: str = "1"
    faults: Mapping[str, float] = field(default_factory=dict)  # share of each, drawn again at each try
    script: list[Any] = field(default_factory=list)  # what comes first, by arrival: see `planned`
    always: Any = None  # what comes each time: likewise
    unsupported: Sequence[str] = ()  # parameters that the model does not take
    only_default: Sequence[str] = ()  # of which it takes the default alone
    takes: Sequence[str] = ()  # parameters besides those of the dialect
    answers_as: str | None = None  # the name of the model that answers
    fingerprint: str | None = "fp_stub"
    provider: str | None = None
    quota: int = 0  # tokens, after which a 429 says that no waiting helps; 0: any number
    log_probabilities: bool = True
    bytes_per_token: float = 4.0  # of prompts; 1.0 is as dear as a prompt can be
    bills_blocks: bool = False  # bills the prompt of a block with an HTTP error, which says nothing of it
    counts_forms: bool = True  # bills the schema of a form or tool as part of the prompt, as providers do
    obeys_seeds: bool = True
    obeys_system: bool = True  # a system message that wants a single word
    varies: bool = False  # a request without a seed is answered anew each time that it is asked
    redirect_to: str = "http://127.0.0.1:9/v1/chat/completions"
    slow_seconds: float = 0.05  # between the bytes of a slow body
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what differs, by the name of a model

    def of(self, model: str) -> "Options":
        return dataclasses.replace(self, **self.models.get(model, {}))


@dataclass
class Reply:
    """What the stub sends, what it does to the connection, what it bills, and what its log says of it."""

    status: int
    body: Any
    form: str  # name of a wire form, or what it is otherwise
    kind: str  # answer, declared, blocked, refusal, verdict, fault or error
    billed: tuple[int, int, int] = (0, 0, 0)  # tokens of the prompt, those of it out of the cache, of the answer
    headers: dict[str, str] = field(default_factory=dict)
    fault: str | None = None
    text: str | None = None  # all that the model wrote for an answer
    expect: dict[str, Any] | None = None  # what a wire form should become


@dataclass
class Asked:
    """A request, as far as the answer depends on it."""

    dialect: str
    body: dict[str, Any]
    number: int  # of all requests
    turn: int = 0  # how often it was asked before
    answered: int = 0  # how often it was answered before
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, str]]:
        """Roles and texts, the system message first."""
        system = self.body.get("system")
        first = [] if system is None else [{"role": "system", "content": _plain(system)}]
        return first + [{"role": m["role"], "content": _plain(m["content"])} for m in self.body["messages"]]

    @property
    def identity(self) -> str:
        """Hash of what the answer depends on."""
        what = [self.body["model"], self.messages, self.body.get("seed")]
        return hashlib.sha256(json.dumps(what, ensure_ascii=False).encode()).hexdigest()


class Chance:
    """Numbers in [0, 1) that depend on a text and on a name alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, name: str) -> float:
        digest = hashlib.sha256(f"{self._text}/{name}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48

    def choice(self, name: str, among: Sequence[Any]) -> Any:
        return among[int(self(name) * len(among))]


@functools.cache
def wire_forms(dialect: str) -> dict[str, dict[str, Any]]:
    """Return the known replies of a dialect, by name."""
    rows = map(json.loads, WIRE_FORMS.read_text(encoding="utf-8").splitlines())
    return {row["name"]: row for row in rows if row["dialect"] == dialect}


def block_forms(dialect: str) -> list[str]:
    """Return the names of those that are blocks."""
    return [name for name, row in wire_forms(dialect).items() if row["expect"]["state"] == "blocked"]


def planned(what: Any, asked: Asked, options: Options) -> Reply:
    """Return the reply that `script` or `always` names.

    Its form is the name of a wire form or of a fault, a status, or `{status, body, headers}`.
    """
    if what in FAULTS:
        return faulty(what, asked, options)
    if isinstance(what, str):
        return of_form(what, asked, options)
    if isinstance(what, int):
        return Reply(what, _error(asked.dialect, what, "as it was asked to"), f"status {what}", "error")
    what = dict(what)
    return Reply(what.get("status", 200), what.get("body"), "by hand", "error", headers=what.get("headers", {}))


def reply(asked: Asked, options: Options) -> Reply:
    """Return what a request is answered, if the provider is in order."""
    wrong = _mistake(asked, options)
    if wrong is not None:
        return wrong
    tries = Chance(f"{asked.identity}/try {asked.turn}")
    drawn, below = tries("fault"), 0.0
    for name, share in options.faults.items():
        below += share
        if drawn < below:
            return faulty(name, asked, options)
    return sound(asked, options)


def sound(asked: Asked, options: Options) -> Reply:
    """Return a reply without a fault: a block, a refusal, a verdict or an answer."""
    if asked.dialect == "anthropic" and REFUSED in asked.messages[-1]["content"]:
        return of_form("refusal before any text", asked, options)
    wanted = re.search(r"the single word (\w+)", asked.messages[0]["content"])
    if wanted is not None and asked.messages[0]["role"] == "system" and options.obeys_system:
        return _answer(f"{wanted[1].capitalize()}.", "answer", asked, options)
    chance = _chance(asked, options)
    drawn = chance("kind")
    if drawn < options.blocked:
        known = block_forms(asked.dialect)
        names = [name for name in options.block_forms if name in known] or known
        return of_form(chance.choice("form", names), asked, options)
    schema = _schema(asked)
    if schema is not None:
        return _answer(json.dumps(instance(schema, chance), ensure_ascii=False), "verdict", asked, options)
    drawn -= options.blocked
    if drawn < options.declared and asked.dialect == "openai":
        return _answer(REFUSAL, "declared", asked, options)
    if drawn < options.declared + options.refused:
        return _answer(REFUSAL, "refusal", asked, options)
    count = 1 + int(chance("length") * 2 * options.length)
    words = [chance.choice(f"word {i}", WORDS) for i in range(count)]
    return _answer(" ".join(["Sure,", *words]) + ".", "answer", asked, options)


def of_form(name: str, asked: Asked, options: Options) -> Reply:
    """Return a wire form, with the model's name and its usage as they would be."""
    form = wire_forms(asked.dialect)[name]
    body, expect = json.loads(json.dumps(form["body"])), form["expect"]
    kind = {"blocked": "blocked"}.get(expect["state"], "declared" if expect["declared"] else "error")
    if expect["state"] in ("complete", "truncated", "truncated_reasoning") and kind == "error":
        kind = "refusal" if expect["text"] == REFUSAL else "answer"
    made = Reply(form["status"], body, name, kind, headers=dict(form.get("headers", {})), expect=expect)
    made.text = expect["text"]
    if form["status"] == 200 and isinstance(body, dict) and "error" not in body:
        told = expect["partial"] or expect["text"] or "a thought"
        silent = (body.get("usage") or {}).get("output_tokens") == 0
        made.billed = _billed(asked, options, 0 if silent else len(pieces(told)))
        if "usage" in body:
            body["usage"] = _usage(asked.dialect, made.billed, 0)
        _name(body, asked, options)
    elif kind == "blocked" and options.bills_blocks:
        made.billed = _billed(asked, options, 0)
    return made


def faulty(name: str, asked: Asked, options: Options) -> Reply:
    """Return a reply with a fault."""
    made = sound(asked, options)
    if name.isdigit():
        status = int(name)
        headers = {"Retry-After": options.retry_after} if status in (429, 503) else {}
        body: Any = "upstream request timeout" if status == 504 else _error(asked.dialect, status, "not now")
        made = Reply(status, body, name, "fault", made.billed if name in BILLED else (0, 0, 0), headers)
    elif name == "html":
        made = Reply(200, "<html>sign in</html>", name, "fault")
    elif name == "redirect":
        made = Reply(307, "", name, "fault", headers={"Location": options.redirect_to})
    elif name == "types":
        other = _chance(asked, options).choice(f"types {asked.turn}", OTHER_TYPES[asked.dialect])
        made = Reply(200, other, name, "fault", made.billed)
    else:
        made.form, made.fault = name, name
        if name not in ("slow", "headers"):  # these can be read to their end
            made.kind = "fault"
        if name in BILLED and made.billed == (0, 0, 0):  # what could not be read was work done all the same
            made.billed = _billed(asked, options, 1)
        if name not in BILLED:
            made.billed = (0, 0, 0)
    return made


def pieces(text: str) -> list[str]:
    """Return the tokens of a text, which joined are the text: words with the space before them."""
    return re.findall(r"\s*\S+|\s+$", text)


def instance(schema: Mapping[str, Any], chance: Chance, at: str = "$", root: Mapping[str, Any] | None = None) -> Any:
    """Return something of a JSON schema's form."""
    root = schema if root is None else root
    if "$ref" in schema:
        found: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return instance(found, chance, at, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(at, schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return instance(schema[word][0], chance, at, root)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        return {
            name: instance(part, chance, f"{at}.{name}", root) for name, part in schema.get("properties", {}).items()
        }
    if kind == "array":
        return [instance(schema.get("items", {}), chance, f"{at}[0]", root)]
    low, high = schema.get("minimum", 0), schema.get("maximum", 1)
    values: dict[Any, Any] = {
        "number": round(low + chance(at) * (high - low), 3),
        "integer": low + int(chance(at) * (high - low + 1)),
        "boolean": chance(at) < 0.5,
        "null": None,
    }
    return values[kind] if kind in values else f"Because of {chance.choice(at, WORDS)}."


def _chance(asked: Asked, options: Options) -> Chance:
    anew = f"/{asked.answered}" if options.varies and not ("seed" in asked.body and options.obeys_seeds) else ""
    return Chance(asked.identity + anew)


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


def _most(asked: Asked) -> float:
    limits = (asked.body.get(name) for name in ("max_tokens", "max_completion_tokens"))
    return next((limit for limit in limits if limit is not None), math.inf)


def _forced(asked: Asked) -> dict[str, Any] | None:
    """Return the tool that the answer must call."""
    name = (asked.body.get("tool_choice") or {}).get("name") if asked.dialect == "anthropic" else None
    return next((tool for tool in asked.body.get("tools", []) if tool["name"] == name), None)


def _schema(asked: Asked) -> dict[str, Any] | None:
    """Return the form that the answer must have."""
    tool = _forced(asked)
    if tool is not None:
        return tool["input_schema"]
    form = asked.body.get("response_format") or {}
    return form["json_schema"]["schema"] if form.get("type") == "json_schema" else None


def _answer(text: str, kind: str, asked: Asked, options: Options) -> Reply:
    """Return a reply of status 200 with a text, cut at the request's limit and at its stop strings."""
    most, stopped = _most(asked), None
    for stop in _stops(asked):
        if stop in text:
            text, stopped = text[: text.index(stop)], stop
    thought = int(min(options.reasoning, most))
    tokens = pieces(text)
    whole = len(tokens) <= most - thought
    tokens = tokens if whole else tokens[: int(most) - thought]
    text = "".join(tokens)
    reasoning = " ".join(["hm"] * thought)
    made = Reply(200, None, kind, kind, _billed(asked, options, len(tokens) + thought), text=text)
    usage = _usage(asked.dialect, made.billed, thought)
    if asked.dialect == "openai":
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if kind == "declared":
            message |= {"content": None, "refusal": text}
        if thought:
            message["reasoning_content"] = reasoning
        choice = {"index": 0, "message": message, "finish_reason": "stop" if whole else "length", "logprobs": None}
        if asked.body.get("logprobs") and options.log_probabilities:
            choice["logprobs"] = {"content": list(_logprobs(tokens, _chance(asked, options))), "refusal": None}
        made.body = {"object": "chat.completion", "created": 1764400000, "choices": [choice], "usage": usage}
    else:
        tool = _forced(asked)
        content: list[dict[str, Any]] = (
            [{"type": "thinking", "thinking": reasoning, "signature": "s"}] if thought else []
        )
        if tool is not None:
            called = json.loads(text) if whole else {}
            content.append({"type": "tool_use", "id": f"toolu_{asked.number}", "name": tool["name"], "input": called})
        elif text:
            content.append({"type": "text", "text": text})
        reason = "max_tokens" if not whole else "tool_use" if tool else "stop_sequence" if stopped else "end_turn"
        made.body = {"type": "message", "role": "assistant", "content": content, "stop_reason": reason}
        made.body |= {"stop_sequence": stopped, "stop_details": None, "usage": usage}
    _name(made.body, asked, options)
    return made


def _stops(asked: Asked) -> list[str]:
    found = asked.body.get("stop" if asked.dialect == "openai" else "stop_sequences") or []
    return [found] if isinstance(found, str) else list(found)


def _logprobs(tokens: Sequence[str], chance: Chance) -> Iterator[dict[str, Any]]:
    for i, token in enumerate(tokens):
        value = -round(3 * chance(f"logprob {i}"), 6)
        yield {"token": token, "logprob": value, "bytes": list(token.encode()), "top_logprobs": []}


def _name(body: dict[str, Any], asked: Asked, options: Options) -> None:
    """Write into a body what a provider says of itself, and the name of the model that answers."""
    openai = asked.dialect == "openai"
    body["id"] = f"chatcmpl-{asked.number}" if openai else f"msg_{asked.number}"
    if body.get("model", "m") == "m":  # a wire form may come from another model than the one that was asked
        body["model"] = options.answers_as or asked.body["model"]
    if openai and options.fingerprint is not None:
        body["system_fingerprint"] = options.fingerprint
    if openai and options.provider is not None:
        body["provider"] = options.provider


def prompt_tokens(asked: Asked, options: Options) -> int:
    """Return the tokens of a prompt: below its UTF-8 bytes and 16 for each message."""
    size = sum(len(message["content"].encode()) for message in asked.messages)
    tokens = math.ceil(size / options.bytes_per_token) + (15 if options.bytes_per_token == 1 else 4) * len(
        asked.messages
    )
    schema = _schema(asked) if options.counts_forms else None
    if schema is not None:
        tokens += len(json.dumps(schema).encode()) // 4 + (TOOL_TOKENS if asked.dialect == "anthropic" else 0)
    return tokens


def _billed(asked: Asked, options: Options, output: int) -> tuple[int, int, int]:
    prompt = prompt_tokens(asked, options)
    cached = prompt // 2 if _chance(asked, options)("cached") < options.cached else 0
    return prompt, cached, int(min(output, _most(asked)))


def _usage(dialect: str, billed: tuple[int, int, int], thought: int) -> dict[str, Any]:
    prompt, cached, output = billed
    if dialect == "anthropic":  # input_tokens are those that did not come out of the cache
        used = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
        return used | {"output_tokens": output}
    used = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return used | details | {"completion_tokens_details": {"reasoning_tokens": thought}}


def _error(dialect: str, status: int, message: str, kind: str | None = None, **more: Any) -> dict[str, Any]:
    if dialect == "anthropic":
        kind = kind or {429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = kind or {429: "requests"}.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None} | more}


def _mistake(asked: Asked, options: Options) -> Reply | None:
    """Return what the provider has against a request, in its words."""
    found = _key_mistake(asked, options) or _parameter_mistake(asked, options) or _form_mistake(asked)
    if found is None:
        return None
    status, message, more = found
    kind = {401: "authentication_error"}.get(status, "invalid_request_error") if asked.dialect == "anthropic" else None
    body = _error(asked.dialect, status, message, kind or "invalid_request_error", **more)
    return Reply(status, body, message.split("'")[0][:40].strip(), "error")


Mistake = tuple[int, str, dict[str, Any]]


def _key_mistake(asked: Asked, options: Options) -> Mistake | None:
    if options.key is None:
        return None
    if asked.dialect == "anthropic":
        if asked.headers.get("x-api-key") != options.key:
            return 401, "invalid x-api-key", {}
        return None if "anthropic-version" in asked.headers else (400, "anthropic-version: header is required", {})
    if asked.headers.get("Authorization") == f"Bearer {options.key}":
        return None
    return (
        401,
        "Incorrect API key provided: sk-***. You can find your API key at the provider.",
        {"code": "invalid_api_key"},
    )


def _parameter_mistake(asked: Asked, options: Options) -> Mistake | None:
    body, openai = asked.body, asked.dialect == "openai"
    for name in body:
        if name in options.unsupported:
            if not openai:
                return 400, f"`{name}` is deprecated for this model.", {}
            instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
            message = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
            return 400, message, {"param": name, "code": "unsupported_parameter"}
        if name in options.only_default and body[name] != 1:
            if not openai:
                return 400, f"`{name}` may only be set to 1 for this model.", {}
            message = f"Unsupported value: '{name}' does not support {body[name]} with this model. "
            message += "Only the default (1) value is supported."
            return 400, message, {"param": name, "code": "unsupported_value"}
        if name not in TAKEN[asked.dialect] and name not in options.takes:
            if not openai:
                return 400, f"{name}: Extra inputs are not permitted", {}
            return 400, f"Unrecognized request argument supplied: {name}", {}
    if not openai and "max_tokens" not in body:
        return 400, "max_tokens: Field required", {}
    if not openai and not 0 <= body.get("temperature", 1) <= 1:
        return 400, "temperature: range: 0..1", {}
    return None


def _form_mistake(asked: Asked) -> Mistake | None:
    openai, body = asked.dialect == "openai", asked.body
    if not openai:
        if any(message["role"] not in ("user", "assistant") for message in body["messages"]):
            return (
                400,
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter.',
                {},
            )
        if not all(_plain(message["content"]).strip() for message in body["messages"]):
            return 400, "messages: text content blocks must contain non-whitespace text", {}
        if _forced(asked) and (body.get("thinking") or {}).get("type") == "enabled":
            return 400, "Thinking may not be enabled when tool_choice forces tool use.", {}
    form = (body.get("response_format") or {}).get("json_schema") if openai else None
    if form is not None and form.get("strict") and (place := _not_strict(form["schema"])):
        message = f"Invalid schema for response_format '{form['name']}': In context={place}, 'additionalProperties' is "
        return (
            400,
            message + "required to be supplied and to be false, and 'required' to name each key.",
            {"param": "response_format"},
        )
    return None


def _not_strict(schema: Any, place: tuple[str, ...] = ()) -> tuple[str, ...] | None:
    """Return where a schema is looser than a strict one may be; with an empty place as ("",)."""
    if isinstance(schema, list):
        return next(filter(None, (_not_strict(part, place) for part in schema)), None)
    if not isinstance(schema, dict):
        return None
    if "properties" in schema and schema.get("type", "object") == "object":
        strict = schema.get("additionalProperties") is False
        if not strict or set(schema.get("required", ())) != set(schema["properties"]):
            return place or ("",)
    inner = (_not_strict(part, (*place, name)) for name, part in schema.items() if name != "enum")
    return next(filter(None, inner), None)
