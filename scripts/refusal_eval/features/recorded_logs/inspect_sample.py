"""One sample of a log of inspect as a neutral row."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import FAILED
from refusal_eval.data.rows import kind_of
from refusal_eval.features.recorded_logs.inspect_fields import (
    about,
    block_of,
    is_declared,
    labels_of,
    mean_logprob,
    usage_of,
)
from refusal_eval.features.recorded_logs.own_log import NO_REASON, own_fields

ROLES = ("system", "user", "assistant")
ATTACHED, MOST_REASON = "attachment://", 300  # characters of why there is no answer


class LogSample(NamedTuple):
    """A sample as the log has it, and its place for messages."""

    values: dict[str, Any]
    place: str

    def part(self, name: str, kind: type) -> Any:
        """Return a field; an empty one where it is null or missing.

        Raises:
            UserError: if it is of another kind.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, kind):
            raise UserError(f"{self.place}: `{name}` is {kind_of(value)}, which no sample of inspect has there")
        return kind() if value is None else value


def sample_row(sample: LogSample, counts: Counter[str]) -> dict[str, Any]:
    """Return the fields of a neutral row, without its model and source.

    Args:
        counts: takes what is lost, by the words for it.

    Raises:
        UserError: for a sample of another form.
    """
    values, epoch = sample.values, sample.values.get("epoch")
    if not isinstance(epoch, int) or epoch < 1 or not isinstance(values.get("id"), str | int):
        raise UserError(f"{sample.place}: has no `id` and `epoch` of a sample")
    texts, own = sample.part("attachments", dict), own_fields(sample.part("metadata", dict), sample.place)
    choices = sample.part("output", dict).get("choices")
    choices = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    choice: dict[str, Any] = choices[0] if choices else {}
    if len(choices) > 1:
        counts["they have several choices, and the first is read"] += 1
    message: dict[str, Any] = choice["message"] if isinstance(choice.get("message"), dict) else {}
    answer, reasoning = _text(message.get("content"), texts, counts)
    row = {"messages": _asked(sample, message, texts, counts), "prompt_id": str(values["id"]), "sample": epoch - 1}
    row |= {
        "answer": answer,
        "reasoning": reasoning or None,
        "labels": labels_of(sample.part("scores", dict), counts) or None,
    }
    row |= about(sample.part("metadata", dict))
    if (error := values.get("error")) or not choice:
        said = error.get("message") if isinstance(error, dict) else error
        reason = str(said or "the log has no output").strip().partition("\n")[0][:MOST_REASON]
        turn = {"turn": own["turn"]} if "turn" in own else {}
        known = None if own and reason == NO_REASON else reason
        return row | {"state": FAILED, "reason": known, "answer": "", "reasoning": None, "labels": None} | turn
    if message.get("tool_calls"):
        counts["calls of tools are not read"] += 1
    if values.get("limit"):
        counts["the sample ran into a limit of the run"] += 1
    row["finish_reason"] = stopped if isinstance(stopped := choice.get("stop_reason"), str) else None
    if stopped == "content_filter":
        row |= {"blocked": block_of(choice.get("stop_details"), answer) | own.pop("blocked", {}), "answer": ""}
    row |= {"usage": usage_of(sample.part("output", dict).get("usage"))}
    row |= {"declared": True} if is_declared(message.get("content")) and stopped != "content_filter" else {}
    if (mean := mean_logprob(choice.get("logprobs"))) is not None and answer and not reasoning:
        row["answer_logprob"] = mean
    return row | own


def _asked(
    sample: LogSample, answered: Mapping[str, Any], texts: Mapping[str, Any], counts: Counter[str]
) -> list[dict[str, str]]:
    """What the model saw: all messages before its answer, so with a system message that a solver added."""
    whole = sample.part("messages", list)
    # Without an answer no message is one: those of the assistant are earlier replies.
    places = range(len(whole) - 1, -1, -1) if answered else ()
    last = next((n for n in places if _is(whole[n], "assistant", answered)), len(whole))
    given = sample.values.get("input")
    asked = list(_chat(whole[:last], texts, counts))
    if not asked or asked[-1]["role"] != "user":
        asked = list(_chat([{"role": "user", "content": given}] if isinstance(given, str) else given, texts, counts))
        if whole:
            counts["the messages do not end with the user, and the input alone is read as the prompt"] += 1
    if not asked or asked[-1]["role"] != "user":
        raise UserError(f"{sample.place}: has no message of the user that was answered")
    return asked


def _is(message: Any, role: str, answered: Mapping[str, Any]) -> bool:
    same = answered.get("id") in (None, message.get("id")) if isinstance(message, dict) else False
    return same and message.get("role") == role


def _chat(messages: Any, texts: Mapping[str, Any], counts: Counter[str]) -> Iterator[dict[str, str]]:
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") in ROLES:
            yield {"role": message["role"], "content": _text(message.get("content"), texts, counts)[0]}
        else:
            counts["messages of tools are not part of the prompt"] += 1


def _text(content: Any, texts: Mapping[str, Any], counts: Counter[str]) -> tuple[str, str]:
    """The text of a message, and its reasoning."""
    if not isinstance(content, list):
        return _attached(content, texts), ""
    found: dict[str, list[str]] = {"text": [], "reasoning": []}
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in found:
            found[kind].append(_attached(part.get(kind), texts))
            if kind == "reasoning" and part.get("redacted"):
                counts["their reasoning is redacted"] += 1
        else:
            counts["parts that are no text are not read"] += 1
    return "".join(found["text"]), "\n".join(found["reasoning"])


def _attached(text: Any, texts: Mapping[str, Any]) -> str:
    if not isinstance(text, str):
        return ""
    held = texts.get(text.removeprefix(ATTACHED)) if text.startswith(ATTACHED) else None
    return held if isinstance(held, str) else text
