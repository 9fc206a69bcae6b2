"""What a judge reads: each answer with the conversation that it answers, the model's own earlier replies included; of
an answer that is too long for it, head and tail."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from refusal_eval.judges.verdict_files import readable
from refusal_eval.study.dialogues import conversation, earlier_replies, scored_turns

ConversationRow = Mapping[str, Any]
PromptT = TypeVar("PromptT", bound=Sequence[Any])


def read_conversations(
    prompts: Iterable[ConversationRow], answers: Iterable[ConversationRow], scored: str = "all"
) -> Iterator[tuple[ConversationRow, list[dict[str, str]]]]:
    """Yield each answer that a judge can read, in their order, with the messages that it answers.

    Of a dialogue only the turns that count are read: a verdict on another one would be paid for and used by nobody.

    Args:
        prompts: the prompts (or gold rows) behind the answers.
        answers: the answers of a cell, to all turns.
        scored: which turns of dialogues count (`scored_turns`).

    Raises:
        UserError: as `scored_turns` does.
        KeyError: if an answer's prompt is missing, or the answer to a turn before it.
    """
    answers = list(answers)
    prompt_of = {prompt["id"]: prompt for prompt in prompts}
    counting = {name: frozenset(scored_turns(prompt, scored)) for name, prompt in prompt_of.items()}
    samples: dict[tuple[str, int], list[ConversationRow]] = defaultdict(list)
    for answer in answers:
        samples[answer["prompt_id"], answer["sample"]].append(answer)
    for answer in readable(answers):
        turn = answer["turn"]
        if turn not in counting[answer["prompt_id"]]:
            continue
        replies = earlier_replies(samples[answer["prompt_id"], answer["sample"]], turn)
        yield answer, conversation(prompt_of[answer["prompt_id"]], turn, replies)


def fitted(
    prompt_of: Callable[[str], PromptT], answer: str, room: int, size: Callable[[PromptT], int] = len
) -> tuple[PromptT, int] | None:
    """Return the prompt about an answer, or about as much of its head and tail as fits; and how much was cut.

    An answer that is too long for a judge is cut itself, never the rubric.

    The gap is marked in the text with the number of characters that it holds. An answer is cut in halves of equal
    length, because a refusal stands at the head and a change of mind at the tail.

    Args:
        prompt_of: makes the prompt from an answer's text.
        room: the most tokens of the prompt.
        size: counts them.

    Returns:
        The prompt and the number of characters that were left out; None where it does not fit with any of the answer.
    """
    prompt = prompt_of(answer)
    if size(prompt) <= room:
        return prompt, 0
    low, high = 1, len(answer)  # fewer than `low` fit (once tried), more than `high` do not
    best = None
    while low <= high:
        kept = (low + high) // 2
        prompt = prompt_of(with_gap(answer, kept))
        if size(prompt) <= room:
            best, low = (prompt, len(answer) - kept), kept + 1
        else:
            high = kept - 1
    return best


def with_gap(answer: str, kept: int) -> str:
    """Return the first and the last half of `kept` characters of an answer, and between them what is missing."""
    head, tail = answer[: (kept + 1) // 2], answer[len(answer) - kept // 2 :]
    return f"{head}\n[... {len(answer) - kept} characters are left out here ...]\n{tail}"
