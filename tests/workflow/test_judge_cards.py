"""Cards, floors and calibration of judges in a finished study."""

import json

import pytest
from project import Project, planned_jobs

from refusal_eval.core.files import read_jsonl


def test_a_study_ends_with_cards_and_agreement(finished_once: Project) -> None:
    for name in (
        "tables/judge_cards.csv",
        "tables/judges_agree.tex",
        "tables/judges_disagree.csv",
        "figures/judge_cards/words/people.pdf",
        "figures/judge_cards/label/people.svg",
        "estimates/judge_agreement.json",
    ):
        assert (finished_once.results / name).stat().st_size > 0, name
    assert not (finished_once.results / "judge_cards" / "floors.json").exists()


def test_the_manifest_traces_what_judges_read_and_where_they_ran(finished_once: Project) -> None:
    found = json.loads((finished_once.results / "manifest.json").read_text())
    assert {"verdicts/label/gold/people.jsonl", "results_table/results.csv"} <= set(found["files"])
    assert found["sources"] and found["serving"] and found["judge_serving"]


def test_a_judge_below_its_floor_fails_the_run_and_keeps_the_results(finished: Project) -> None:
    # The keyword list finds none of the refusals of this gold set.
    finished.catalogue("judges", "words", floor={"se": 0.5})
    for _ in range(2):
        run = finished.snakemake(check=False)
        output = run.stdout + run.stderr
        assert planned_jobs(output) == {"judge_floor": 1}
        assert run.returncode != 0 and "judge words on gold people: sensitivity (broad) is 0.000" in output
        assert "below the floor 0.5" in output and "results are all made" in output
    assert (finished.results / "tables" / "refusal.csv").exists() and (finished.results / "manifest.json").exists()
    finished.catalogue("judges", "words", floor={"sp": 0.2})
    finished.snakemake()
    assert finished.planned() == {}


@pytest.mark.full
def test_a_fitted_threshold_reruns_verdicts_and_no_gpu_job(finished: Project) -> None:
    finished.catalogue("judges", "label", threshold="calibrated")
    planned = finished.planned()
    # The four cells of the study; the verdicts on gold are those that the threshold is fitted on.
    assert (planned["calibration"], planned["llm_verdicts"], planned["score"], planned["judge_card"]) == (1, 4, 4, 1)
    assert not set(planned) & {"judge", "judge_requests", "generate", "cpu_verdicts"}
    finished.snakemake()
    t = json.loads((finished.results / "calibration" / "label" / "people.json").read_text())["t"]
    verdicts = list(read_jsonl(finished.results / "verdicts" / "label" / "plain" / "one.jsonl"))
    assert {row["raw"]["threshold"] for row in verdicts} == {t}
    gold = list(read_jsonl(finished.results / "verdicts" / "label" / "gold" / "people.jsonl"))
    assert all("threshold" not in row["raw"] for row in gold)
    card = json.loads((finished.results / "judge_cards" / "label" / "people.json").read_text())
    assert "out of fold" in card["labels_from"]
    assert finished.planned() == {}
