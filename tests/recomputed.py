"""What tests/independent/recompute.py, written from docs/ alone, reports of the numbers of a finished study."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SCRIPT = Path(__file__).parent / "independent" / "recompute.py"
# Every row of these must be recomputed.
_IN_FULL = """
accuracy answer_cut_for_judge answer_flag answer_logprob answer_loops answer_state answer_tokens any@K
c_band_complying c_band_mixed c_band_refusing c_mean c_positive cohens_h decision_entropy@K effective_answers
flip_rate judge_accuracy judge_average_precision judge_balanced_accuracy judge_brier judge_coverage judge_ece judge_f1
judge_kappa judge_kappa_three_class judge_roc_auc judge_sensitivity judge_sensitivity_spread judge_specificity
judge_specificity_spread judges_alpha judges_alpha_three_class judges_kappa judges_kappa_three_class judges_same_label
judges_same_label_three_class judges_tau language_difference language_difference_p language_rate majority@K
majority@K_tie mcnemar_first mcnemar_p mcnemar_second mixed_log_odds mixed_log_odds_judge mixed_sd_judge
mixed_sd_model mixed_sd_model_judge mixed_sd_prompt mixed_sd_prompt_judge mixed_sd_prompt_model mixed_share_judge
mixed_share_model mixed_share_model_judge mixed_share_prompt mixed_share_prompt_judge mixed_share_prompt_model
mixed_share_sampling odds_ratio pairs_answers_both pairs_both_right pairs_both_wrong pairs_refuses_both pareto_front
pareto_front_share ppi_labels prompts rate_bounds rate_difference rate_difference_adjusted rate_difference_clusters
rate_difference_equivalence_p rate_difference_first rate_difference_noninferiority_p rate_difference_p
rate_difference_p_holm rate_difference_ppi rate_difference_ppi_p rate_difference_ppi_p_holm rate_difference_second
rate_difference_tipping_point refusal_rate refusal_rate_at_least refusal_rate_at_most refusal_rate_ppi
refusal_rate_rg_transfer refusal_rate_rg_transfer_by_model refusal_rate_rg_transfer_unclipped refusal_rate_turn
topic_difference tradeoff_correlation unjudged unjudged_tipping_point variance_judge variance_prompt variance_sampling
variance_share_judge variance_share_prompt variance_share_sampling verdict_state votes_asked_again youden_j
"""
IN_FULL = frozenset(re.findall(r"\S+", _IN_FULL))
# A study does not hold each person's labels: these are compared with agreement.json, which lies beside their labels.
# What that file holds is recomputed in tests/unit/test_audit_reading.py.
COPIED = {"human_kappa"}


class Line(NamedTuple):
    """What the script reports of an estimand."""

    rows: int
    recomputed: int
    agree: int
    intervals: int
    intervals_recomputed: int


class Report(NamedTuple):
    """What the script reports: how it ended, a line for each estimand, and all that it said."""

    code: int
    lines: dict[str, Line]
    said: str


def recompute(results: Path, *options: str) -> Report:
    """Run the script on the results folder of a study."""
    command = [sys.executable, str(SCRIPT), str(results), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^(\S+)" + r" +(\d+)" * 5 + r"$", done.stdout, re.MULTILINE)
    lines = {name: Line(*map(int, numbers)) for name, *numbers in found}
    return Report(done.returncode, lines, done.stdout + done.stderr)


def check_all(results: Path) -> frozenset[str]:
    """Check that every number and interval of a study is recomputed and agrees; return the estimands it has."""
    code, lines, said = recompute(results)
    assert code == 0, said
    assert set(lines) <= IN_FULL | COPIED, "an estimand that the script does not know"
    assert [name for name, line in lines.items() if not line.rows == line.recomputed == line.agree] == []
    assert [name for name, line in lines.items() if line.intervals_recomputed < line.intervals] == []
    return frozenset(lines)
