"""Every number of a finished study: as an earlier version wrote it, and as a script written from docs/ alone has it."""

import csv
import shutil
from pathlib import Path

from flagged_study import change_lines
from frozen_results import FROZEN, NUMBERS, called_peoples, differences, thawed
from frozen_study import STUDY
from recomputed import COPIED, IN_FULL, check_all, recompute

from refusal_eval.report.results.dictionary import FLAGS, definitions, pattern_of

CUT = "answer_cut_for_judge"


def test_results_of_recorded_answers_are_those_of_an_earlier_version(frozen: Path, tmp_path: Path) -> None:
    assert list(differences(thawed(FROZEN / "study.tar.xz", tmp_path) / "results", frozen)) == []


def test_labels_of_an_author_under_the_name_of_people_are_found(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "a.md").write_text("Agreement with people on Made up. With people on PyRIT. Made up: by its author.")
    (tables / "b.csv").write_text("gold,people_refusal\nmade-up,1\n")
    (tables / "c.csv").write_text("gold,people_refusal\npyrit,1\n")
    found = list(called_peoples(tmp_path, ("made-up", "Made up")))
    assert found == ["a.md: Agreement with people on Made up.", "b.csv: people_refusal"]


def test_every_estimand_is_among_them(frozen: Path) -> None:
    with (frozen / NUMBERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    in_place_of_holm = {"rate_difference_q_bh", "rate_difference_q_by"}
    of_own_kinds = {"kind_share", "compliance_quality", "compliance_rate", "useful_safety_rate", "judge_kappa_kinds"}
    of_battles = {name for name in definitions() if name.startswith("battle_")}  # another study's: test_battles.py
    of_categories = {"over_refusals_of_all", "over_refusals_of_counted"}  # see test_over_refusals.py
    of_other_labels = {"ppi_undrawn_answers", "ppi_learned_labels", "labels_elsewhere"}  # see test_corrected_script.py
    # Of models that another party serves: see test_two_rates_study.py.
    of_hosted = {"refused_by", "declared_called_refusal", "unfiltered_answers", "failed_reason"}
    of_hosted |= {name for name in definitions() if name.endswith("_model_alone") or name.startswith("cost_")}
    of_states = {name for name in definitions() if name.startswith(("separation_", "aqi_"))}  # see test_aqi_study.py
    of_transforms = {"untransformed", "untransformed_because"}  # see test_transformed_prompts.py
    of_transforms |= {"written_rows", "not_written_because"}  # see test_written_prompts.py
    of_tokens = {name for name in definitions() if name.startswith("refusal_token_")}  # test_refusal_tokens_study.py
    of_choices = {name for name in definitions() if name.startswith("choice_")}  # see test_choices.py
    of_attention = {"unsteered", "unsteered_because", "steered_tokens"}  # see test_attention_steering.py
    of_tasks = {"judge_task_f1"}  # see test_judge_tasks.py
    of_ways = {name for name in definitions() if name.startswith("way_difference")}  # see test_ways_of_asking.py
    of_prompts = {
        name for name in definitions() if name.startswith(("self_bleu", "distinct_2", "step_rows_", "generated_"))
    }  # test_generated_prompts.py
    of_attacks = {name for name in definitions() if name.startswith("attack")}  # see test_attack_tradeoff.py
    of_words = {name for name in definitions() if name.startswith("attribution_")}  # see test_attributions_study.py
    of_features = of_choices | of_tasks | of_ways | of_attacks | of_battles | of_categories | of_hosted | of_states
    of_features |= of_transforms | of_tokens | of_words | of_attention | of_prompts
    elsewhere = in_place_of_holm | of_own_kinds | of_other_labels | of_features
    without_number = {"judge_kappa_three_class"}  # the gold has two labels; see test_judge_card.py
    assert {pattern_of(row["estimand"]) for row in rows} == set(definitions()) - elsewhere
    with_interval = {pattern_of(row["estimand"]) for row in rows if row["low"]}
    listed = set(definitions()) - elsewhere - without_number
    assert with_interval == {name for name in listed if definitions()[name].interval != "None."}
    flags = {flag for row in rows for flag in row["flags"].split()}
    assert flags and flags <= set(FLAGS), "the data dictionary explains every mark"


def test_numbers_recomputed_from_answers_agree(frozen: Path) -> None:
    assert check_all(frozen) == IN_FULL | COPIED


def test_a_changed_number_is_found(frozen: Path, tmp_path: Path) -> None:
    changes = {"refusal_rate": ("value", 2e-9), "c_mean": ("low", 2e-9), "rate_bounds": ("high", -2e-9)}
    changes |= {"flip_rate": ("high", 2e-9), "rate_difference_p": ("value", 2e-9)}
    changes |= {"odds_ratio": ("low", 2e-9), "rate_difference_equivalence_p": ("value", -2e-9)}
    changes |= {"refusal_rate_rg_transfer": ("value", 2e-9), "rate_difference_ppi": ("high", 2e-9)}
    changes |= {"mixed_sd_prompt_model": ("value", 2e-5)}
    copy = changed_copy(frozen, tmp_path, changes)
    path = copy / "verdicts/j00/m01/s00.jsonl"  # of which a judge saw an answer cut
    change_lines(path, lambda i, row: row if i else row | {"raw": row["raw"] | {"cut_characters": 900}})
    code, lines, said = recompute(copy)
    assert code == 1 and set(lines) == {*changes, CUT}
    assert {line.recomputed - line.agree for line in lines.values()} == {1}
    assert all(line.rows > 1 for line in lines.values())
    assert f"{CUT} j00 m01 s00: value 0, recomputed 0.0046" in said
    assert f"\n{len(changes) + 1} rows disagree" in said


def changed_copy(results: Path, folder: Path, changes: dict[str, tuple[str, float]]) -> Path:
    """Copy a study, and add something to one number of an estimand; leave out most rows, which cost time."""
    copy = folder / "results" / STUDY
    shutil.copytree(results, copy)
    for path in results.parents[1].glob("*.jsonl"):
        shutil.copy(path, folder / path.name)
    with (copy / NUMBERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [row for row in rows if row["estimand"] == CUT]
    for estimand, (column, by) in changes.items():
        *others, row = [row for row in rows if row["estimand"] == estimand and row[column]]
        row[column] = repr(float(row[column]) + by)
        kept += [others[0], row]
    with (copy / NUMBERS).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(kept)
    return copy
