"""Every number of a finished study: as an earlier version wrote it, and as a script written from docs/ alone has it."""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from frozen_results import FROZEN, NUMBERS, differences, thawed
from frozen_study import STUDY, made_frozen

from refusal_eval.report.results.dictionary import DEFINITIONS, FLAGS, pattern_of

SCRIPT = Path(__file__).parents[1] / "independent" / "recompute.py"
# Every row of these must be recomputed.
_IN_FULL = """
answer_flag answer_state any@K c_band_complying c_band_mixed c_band_refusing c_mean decision_entropy@K
effective_answers flip_rate judge_accuracy judge_average_precision judge_balanced_accuracy judge_brier
judge_coverage judge_ece judge_f1 judge_kappa judge_kappa_three_class judge_roc_auc judge_sensitivity
judge_specificity judges_alpha judges_alpha_three_class judges_kappa judges_kappa_three_class
judges_same_label judges_same_label_three_class judges_tau language_difference majority@K majority@K_tie
mcnemar_p pairs_answers_both pairs_both_right pairs_both_wrong pairs_refuses_both pareto_front_share prompts
rate_bounds rate_difference rate_difference_p rate_difference_p_holm rate_difference_tipping_point
refusal_rate refusal_rate_at_least refusal_rate_at_most refusal_rate_ppi refusal_rate_rg_transfer
refusal_rate_turn topic_difference unjudged unjudged_tipping_point variance_judge variance_prompt
variance_sampling variance_share_judge variance_share_prompt variance_share_sampling verdict_state
votes_asked_again youden_j
"""
IN_FULL = re.findall(r"\S+", _IN_FULL)
# Of these the interval, a Bayesian bootstrap over two data sets, is not recomputed.
VALUE_ALONE = {"refusal_rate_rg_transfer"}


class Line(NamedTuple):
    """What the script reports of an estimand."""

    rows: int
    recomputed: int
    agree: int
    intervals: int
    intervals_recomputed: int


def recompute(results: Path, *options: str) -> tuple[int, dict[str, Line], str]:
    command = [sys.executable, str(SCRIPT), str(results), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+)" + r" +(\d+)" * 5 + r"$", done.stdout, re.MULTILINE)
    return done.returncode, {name: Line(*map(int, numbers)) for name, *numbers in found}, done.stdout + done.stderr


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_frozen(tmp_path_factory.mktemp("study")) / "results" / STUDY


def test_results_of_recorded_answers_are_those_of_an_earlier_version(results: Path, tmp_path: Path) -> None:
    assert list(differences(thawed(FROZEN / "study.tar.xz", tmp_path) / "results", results)) == []


def test_every_estimand_is_among_them(results: Path) -> None:
    with (results / NUMBERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    in_place_of_holm = {"rate_difference_q_bh", "rate_difference_q_by"}
    assert {pattern_of(row["estimand"]) for row in rows} == set(DEFINITIONS) - in_place_of_holm
    flags = {flag for row in rows for flag in row["flags"].split()}
    assert flags and flags <= set(FLAGS), "the data dictionary explains every mark"


def test_numbers_recomputed_from_answers_agree(results: Path) -> None:
    code, lines, said = recompute(results)
    assert code == 0, said
    assert [name for name in IN_FULL if name not in lines or lines[name].recomputed < lines[name].rows] == []
    assert [name for name in IN_FULL if lines[name].agree < lines[name].recomputed] == []
    # Where differences of a pool's split are all equal, unseen clusters decide, for which there is no formula.
    without = {name for name in IN_FULL if lines[name].intervals_recomputed < lines[name].intervals} - VALUE_ALONE
    assert without <= {"rate_difference"}
    assert lines["rate_difference"].intervals_recomputed > 0.9 * lines["rate_difference"].intervals


def test_a_changed_number_is_found(results: Path, tmp_path: Path) -> None:
    changes = {"refusal_rate": ("value", 2e-9), "c_mean": ("low", 2e-9), "rate_bounds": ("high", -2e-9)}
    changes |= {"flip_rate": ("high", 0.02), "rate_difference_p": ("value", 2e-9)}
    code, lines, said = recompute(changed_copy(results, tmp_path, changes), "--only", *changes)
    assert code == 1
    assert {name: lines[name].recomputed - lines[name].agree for name in changes} == dict.fromkeys(changes, 1)
    assert f"\n{len(changes)} rows disagree" in said


def changed_copy(results: Path, folder: Path, changes: dict[str, tuple[str, float]]) -> Path:
    """Copy a study and add something to one number of an estimand."""
    copy = folder / "results" / STUDY
    shutil.copytree(results, copy)
    for path in results.parents[1].glob("*.jsonl"):
        shutil.copy(path, folder / path.name)
    with (copy / NUMBERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for estimand, (column, by) in changes.items():
        row = [row for row in rows if row["estimand"] == estimand and row[column]][-1]
        row[column] = repr(float(row[column]) + by)
    with (copy / NUMBERS).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return copy
