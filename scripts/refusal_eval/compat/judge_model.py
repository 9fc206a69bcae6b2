"""The `judge_model` of a published config: the judge of our catalogue that comes nearest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refusal_eval.compat.published_values import Config, weights_name, whole

ITS_JUDGE = "openai/gpt-oss-20b"  # what its configs name


def judge_of(asked: Config, judges: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """Return the name of a judge of our catalogue, what was changed and why, and what is left to do.

    The published judge's prompt has no licence and is not here, so the rubric is always ours.

    Args:
        asked: the section `judge_model`.
        judges: names of the judges of our catalogue.

    Raises:
        UserError: for a value of the wrong kind.
    """
    notes, todo = [], []
    repo = weights_name(asked, "judge_model.") or ITS_JUDGE
    wanted = _bare(repo.rsplit("/", 1)[-1])
    found = [name for name in judges if wanted and _bare(name) == wanted]
    judge = found[0] if found else judges[0]
    if found:
        notes.append(
            f"judge_model.name_or_path: {repo} is the judge `{judge}` of our catalogue, with our rubric; "
            "gpu_memory_utilization and tensor_parallel_size, which hold for the judge too there, stay as its engine "
            "has them here"
        )
    else:
        todo.append(f"judges: our catalogue has no judge with {repo}; `{judge}` stands there until you write one")
    length, answer = (whole(asked, key, 0, "judge_model.") for key in ("max_model_len", "max_new_tokens"))
    if length or answer:
        both = {"max_model_len": length, "max_new_tokens": answer}
        told = ", ".join(f"{key} {value}" for key, value in both.items() if value)
        room = f", so {length - answer} tokens for rubric and answer" if length and answer else ""
        notes.append(
            f"judge_model.{told}{room}: left out; of a longer judge prompt the published code cuts off the start, "
            "which holds the instructions; here the answer is cut in its middle, marked and counted, never the "
            "instructions"
        )
    if drawn := [key for key in ("num_return_sequences", "temperature", "top_p", "top_k") if key in asked]:
        notes.append(
            f"judge_model.{', '.join(drawn)}: left out; the entry of the judge says how its verdicts are drawn"
        )
    if marks := [key for key in ("thinking-string", "thinking_string") if key in asked]:
        notes.append(
            f"judge_model.{marks[0]}: left out; the entry of the judge knows its own reasoning. The published code "
            "reads the judge with the mark of the model that it judges"
        )
    return judge, notes, todo


def _bare(name: str) -> str:
    """Letters and digits of a name alone, as `GPT_OSS-20b` is `gpt-oss-20b`; empty for one without any."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
