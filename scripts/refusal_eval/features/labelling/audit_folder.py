"""The folder of an audit: the design and the sample for us, a page and a sheet for each rater.

design.json     how the sample was drawn: strata, numbers, arguments, raters
frame.json      from what it was drawn: how many answers to each prompt, by model and split
sample.jsonl    a row for each text: id, probability, stratum, cluster, messages, answer, members (model, split,
                prompt id, sample, turn), raters. It names the models: not for raters
raters/         NAME.html, NAME.csv, NAME.txt of each rater
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, sha256_of, write_json, write_jsonl, write_text
from refusal_eval.features.labelling.audit_sample import STRATA, AuditText, Member
from refusal_eval.features.labelling.rater_files import page, read_first, sheet

DESIGN, FRAME, SAMPLE, RATERS = "design.json", "frame.json", "sample.jsonl", "raters"
AuditFrame = dict[str, dict[str, dict[str, int]]]  # number of answers by model, split and prompt id


@dataclass(frozen=True)
class Audit:
    """An audit that was drawn."""

    # what design.json holds: `audit` (its id), `study`, `seed`, `strata`, `orders` and the other arguments
    design: dict[str, Any]
    sample: dict[str, dict[str, Any]]  # rows of sample.jsonl, by id
    frame: AuditFrame | None = None  # how many answers could be drawn; None of an audit that did not write it down

    @property
    def name(self) -> str:
        return str(self.design["audit"])

    @cached_property
    def orders(self) -> dict[str, list[str]]:
        """The ids of each rater's rows, in the order shown."""
        given: Mapping[str, Sequence[str]] = self.design["orders"]
        return {rater: [name for name in names if name in self.sample] for rater, names in given.items()}

    def without(self, gone: Collection[Member]) -> Audit:
        """Return the audit without these answers, and without the rows that have no other.

        Rows that are left keep their probabilities, which the draw decided.
        """
        left_out, sample = frozenset(gone), {}
        for name, row in self.sample.items():
            if members := [member for member in row["members"] if Member(*member) not in left_out]:
                sample[name] = {**row, "members": members}
        return replace(self, sample=sample)


def audit_of(
    arguments: Mapping[str, Any],
    texts: Iterable[AuditText],
    rows: Iterable[dict[str, Any]],
    orders: Mapping[str, list[str]],
) -> Audit:
    """Return the audit of a sample (`audit_sample.sample_rows`) of these texts; its id hashes all that decides it."""
    texts, sample = list(texts), {row["id"]: row for row in rows}
    strata, frame = {}, AuditFrame()
    for name in STRATA:
        found = [text for text in texts if text.stratum == name]
        own = [row["probability"] for row in sample.values() if row["stratum"] == name]
        if found:
            counts = {"answers": sum(len(text.members) for text in found), "texts": len(found), "drawn": len(own)}
            strata[name] = {**counts, "probability": {"lowest": min(own), "highest": max(own)}}
    for text in texts:
        for member in text.members:
            prompts = frame.setdefault(member.model, {}).setdefault(member.split, {})
            prompts[member.prompt_id] = prompts.get(member.prompt_id, 0) + 1
    content = [arguments, [[row["id"], row["probability"], row["members"]] for row in sample.values()], orders]
    return Audit({"audit": sha256_of(content)[:12], **arguments, "strata": strata, "orders": orders}, sample, frame)


def write_audit(folder: Path, audit: Audit) -> bool:
    """Write an audit to its folder; return False, and write nothing, if the same audit is already there.

    Files that people filled in are never overwritten.

    Raises:
        UserError: if the folder holds another audit.
    """
    if (folder / DESIGN).is_file():
        if read_json(folder / DESIGN)["audit"] == audit.name:
            return False
        raise UserError(
            f"{folder} holds another audit (other answers, or other arguments), and perhaps labels of people: move or "
            "remove that folder first, or use --folder"
        )
    for rater, names in audit.orders.items():
        rows = [audit.sample[name] for name in names]
        language = str(audit.design.get("language", "en"))
        made = {"html": page(audit.name, rater, rows, language), "csv": sheet(audit.name, rater, rows)}
        for ending, text in (made | {"txt": read_first(audit.name, rater, len(rows), language)}).items():
            write_text(folder / RATERS / f"{rater}.{ending}", text)
    write_jsonl(folder / SAMPLE, audit.sample.values())
    write_json(folder / FRAME, audit.frame)
    write_json(folder / DESIGN, audit.design)  # last: an audit with a design is whole
    return True


def read_audit(folder: Path) -> Audit:
    """Return the audit in a folder.

    Raises:
        UserError: if there is none.
    """
    if not (folder / DESIGN).is_file():
        raise UserError(f"there is no audit in {folder}: `refusal-eval audit draw` draws one")
    sample = {row["id"]: row for row in read_jsonl(folder / SAMPLE)}
    frame = read_json(folder / FRAME) if (folder / FRAME).is_file() else None
    return Audit(read_json(folder / DESIGN), sample, frame)
