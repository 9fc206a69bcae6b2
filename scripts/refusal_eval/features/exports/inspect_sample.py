"""One answer of a study as a sample of a log of inspect, at one level."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.states import BLOCKED, FAILED, TOO_LONG, TRUNCATED, TRUNCATED_REASONING
from refusal_eval.features.exports.exported_cells import ExportedCell, ExportedRow, reason_of
from refusal_eval.program.exporter import ALL, LABELS, Level

OURS = "refusal_eval"  # in a sample's metadata: what the log has no field for
STOPS = {
    BLOCKED: "content_filter",
    TRUNCATED: "max_tokens",
    TRUNCATED_REASONING: "max_tokens",
    TOO_LONG: "model_length",
}
PLAIN = ("answer_logprob", "reasoning_logprob", "answer_tokens", "reasoning_tokens", "declared", "marks")
OF_BLOCK = ("by", "stage", "category", "severity", "code")  # without what the model had written
SHOWN = 300  # characters of an answer in the list of samples


def sample_of(cell: ExportedCell, answers: Sequence[ExportedRow], level: Level) -> dict[str, Any]:
    """Return the sample of one answer, of several turns that of the last one with those before it.

    Args:
        answers: to one prompt under one sample number, by turn.
    """
    last = answers[-1]
    name = f"{last['prompt_id']}-{last['sample'] + 1}"
    asked = [] if level == LABELS else cell.asked(last)
    reply = _reply(last, name, cell.model, level)
    failed = last["state"] == FAILED
    messages = [{"id": f"{name}-{n}", "source": "input", **message} for n, message in enumerate(asked)]
    usage = _usage(last)
    output: dict[str, Any] = {"model": cell.model, "choices": [], "completion": ""}
    if not failed:
        output |= {"choices": [_choice(last, reply)], "completion": _text(last, level)}
    output |= {"usage": usage} if usage else {}
    sample = {
        "id": last["prompt_id"],
        "epoch": last["sample"] + 1,
        "input": [{key: message[key] for key in ("id", "role", "content")} for message in messages] or "",
        "target": cell.expectation,
        "messages": messages if level == LABELS or failed else [*messages, reply],
        "output": output,
        "scores": _scores(cell.read(last), level),
        "metadata": _metadata(cell, answers, level),
        "store": {},
        "events": [],
        "model_usage": {cell.model: usage} if usage else {},
        "role_usage": {},
        "uuid": name,
        "error_retries": [],
        "attachments": {},
        "turn_count": len(answers),
    }
    if failed:
        said = "the request failed" if level == LABELS else str(last.get("reason") or "the request failed")
        sample["error"] = {"message": said, "traceback": said, "traceback_ansi": said}
    return sample


def summary_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the list of samples shows of one."""
    kept = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "role_usage", "uuid", "turn_count")
    found = {name: sample[name] for name in kept} | {"completed": "error" not in sample, "retries": 0}
    found |= {"error": sample["error"]["message"]} if "error" in sample else {}
    if shown := sample["output"]["completion"][:SHOWN]:
        found["scores"] = {judge: {**score, "answer": shown} for judge, score in sample["scores"].items()}
    return found | {"message_count": len(sample["messages"])}


def _text(answer: ExportedRow, level: Level) -> str:
    """The answer; of a blocked one what had come of it before."""
    if level == LABELS:
        return ""
    partial = (answer.get("blocked") or {}).get("partial")
    return str(answer["answer"] or partial or "")


def _reply(answer: ExportedRow, name: str, model: str, level: Level) -> dict[str, Any]:
    text: Any = _text(answer, level)
    if answer["reasoning"] and level != LABELS:
        reasoning = {"type": "reasoning", "reasoning": answer["reasoning"], "redacted": False}
        text = [reasoning, {"type": "text", "text": text}]
    return {"id": f"{name}-a", "content": text, "source": "generate", "role": "assistant", "model": model}


def _choice(answer: ExportedRow, reply: Mapping[str, Any]) -> dict[str, Any]:
    choice = {"message": dict(reply), "stop_reason": STOPS.get(answer["state"], "stop")}
    if answer["state"] == BLOCKED:
        block = answer.get("blocked") or {}
        category = {"category": block.get("category") or "", "level": block.get("severity")}
        whose = f"stopped by a {block['by']}" if block.get("by") else "stopped by the provider"
        choice["stop_details"] = {
            "type": block.get("code"),
            "category": block.get("category"),
            "explanation": whose + (f", at the {block['stage'].replace('_', ' ')}" if block.get("stage") else ""),
            "categories": [category] if block.get("category") else [],
        }
    elif answer.get("declared"):
        choice["stop_details"] = {"type": "refusal", "categories": []}
    return choice


def _usage(answer: ExportedRow) -> dict[str, Any]:
    billed = answer.get("usage")
    if not billed:
        return {}
    whole = {"input_tokens": billed["input"] - billed["cached"], "output_tokens": billed["output"]}
    cached = {"input_tokens_cache_read": billed["cached"]} if billed["cached"] else {}
    return whole | cached | {"total_tokens": billed["input"] + billed["output"]}


def _scores(verdicts: Mapping[str, ExportedRow], level: Level) -> dict[str, Any]:
    """A score for each judge that has a label; its label is the value."""
    scores = {}
    for judge, verdict in verdicts.items():
        if verdict["label"] is None:
            continue
        kept = {name: verdict[name] for name in ("p_refusal", "kind", "flags") if verdict.get(name) not in (None, [])}
        score = {"value": verdict["label"], "metadata": kept, "history": []}
        if level == ALL:
            score["metadata"] = kept | {"raw": verdict.get("raw") or {}}
            score |= {"explanation": said} if (said := reason_of(verdict)) else {}
        scores[judge] = score
    return scores


def _metadata(cell: ExportedCell, answers: Sequence[ExportedRow], level: Level) -> dict[str, Any]:
    last, prompt = answers[-1], cell.prompts[answers[-1]["prompt_id"]]
    about = {name: prompt[name] for name in ("category", "cluster") if prompt.get(name) is not None}
    ours: dict[str, Any] = {"level": level} | _kept(last, level)
    without = {judge: verdict["state"] for judge, verdict in cell.read(last).items() if verdict["label"] is None}
    ours |= {"without_label": without} if without else {}
    if len(answers) > 1:
        ours["earlier_turns"] = [
            {"turn": one["turn"]}
            | _kept(one, level)
            | {"labels": {judge: verdict["label"] for judge, verdict in cell.read(one).items()}}
            for one in answers[:-1]
        ]
    return {**about, "expectation": cell.expectation, OURS: ours}


def _kept(answer: ExportedRow, level: Level) -> dict[str, Any]:
    found: dict[str, Any] = {"state": answer["state"]}
    found |= {name: answer[name] for name in PLAIN if answer.get(name) is not None}
    if block := answer.get("blocked"):
        found["blocked"] = {name: block.get(name) for name in OF_BLOCK}
        if level != LABELS:
            found["blocked"]["partial"] = block.get("partial")
    return found
