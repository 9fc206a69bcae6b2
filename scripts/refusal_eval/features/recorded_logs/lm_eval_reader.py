"""Reads sample files of lm-evaluation-harness: `samples_TASK_TIME.jsonl`, with `results_TIME.json` next to it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import NO_ENDS, LogContent, LogReader
from refusal_eval.core.errors import UserError
from refusal_eval.features.recorded_logs.bounded_files import first_object, objects_of
from refusal_eval.features.recorded_logs.columns import refuse_unknown, value_at
from refusal_eval.features.recorded_logs.label_words import label_of
from refusal_eval.features.recorded_logs.lm_eval_run import Run, run_of
from refusal_eval.features.recorded_logs.neutral_row import neutral_row

FIELDS = {"doc_id", "doc", "resps"}
ONE_FIELD = re.compile(r"\s*\{\{\s*(?:doc\.)?(\w+)\s*\}\}\s*")  # of `doc_to_text`
FROM_DOC = {"category": ("category", "topic", "subject", "type"), "cluster": ("cluster",), "prompt_id": ("id",)}


class LmEvalReader(LogReader):
    """Reads sample files of lm-evaluation-harness."""

    name = "lm_eval"
    reads = "sample files of lm-evaluation-harness (samples_*.jsonl)"
    in_folders = ("samples_*.jsonl",)

    @classmethod
    def takes(cls, path: Path) -> bool:
        found = first_object(path) if path.suffix.lower() == ".jsonl" else None
        return found is not None and found.keys() >= FIELDS

    def blocked_models(self, path: Path, columns: Mapping[str, Sequence[str]]) -> set[str | None]:
        return set()  # such files have no finish reasons

    def read(self, path: Path, columns: Mapping[str, Sequence[str]]) -> LogContent:
        refuse_unknown(columns, ("prompt", "category", "cluster", "prompt_id", "expectation"), path)
        run, counts, rows = run_of(path), Counter[str](), list[dict[str, Any]]()
        seen: dict[Any, list[str]] = {}
        for line, sample in objects_of(path):
            place = f"{path}, line {line}"
            if not sample.keys() >= FIELDS or not isinstance(sample["doc_id"], int | str):
                lacking = " and ".join(sorted(FIELDS - sample.keys())) or "a doc_id that is a number"
                raise UserError(f"{place}: lacks {lacking} of a sample")
            texts = _texts(sample, place)
            filtered = sample.get("filtered_resps")
            shown = (
                filtered[0] if isinstance(filtered, list) and filtered and isinstance(filtered[0], list) else filtered
            )
            if shown != texts:
                counts[f"filter `{sample.get('filter')}` rewrote answers; those that the model wrote are read"] += 1
            if sample["doc_id"] in seen:  # under another filter
                if seen[sample["doc_id"]] != texts:
                    raise UserError(f"{place}: document {sample['doc_id']} was in the file before, with other answers")
                continue
            seen[sample["doc_id"]] = texts
            about = {"model": run.model, "split": run.task, **_about(sample, run, columns, place)}
            about["labels"] = _labels(sample, counts) if len(texts) == 1 else None
            for number, text in enumerate(texts):
                row = about | {"sample": number, "answer": text, "source": {"file": path.name, "line": line}}
                rows.append(neutral_row(row, place))
        return LogContent(rows, _lost(run, counts, any(row.get("sample") for row in rows)))


def _texts(sample: Mapping[str, Any], place: str) -> list[str]:
    """The answers to a document: those to its only request."""
    resps = sample["resps"]
    if isinstance(resps, list) and len(resps) == 1 and isinstance(resps[0], list):
        resps = resps[0]
    if not isinstance(resps, list) or not resps or not all(isinstance(text, str) for text in resps):
        raise UserError(f"{place}: `resps` holds no texts: only tasks with `output_type: generate_until` have answers")
    return resps


def _about(sample: Mapping[str, Any], run: Run, columns: Mapping[str, Sequence[str]], place: str) -> dict[str, Any]:
    doc = sample["doc"] if isinstance(sample["doc"], dict) else {}
    found = {
        field: next((str(doc[name]) for name in names if doc.get(name) not in (None, "")), None)
        for field, names in FROM_DOC.items()
    }
    said = {field: value_at(sample, names[0]) for field, names in columns.items()}
    found |= {field: str(value) for field, value in said.items() if value is not None}
    found["prompt_id"] = found["prompt_id"] or str(sample["doc_id"])
    if "expectation" not in said and doc.get("expectation") in ("comply", "refuse", "varies"):
        found["expectation"] = str(doc["expectation"])
    prompt = found.pop("prompt", None) or _prompt(sample, doc, run, place)
    if run.rendered and isinstance(system := run.results.get("system_instruction"), str) and system:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        return found | {"messages": messages}
    return found | {"prompt": prompt}


def _prompt(sample: Mapping[str, Any], doc: Mapping[str, Any], run: Run, place: str) -> str:
    sent = value_at(sample, "arguments.gen_args_0.arg_0")
    if not run.rendered and isinstance(sent, str) and (run.results or sent in doc.values()):
        return sent
    field = ONE_FIELD.fullmatch(str(run.config.get("doc_to_text") or ""))
    if field and isinstance(text := doc.get(field[1]), str):
        return text
    fields = ", ".join(f"doc.{name}" for name in doc) or "none"
    why = "holds the text of a chat template" if run.rendered else "may hold the text of a chat template"
    raise UserError(
        f"{place}: `arguments` {why}; say where the question is: `--columns prompt=FIELD` (fields: {fields})"
    )


def _labels(sample: Mapping[str, Any], counts: Counter[str]) -> list[dict[str, Any]] | None:
    labels = []
    for metric in sample.get("metrics") or ():
        if found := label_of(sample.get(metric), str(metric)):
            labels.append({"by": str(metric), **found})
        else:
            counts[f"metric `{metric}` says nothing of refusals, and is left out"] += 1
    return labels or None


def _lost(run: Run, counts: Counter[str], repeated: bool) -> list[str]:
    lost = [f"{count} documents: {what}" for what, count in counts.items()]
    lost.append(NO_ENDS)
    if repeated:
        lost.append("metrics are about all answers to a document, and are left out")
    if not run.results:
        lost.append("there is no results file next to it: model and system message are not known for certain")
    if run.config.get("num_fewshot"):
        lost.append(
            f"{run.config['num_fewshot']} examples before each question are part of no prompt that was rendered"
        )
    return lost
