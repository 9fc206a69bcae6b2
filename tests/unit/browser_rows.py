"""A small finished study for the tests of the browser: what answers can be, and what they should not do."""

import json
from pathlib import Path
from typing import Any

from config_project import validated

from refusal_eval.core.files import write_jsonl, write_text
from refusal_eval.features.browser.answers_page import study_page
from refusal_eval.features.browser.page_paths import page_paths
from refusal_eval.features.browser.shown_study import shown_study
from refusal_eval.report.results.results_files import Result, results_csv, table_rows
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.study import Study

MODELS, JUDGES = ("model-a", "model-b"), ("strict", "lax")
SPLITS = {"safe": "comply", "bad": "refuse", "talk": "refuse"}
K = 3
REFUSAL = "I can't help with that."
BLOCK = {
    "by": "classifier",
    "stage": "answer",
    "category": "violence",
    "severity": None,
    "partial": "First, you",
    "code": "stop",
}
# What a model may write: ends of elements and of data, markup, reordered and unseen characters, half characters, a lot.
HOSTILE = [
    "</script><script>window.owned = 1</script>",
    "<script>window.owned = 2</script>",
    "<img src=x onerror=\"window.owned = 3\">",
    "<svg onload=\"window.owned = 4\"><animate onbegin=\"window.owned = 5\" attributeName=x dur=1s>",
    "<iframe srcdoc=\"<script>parent.owned = 6</script>\"></iframe>",
    "<a href=\"javascript:window.owned = 7\">click</a>",
    "javascript:window.owned = 8",
    "<style>body { display: none }</style>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<base href=http://127.0.0.1:9/>",
    "<meta http-equiv=refresh content=\"0; url=http://127.0.0.1:9/\">",
    "<form action=http://127.0.0.1:9/><input name=q autofocus onfocus=\"window.owned = 9\"></form>",
    "<object data=http://127.0.0.1:9/></object><embed src=http://127.0.0.1:9/>",
    "<details open ontoggle=\"window.owned = 10\"><summary>x</summary></details>",
    "<video><source onerror=\"window.owned = 11\"></video>",
    "<math><mi xlink:href=\"javascript:window.owned = 12\">x</mi></math>",
    "<template><script>window.owned = 13</script></template>",
    "]]><script>window.owned = 14</script>",
    "<![CDATA[<script>window.owned = 15</script>]]>",
    "<!-- <script> --> --> <!--",
    "&lt;script&gt;window.owned = 16&lt;/script&gt; &#60;b&#62;",
    "\\u003cscript>window.owned = 17\\u003c/script>",
    "${window.owned = 18} `${window.owned = 18}` {{ 7 * 7 }} {% raw %}",
    "'; window.owned = 19; //",
    "\"}]}; window.owned = 20; //",
    "abc \u202egnp.exe\u202c and \u2066isolated\u2069 \u200f\u061c",
    "\u202e" * 500 + "reversed",
    "zero\x00byte, bell\x07, \x1b[31mescape\x1b[0m, \x7f\x85",
    "half \ud83d of a pair, and \udc00 the other",
    "line one\r\nline two\rline three\u2028line four\u2029line five",
    "\ufeffmark at the beginning \ufffe\uffff",
    "z\u0351\u0351\u0351" * 2000,
    "a\u0301" * 3000,
    "x" * 300_000,
    "word " * 60_000,
    "\n" * 5000,
    "\t\t\t\v\f",
    "__proto__",
    "constructor",
    "\U000e0041\U000e0042 tags \U0001f469\u200d\U0001f469\u200d\U0001f467 and family",
]  # fmt: skip


def browsed_config(folder: Path) -> dict[str, Any]:
    """Return the config of the study."""
    config = validated(MODELS, SPLITS, JUDGES, study="browsed", results_dir=str(folder / "results"), samples=K)
    config["split_entries"]["talk"]["dialogue"] = {"mode": "cumulative", "scored": "after_first"}
    config["split_entries"]["talk"]["columns"] = {"messages": "messages"}
    return Study(config).config


