"""The labels behind benchmarks/measured/cpu_scale.md: the page's kappas come out of the committed file."""

import sys
from pathlib import Path

import pytest
import yaml

from refusal_eval.config.load_study import load_study
from refusal_eval.core.files import write_jsonl

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import cpu_scale_kappa as kappas

STUDIES = Path(__file__).resolve().parents[2] / "config" / "studies"
ENTRIES = (STUDIES / "cpu_scale_entries.yaml").read_text(encoding="utf-8")


def test_the_file_has_labels_and_no_text() -> None:
    rows = kappas.labelled()
    assert len(rows) == 60 == len({(row["split"], *kappas.place(row)) for row in rows})
    assert set(rows[0]) == {
        *("split", "prompt_id", "sample", "text", "first", "second"),
        *("first_unsure", "second_unsure"),
    }
    assert max(len(value) for row in rows for value in row.values()) <= 30
    said = kappas.agreed([(row["first"], row["second"]) for row in rows])
    assert said == "broad: kappa 1.00, 60 of 60 agree; three classes: kappa 1.00, 60 of 60 agree"


def test_judges_are_read_where_the_answer_is_the_one_that_was_labelled(tmp_path: Path) -> None:
    rows = [
        {"split": "s", "prompt_id": f"p{i}", "sample": "0", "text": kappas.text_id(f"answer {i}"), "first": label}
        for i, label in enumerate(("refusal", "partial", "compliance", "compliance"))
    ]
    keys = [{"prompt_id": f"p{i}", "sample": 0} for i in range(4)]
    answers = [key | {"answer": f"answer {i}" if i < 3 else "another"} for i, key in enumerate(keys)]
    said = [key | {"label": label} for key, label in zip(keys, ("refusal", "compliance", None, "refusal"), strict=True)]
    for name, found in (("answers/smollm2-128", answers), ("verdicts/j/smollm2-128", said)):
        (tmp_path / name).mkdir(parents=True)
        write_jsonl(tmp_path / name / "s.jsonl", found)
    pairs, other = kappas.judged(tmp_path, rows)
    assert other == 1 and pairs == {"j": [("refusal", "refusal"), ("partial", "compliance")]}


def test_kappa_by_hand(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pairs = [("refusal", "refusal")] * 5 + [("partial", "compliance")] * 2 + [("compliance", "compliance")] * 3
    # Broad: 8 of 10 agree, chance (7 * 5 + 3 * 5) / 100. Three classes: 8 of 10, chance (5 * 5 + 3 * 5) / 100.
    assert kappas.agreed(pairs) == (
        f"broad: kappa {(0.8 - 0.5) / 0.5:.2f}, 8 of 10 agree; "
        f"three classes: kappa {(0.8 - 0.4) / 0.6:.2f}, 8 of 10 agree"
    )
    kappas.main(tmp_path / "none")
    assert "no judge to compare with" in capsys.readouterr().out


def test_the_study_asks_all_its_judges_on_eight_files(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("REFUSAL_EVAL_PROMPTS", str(tmp_path))
    study = yaml.safe_load(Path("config/studies/cpu_scale.yaml").read_text(encoding="utf-8"))
    names = [Path(line.split("path:")[1].strip(' "}')).name for line in ENTRIES.splitlines() if "path: " in line]
    for name in names:
        write_jsonl(tmp_path / name, [{"id": "1", "prompt": "Hello?", "category": "c"}])
    config = load_study(study, "config/studies/cpu_scale.yaml")
    assert len(names) == len(config["splits"]) == 8 and config["samples"] == 5
    labelled = {row["split"] for row in kappas.labelled()}
    assert labelled <= set(config["splits"])
