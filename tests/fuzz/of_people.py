"""What people write: labels of raters."""

import csv
import io
from pathlib import Path

from fuzz.mutations import as_json
from fuzz.targets import file_of, target

from refusal_eval.core.states import LABELS
from refusal_eval.features.labelling.audit_folder import Audit
from refusal_eval.features.labelling.rater_files import sheet
from refusal_eval.features.labelling.rater_marks import FORMAT, SKIP, UNSURE, read_marks

SAMPLE = {
    name: {
        "id": name,
        "messages": [{"role": "user", "content": f"Question {name}?"}],
        "answer": "=1+1 is two",
        "raters": ["ann"],
        "members": [],
    }
    for name in ("0123456789abcdef", "1123456789abcdef")
}
AUDIT = Audit({"audit": "0a1b2c", "study": "s", "orders": {"ann": list(SAMPLE)}}, SAMPLE)
EXPORTED = {
    "format": FORMAT,
    "audit": "0a1b2c",
    "rater": "ann",
    "labels": [{"id": name, "label": "refusal", "comment": "clear"} for name in SAMPLE],
}


def _sheet() -> bytes:
    rows = list(csv.reader(io.StringIO(sheet("0a1b2c", "ann", list(SAMPLE.values())).removeprefix("\ufeff"))))
    for row in rows[1:]:
        row[-2:] = ["refusal", "clear"]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _marked(path: Path) -> None:
    for mark in read_marks([path], AUDIT):
        assert mark.id in SAMPLE and mark.rater in ("ann", "") and mark.label in (*LABELS, UNSURE, SKIP)


@target("labels: CSV", [_sheet()])
def labels_csv(data: bytes, folder: Path) -> None:
    _marked(file_of(folder, "ann.csv", data))


@target("labels: JSON", [EXPORTED], as_json)
def labels_json(data: bytes, folder: Path) -> None:
    _marked(file_of(folder, "ann.json", data))
