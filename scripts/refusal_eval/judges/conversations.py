"""What a judge reads: each answer with the conversation that it answers, the model's own earlier replies included."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refusal_eval.judges.judge_base import readable
from refusal_eval.study.dialogues import conversation, earlier_replies

Row = Mapping[str, Any]


def read_conversations(prompts: Iterable[Row], answers: Iterable[Row]) -> Iterator[tuple[Row, list[dict[str, str]]]]:
    """Yield each answer that a judge can read, in their order, with the messages that it answers.

    Of a dialogue every turn that was asked is read, also where another turn is the one that counts.

    Args:
        prompts: the prompts (or gold rows) behind the answers.
        answers: the answers of a cell, to all turns.

    Raises:
        KeyError: if an answer's prompt is missing, or the answer to a turn before it.
    """
    answers = list(answers)
    prompt_of = {prompt["id"]: prompt for prompt in prompts}
    samples: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for answer in answers:
        samples[answer["prompt_id"], answer["sample"]].append(answer)
    for answer in readable(answers):
        turn = answer["turn"]
        replies = earlier_replies(samples[answer["prompt_id"], answer["sample"]], turn)
        yield answer, conversation(prompt_of[answer["prompt_id"]], turn, replies)
