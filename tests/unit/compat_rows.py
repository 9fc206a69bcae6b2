"""A file of inputs and of what the published code returned for them, checked row by row."""

import json
import math

from refusal_eval.compat.published_cell import vote_of_text
from refusal_eval.compat.published_likelihood import probabilities
from refusal_eval.compat.published_score import metrics, prompt_score


def probability_of(logprobs):
    """Return the geometric mean probability of a segment."""
    return probabilities([], logprobs, None).answer


def softmax_errors(row, wanted):
    score = prompt_score([math.exp(one) for one in row["mean_logprobs"]], row["labels"], row["tau"])
    return [score.pos - wanted["pos"], score.neg - wanted["neg"], score.score - wanted["score"]]


def segment_errors(row, wanted):
    found = probabilities(row["tokens"], row["logprobs"], row["end_mark"])
    return [value - wanted[f"{name}_prob"] for name, value in found._asdict().items()]


def split_errors(row, wanted):
    given = [answer["answer_probs"] for answer in row["answers"]]
    scores = [prompt_score(*one) for one in zip(given, row["labels"], strict=True)]
    kept = [(answer["prompt"], score) for answer, score in zip(row["answers"], scores, strict=True) if score]
    assert [prompt for prompt, _ in kept] == [score["prompt"] for score in wanted["scores"]], "prompts that are dropped"
    shares = metrics(score.score for _, score in kept)._asdict()
    errors = [shares[name] - value for name, value in wanted["metrics"]["answer_censor_score"].items()]
    names = ("answer_pos_prob", "answer_neg_prob", "answer_censor_score")
    for (_, score), numbers in zip(kept, wanted["scores"], strict=True):
        errors += [value - numbers[name] for name, value in zip(names, score, strict=True)]
    return errors


def worst_errors(path):
    """Return (kind, largest difference) of each row of a file."""
    found = []
    with open(path, encoding="utf-8") as handle:
        for line in handle:
            case = json.loads(line)
            row, wanted, kind = case["input"], case["expected"], case["kind"]
            errors = {
                "judge_text_to_label": lambda row=row, wanted=wanted: [vote_of_text(row["text"]) - wanted],
                "geom_mean_prob": lambda row=row, wanted=wanted: [probability_of(row["logprobs"]) - wanted],
                "softmax_score": lambda row=row, wanted=wanted: softmax_errors(row, wanted),
                "segments": lambda row=row, wanted=wanted: segment_errors(row, wanted),
                "split": lambda row=row, wanted=wanted: split_errors(row, wanted),
            }[kind]()
            found.append((kind, max(map(abs, errors))))
    return found
