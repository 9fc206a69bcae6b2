"""Entries of judges of all kinds, and what the rules make of them."""

from typing import Any

from refusal_eval.config.kinds import JUDGES

NEEDED: dict[str, dict[str, Any]] = {
    "keyword": {"lists": ["english.yaml"]},
    "llm": {"engine": "e", "rubric": "rubric.md", "labels": {"refusal": "A", "partial": "B", "compliance": "C"}},
    "first_token": {"engine": "e", "refusal": ["A"]},
    "reasoned": {"engine": "e", "rubric": "rubric.md"},
    "wildguard": {"engine": "e"},
    "qwen3guard": {"engine": "e"},
    "classifier": {"engine": "e", "template": "t.jinja", "labels": {"0": "compliance", "1": "refusal"}},
    "panel": {"members": ["words", "label"]},
    "cascade": {"first": "label", "then": "more", "unsure": [0.2, 0.8]},
    "trained": {
        "features": ["vectors", "prompt", "reading"],
        "engine": "e",
        "gold": ["people"],
        "lists": ["english.yaml"],
    },
    "python": {"file": "mine.py"},
    "recorded": {},
}


def judge_entry(kind: str, **fields: Any) -> Any:
    """Return a valid entry of a kind, with these fields."""
    return JUDGES.entry({"kind": kind} | NEEDED[kind] | fields)


def asked_of(judge: Any, **rendering: Any) -> dict[str, Any]:
    """Return the param `asked` of the rules that ask a judge's engine (see workflow/judging.py)."""
    engine = {"trust_remote_code": False, "max_model_len": 800, "determinism": "seeded"}
    return {"entry": judge.asking(), "rendering": judge.rendering() | engine | rendering, "seed": 7}
