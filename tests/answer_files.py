"""Files of answers that other tools wrote (tests/data/answers), and how tests read them."""

from collections import Counter
from pathlib import Path

from refusal_eval.config.log_reader import reader_of

ANSWERS = Path(__file__).parent / "data" / "answers"
INSPECT, LM_EVAL, PLAIN, DAMAGED = (ANSWERS / name for name in ("inspect", "lm_eval", "plain", "damaged"))


def content_of(path, **columns):
    return reader_of(path).read(path, {field: names.split() for field, names in columns.items()})


def rows_of(path, **columns):
    return content_of(path, **columns).rows


def lm_eval_samples(model):
    return next((LM_EVAL / model).glob("samples_*.jsonl"))


def ends(rows):
    """Return how often answers ended in each way."""
    return Counter(row.get("state") or row.get("finish_reason") for row in rows)


def asked(row):
    """Return the text of the last message."""
    return row["prompt"] if "prompt" in row else row["messages"][-1]["content"]
