"""The folder of an audit: the design and the sample for us, a page and a sheet for each rater.

design.json     how the sample was drawn: strata, numbers, arguments, raters
frame.json      from what it was drawn: how many answers to each prompt, by model and split
sample.jsonl    a row for each text: id, probability, stratum, cluster, messages, answer, members (model, split,
                prompt id, sample, turn), raters. It names the models: not for raters
raters/         NAME.html, NAME.csv, NAME.txt of each rater
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, sha256_of, write_json, write_jsonl, written_whole
from refusal_eval.tools.audit.audit_sample import STRATA, Drawn, Frame, Item, Member, Text
from refusal_eval.tools.audit.rater_files import page, read_first, sheet

DESIGN, FRAME, SAMPLE, RATERS = "design.json", "frame.json", "sample.jsonl", "raters"


@dataclass(frozen=True)
class Audit:
    """An audit that was drawn.

    Attributes:
        design: what design.json holds: `audit` (its id), `study`, `seed`, `strata` and the other arguments.
        sample: rows of sample.jsonl, by id.
        orders: the ids of each rater's rows, in the order shown.
        frame: from what the sample was drawn, see `audit_sample.frame_of`; None of an audit that did not write it down.
    """

    design: dict[str, Any]
    sample: dict[str, dict[str, Any]]
    orders: dict[str, list[str]]
    frame: Frame | None = None

    @property
    def name(self) -> str:
        """The audit's id."""
        return str(self.design["audit"])

    def without(self, gone: Collection[Member]) -> Audit:
        """Return the audit without these answers, and without the rows that have no other.

        Rows that are left keep their probabilities, which the draw decided.
        """
        left_out, sample = frozenset(gone), {}
        for name, row in self.sample.items():
            members = [member for member in row["members"] if Member(*member) not in left_out]
            if members:
                sample[name] = {**row, "members": members}
        orders = {rater: [name for name in names if name in sample] for rater, names in self.orders.items()}
        return replace(self, sample=sample, orders=orders)


def strata_table(items: Mapping[str, Item], drawn: Sequence[Drawn]) -> dict[str, dict[str, Any]]:
    """Return for each stratum that holds something: answers, texts, texts drawn, smallest and largest probability."""
    table = {}
    for name in STRATA:
        found = [item for item in items.values() if item.stratum == name]
        own = [one.probability for one in drawn if one.item.stratum == name]
        if found:
            answers = sum(len(item.members) for item in found)
            ends = {"lowest": min(own), "highest": max(own)}
            table[name] = {"answers": answers, "texts": len(found), "drawn": len(own), "probability": ends}
    return table


def audit_of(
    arguments: Mapping[str, Any],
    strata: Mapping[str, Any],
    drawn: Sequence[Drawn],
    texts: Mapping[str, Text],
    orders: Mapping[str, list[str]],
    frame: Frame,
) -> Audit:
    """Return an audit; its id is a hash of all that decides it."""
    given = {rater: frozenset(names) for rater, names in orders.items()}
    sample = {
        one.item.id: {
            "id": one.item.id,
            "probability": one.probability,
            "stratum": one.item.stratum,
            "cluster": one.item.cluster,
            "messages": texts[one.item.id].messages,
            "answer": texts[one.item.id].answer,
            "members": [list(member) for member in sorted(one.item.members)],
            "raters": [rater for rater, names in given.items() if one.item.id in names],
        }
        for one in drawn
    }
    rest = {**arguments, "strata": strata, "orders": {rater: list(names) for rater, names in orders.items()}}
    content = [arguments, [[row["id"], row["probability"], row["members"]] for row in sample.values()], rest["orders"]]
    lists = {rater: list(names) for rater, names in orders.items()}
    return Audit({"audit": sha256_of(content)[:12], **rest}, sample, lists, frame)


def write_audit(folder: Path, audit: Audit) -> bool:
    """Write an audit to its folder; return False, and write nothing, where the same audit lies there already.

    What people filled in is never written over.

    Raises:
        UserError: if another audit lies there.
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
        for ending, text in (
            ("html", page(audit.name, rater, rows)),
            ("csv", sheet(audit.name, rater, rows)),
            ("txt", read_first(audit.name, rater, len(rows))),
        ):
            with written_whole(folder / RATERS / f"{rater}.{ending}") as handle:
                handle.write(text)
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
    design = read_json(folder / DESIGN)
    sample = {row["id"]: row for row in read_jsonl(folder / SAMPLE)}
    frame = read_json(folder / FRAME) if (folder / FRAME).is_file() else None
    return Audit(design, sample, {rater: list(names) for rater, names in design["orders"].items()}, frame)
