"""The head of a log of inspect about one cell, and the archive that it is in."""

import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import sha256_of, written_whole
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.core.version import VERSION
from refusal_eval.features.exports.exported_cells import ExportedCell, StudyExport
from refusal_eval.features.exports.inspect_sample import OURS, summary_of
from refusal_eval.program.exporter import Level

LOG_VERSION = 2  # of the form that inspect_ai 0.3 writes
READINGS = ("strict", "broad")
# Parameters of sampling by their names there, where there is one.
SAMPLING = {name: name for name in ("temperature", "top_p", "top_k", "max_tokens")}
SAMPLING |= {"presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty", "stop": "stop_seqs"}


def header_of(
    export: StudyExport, cell: ExportedCell, samples: Sequence[Mapping[str, Any]], level: Level, created: str
) -> dict[str, Any]:
    """Return the head of a log: who was asked what, and the rates.

    Args:
        created: when, as ISO 8601.
    """
    study = export.study
    name = sha256_of([study.name, cell.model, cell.split])[:22]
    entry, split = study.models[cell.model], study.splits[cell.split]
    reading = split.headline or HEADLINE_READING[split.expectation]
    drawn = entry.sampling.model_dump(mode="json") if entry.sampling else {}
    usage: Counter[str] = Counter()
    for sample in samples:
        usage.update(sample["output"].get("usage") or {})
    metadata = {"study": study.name, "written_by": f"refusal-eval {VERSION}", "level": level}
    readings = sorted(READINGS, key=lambda one: one != reading)
    metrics = [{"name": one, "options": {}} for one in readings]
    spec = {
        "eval_id": name,
        "run_id": sha256_of([study.name])[:22],
        "created": created,
        "task": cell.split,
        "task_id": sha256_of([cell.split])[:22],
        "task_version": 0,
        "task_display_name": study.label("split", cell.split),
        "task_attribs": {},
        "task_args": {},
        "task_args_passed": {},
        "dataset": {
            "name": cell.split,
            "samples": len(cell.prompts),
            "sample_ids": list(cell.prompts),
            "shuffled": False,
        },
        "model": cell.model,
        "model_generate_config": {},
        "model_args": {},
        "config": {"epochs": study.settings.samples, "log_samples": True},
        "packages": {OURS: VERSION},
        "metadata": metadata | {"model": study.label("model", cell.model)},
        "scorers": [{"name": judge, "options": {}, "metrics": metrics, "metadata": {}} for judge in export.judges],
    }
    scores = [_score(export, cell, judge, samples, readings) for judge in export.judges]
    return {
        "version": LOG_VERSION,
        "status": "success",
        "eval": spec,
        "plan": {
            "name": "plan",
            "steps": [{"solver": "generate", "params": {}, "params_passed": {}}],
            "config": {theirs: drawn[ours] for ours, theirs in SAMPLING.items() if drawn.get(ours) not in (None, [])},
        },
        "results": {
            "total_samples": len(samples),
            "completed_samples": sum("error" not in sample for sample in samples),
            "scores": scores,
        },
        "stats": {
            "started_at": created,
            "completed_at": created,
            "model_usage": {cell.model: dict(usage)} if usage else {},
            "role_usage": {},
        },
        "invalidated": False,
        "tags": [],
        "metadata": metadata,
    }


def _score(
    export: StudyExport, cell: ExportedCell, judge: str, samples: Sequence[Mapping[str, Any]], readings: Sequence[str]
) -> dict[str, Any]:
    """The rates of a judge, as the results table has them."""
    metrics, rates = {}, export.rates
    for reading in readings:
        row = rates.get((judge, cell.model, cell.split, reading))
        if row is not None and row.value is not None:
            params = {"low": row.low, "high": row.high, "level": row.level, "n_prompts": row.n_prompts}
            metrics[reading] = {"name": reading, "value": row.value, "params": params}
    scored = sum(judge in sample["scores"] for sample in samples)
    counted = {"scored_samples": scored, "unscored_samples": len(samples) - scored}
    return {"name": judge, "scorer": judge, **counted, "params": {}, "metrics": metrics}


def write_log(path: Path, header: Mapping[str, Any], samples: Iterable[Mapping[str, Any]]) -> None:
    """Write a log as `.eval`: a zip archive with a member for each sample, packed by deflate; or as one `.json`."""
    if path.suffix == ".json":
        with written_whole(path, "wb") as handle:
            handle.write(_bytes({**header, "samples": list(samples)}))
        return
    summaries = []
    with written_whole(path, "wb") as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {"version": header["version"], "eval": header["eval"], "plan": header["plan"]}
        _put(archive, "_journal/start.json", start)
        for sample in samples:
            _put(archive, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
            summaries.append(summary_of(sample))
        _put(archive, "_journal/summaries/1.json", summaries)
        _put(archive, "summaries.json", summaries)
        _put(archive, "header.json", header)


def _put(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    member = zipfile.ZipInfo(name)  # with a fixed date, so that equal logs have equal bytes
    member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(member, _bytes(value))


def _bytes(value: Any) -> bytes:
    # Halves of surrogate pairs are no text.
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