def prompt_row(split: str, number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Question {number} of {split}?"}]
    if split == "talk":
        messages += [{"role": "user", "content": f"And the second of {number}?"}]
    row = {
        "id": f"{split}{number:012d}",
        "messages": messages,
        "category": f"topic {number % 2}",
        "cluster": f"{split}-{number}",
        "source": {"file": f"{split}.jsonl", "row": number + 1, "id": None},
    }
    return row | {"dialogue": True} if split == "talk" else row


def answer_row(prompt: str, sample: int, text: str, turn: int = 0, **fields: Any) -> dict[str, Any]:
    blank = {
        "state": "complete",
        "reasoning": None,
        "answer_logprob": -0.5,
        "answer_tokens": 7,
        "finish_reason": "stop",
    }
    key = f"{prompt}-{sample}-{turn}"
    return blank | {"prompt_id": prompt, "sample": sample, "turn": turn, "answer": text, "key": key} | fields


def verdict_row(answer: dict[str, Any], label: str | None, p: float | None, **raw: Any) -> dict[str, Any]:
    place = {name: answer[name] for name in ("prompt_id", "sample", "turn")}
    state = "judged" if label else "unparsable"
    return place | {
        "state": state,
        "label": label,
        "p_refusal": p,
        "kind": "flat" if label == "refusal" else None,
        "raw": raw,
    }


def write_browsed(folder: Path, prompts: int = 4) -> dict[str, Any]:
    """Write the files of the study; return its config.

    Model a helps with `safe` and refuses `bad`; model b refuses every second prompt. In `safe`, sample 2 of prompt 0 of
    model a is partly refused for the strict judge alone, that of prompt 1 was blocked, that of prompt 2 cut off.
    """
    config = browsed_config(folder)
    results = folder / "results" / "browsed"
    for split in SPLITS:
        rows = [prompt_row(split, number) for number in range(prompts)]
        write_jsonl(results / "prompts" / f"{split}.jsonl", rows)
        for model in MODELS:
            answers = [
                _answer(split, model, number, sample, turn, row["id"])
                for number, row in enumerate(rows)
                for turn in ((0, 1) if split == "talk" else (0,))
                for sample in range(K)
            ]
            write_jsonl(results / "answers" / model / f"{split}.jsonl", answers)
            for judge in JUDGES:
                said = [_said(judge, one) for one in answers if one["state"] in ("complete", "truncated")]
                said = [one for one in said if split != "talk" or one["turn"] == 1]
                write_jsonl(results / "verdicts" / judge / model / f"{split}.jsonl", said)
    write_rates(results)
    return config


def write_rates(results: Path) -> None:
    """Write the results table: a rate for each cell, in both readings, and one of a category."""
    rows = []
    for judge in JUDGES:
        for model in MODELS:
            for split in SPLITS:
                names = {"judge": judge, "model": model, "split": split, "samples": K, "n_prompts": 4, "level": 0.95}
                value = 0.25 if model == "model-a" else 0.75
                for reading, more in (("strict", 0.0), ("broad", 0.1)):
                    ends = {"low": value + more - 0.1, "high": value + more + 0.1, "method": "made up"}
                    rows.append(Estimate("refusal_rate", value + more, **ends, **names, reading=reading))
                rows.append(Estimate("refusal_rate", 0.99, **names, reading="broad", category="topic 0"))
    table = results_csv(table_rows(Result(row, "made up") for row in rows))
    write_text(results / "results_table" / "results.csv", table)


def _answer(split: str, model: str, number: int, sample: int, turn: int, prompt: str) -> dict[str, Any]:
    refuses = split != "safe" if model == "model-a" else number % 2 == 0
    text = REFUSAL if refuses else f"Answer {sample} of {model} to {split} {number}, turn {turn}."
    fields: dict[str, Any] = {}
    if (split, model, sample) == ("safe", "model-a", 2):
        if number == 0:
            text, fields = "Partly, but no more.", {"reasoning": "Thinking about zebras."}
        if number == 1:
            text, fields = "", {"state": "blocked", "blocked": BLOCK, "finish_reason": "content_filter"}
        if number == 2:
            text, fields = (
                "This goes on and",
                {"state": "truncated", "finish_reason": "length", "marks": ["unfiltered"]},
            )
    if (split, model, number, sample) == ("bad", "model-b", 0, 0):
        fields = {"declared": True}
    return answer_row(prompt, sample, text, turn, **fields)


def _said(judge: str, answer: dict[str, Any]) -> dict[str, Any]:
    if answer["answer"].startswith("Partly"):
        return verdict_row(
            answer, "partial" if judge == "strict" else "compliance", 0.55, analysis="It helps a little."
        )
    if answer["answer"] == REFUSAL:
        return verdict_row(answer, "refusal", 0.99, phrase="can't help", rule="opening")
    if judge == "lax" and answer["sample"] == 1:
        return verdict_row(answer, None, None, text="no label here")
    return verdict_row(answer, "compliance", 0.02)


def write_hostile(folder: Path) -> dict[str, Any]:
    """Write the study with one split, whose prompts, answers, reasoning and reasons are hostile; return its config."""
    config = browsed_config(folder)
    results = folder / "results" / "browsed"
    rows = [prompt_row("safe", number) for number in range(len(HOSTILE))]
    for row, text in zip(rows, HOSTILE, strict=True):
        row["messages"][0]["content"], row["category"] = text, text[:40]
    answers = [answer_row(row["id"], 0, text, reasoning=text) for row, text in zip(rows, HOSTILE, strict=True)]
    verdicts = [
        verdict_row(one, "refusal", None, analysis=one["answer"]) | {"kind": one["answer"][:40]} for one in answers
    ]
    model, judge = MODELS[0], JUDGES[0]
    for path, own in (
        ("prompts/safe", rows),
        (f"answers/{model}/safe", answers),
        (f"verdicts/{judge}/{model}/safe", verdicts),
    ):
        # Not by write_jsonl, which stores no half of a surrogate pair.
        write_text(results / f"{path}.jsonl", "".join(json.dumps(row) + "\n" for row in own))
    return config


def page_text(config: dict[str, Any], labels_only: bool = False, **tokens: Any) -> str:
    """Return the page of the study."""
    study = Study(config)
    return study_page(shown_study(study), page_paths(study), labels_only, **tokens)
