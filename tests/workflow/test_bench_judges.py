"""`refusal-eval bench-judges`: two judges on two gold sets, through the workflow, on one page and in one table."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from program import in_process
from project import Project, make_project

from refusal_eval.core.files import read_jsonl

REFUSALS, OTHERS, DENIALS = 24, 24, 6


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a study with a good judge and a blind one, and two gold sets that label the same answers.

    The second set calls denied premises refusals, which the first calls compliance.
    """
    made = make_project(tmp_path / "project")
    answers = [("yes", "I cannot help with that.")] * REFUSALS + [("no", "Sure, here is how.")] * OTHERS
    answers += [("denied", "There is no such thing.")] * DENIALS
    rows = [
        {"prompt": f"ask {i}", "answer": answer, "label": label, "tongue": "French" if i % 2 else "German", "n": str(i)}
        for i, (label, answer) in enumerate(answers)
    ]
    (made.folder / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    twins = "".join(f"{i},{i // 2}\n" for i in range(len(rows)))
    (made.folder / "twins.csv").write_text("id,cluster\n" + twins)
    (made.folder / "blind.yaml").write_text("refusal_openings: ['never said']\n")
    catalogue = yaml.safe_load((made.folder / "catalogue.yaml").read_text())
    people = catalogue["gold"]["people"] | {"denied_premises": ["denied"], "clusters": "twins.csv"}
    people["columns"] = {"language": "tongue", "id": "n"}
    catalogue["gold"] = {
        name: people | {"labels": people["labels"] | {"denied": denied}}
        for name, denied in (("people", "compliance"), ("others", "refusal"))
    }
    catalogue["judges"]["blind"] = {"kind": "keyword", "lists": ["blind.yaml"]}
    (made.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    made.study(judges=["blind", "words"], gold=["people", "others"])
    return made


def test_judges_are_ranked_and_gold_sets_compared(project: Project) -> None:
    file = str(project.folder / "study.yaml")
    options = ("--directory", str(project.folder), "--cores", "2")
    done = in_process("bench-judges", file, *options, cwd=project.folder.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = project.results / "bench"
    page, table = (folder / "judges.md").read_text(), pd.read_csv(folder / "judges.csv")
    assert "2 judges on 2 gold sets" in done.stdout
    assert not (project.results / "answers" / "plain").exists()  # no model was asked

    def values(judge: str, gold: str, measure: str, **group: str) -> pd.DataFrame:
        own = table[(table["judge"] == judge) & (table["gold"] == gold) & (table["measure"] == measure)]
        own = own[own["reading"].isin(["broad", float("nan")])]
        for column in ("language", "left_out"):
            own = own[own[column] == group[column]] if column in group else own[own[column].isna()]
        return own

    assert values("words", "people", "kappa")["value"].tolist() == [1.0]
    assert values("blind", "people", "kappa")["value"].tolist() == [0.0]
    assert values("words", "people", "rank")[["low", "high"]].to_numpy().tolist() == [[1, 1]]
    assert values("blind", "people", "rank")[["low", "high"]].to_numpy().tolist() == [[2, 2]]
    # Of the second set's 30 refusals the judge misses the denied premises, and only those.
    assert values("words", "others", "sensitivity")["value"].tolist() == [24 / 30]
    assert values("words", "others", "sensitivity", left_out="convention")["value"].tolist() == [1.0]
    assert values("words", "people", "sensitivity", language="French")["n"].tolist() == [REFUSALS // 2]
    assert len(values("words", "people", "speed_seconds")) == 1
    assert {row["cluster"] for row in read_jsonl(project.results / "gold" / "people.jsonl")} == {
        str(i) for i in range(27)
    }
    # 48 of 54 labels are the same: chance agreement (30 * 24 + 24 * 30) / 54^2.
    chance = (30 * 24 + 24 * 30) / 54**2
    kappa = values("people of others", "people", "kappa")["value"].tolist()
    assert kappa == [pytest.approx((48 / 54 - chance) / (1 - chance), abs=1e-6)]
    assert values("people of others", "people", "kappa", left_out="convention")["value"].tolist() == [1.0]
    assert "compliance/refusal 6" in page and page.index("| 1 | A | words |") < page.index("| 2 | B | blind |")


def test_an_unknown_judge_stops_with_the_nearest_name(project: Project) -> None:
    project.study(judges=["wrods"])
    done = in_process("bench-judges", "study.yaml", cwd=project.folder)
    assert done.returncode == 1 and "wrods" in done.stderr and "did you mean `words`" in done.stderr
    project.study(judges=["words"], gold=[])
    done = in_process("bench-judges", "study.yaml", cwd=project.folder)
    assert done.returncode == 1 and "names no `gold`" in done.stderr
