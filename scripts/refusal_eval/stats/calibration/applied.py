"""A fitted calibration at work. Nothing heavy is imported, as the scripts that collect verdicts use it."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import COMPLIANCE, JUDGED, PARTIAL, REFUSAL

DIGITS = 9
# Where a probability is cut before its logit is taken: 0 and 1 have none, and a judge's last digits mean little.
LEAST = 1e-6
# What the labels of a card are that nothing was fitted for.
# How it is said that a judge which was fitted on gold judged it by fits that had not seen its source, or had.
SOURCE_OUT_WORDS, OWN_KIND_WORDS = "source left out", "measured on its own kind of prompt alone"
OWN_LABELS, OWN_THRESHOLD = "the judge's own labels", "the judge's own threshold"

Calibration = Mapping[str, Any]
VerdictRow = Mapping[str, Any]


def calibrated_row(row: VerdictRow, calibration: Calibration) -> dict[str, Any]:
    """Return a row of a verdicts file as a calibration reads it: refusal or partial at p >= t, and p_refusal mapped.

    The judge decides between refusal and partial: by its label, else by the labels' `shares` in `raw` (of a judge whose
    classes are no labels) or its `probabilities` there, else refusal. The judge's own p and t are kept in `raw`
    (`p_refusal_as_given`, `threshold`): the new p_refusal is not compared with t. A verdict without a probability stays
    as it is.

    Args:
        row: as the judge gave it, whatever its threshold was.
        calibration: `t` and `map`, as `calibration_fit.fitted` returns them.

    Raises:
        UserError: if the gold set allowed no calibration (t is None).
    """
    t = calibration["t"]
    if t is None:
        raise UserError(f"verdicts cannot be calibrated: {calibration.get('why', 'no threshold was fitted')}")
    p = row.get("p_refusal")
    if row["state"] != JUDGED or p is None:
        return dict(row)
    label = _refused_label(row) if p >= t else COMPLIANCE
    raw = row.get("raw") or {}
    # A judge with a label set of its own names the likeliest kind of each label.
    kind = raw["kinds"].get(label) if "kinds" in raw else None if label == COMPLIANCE else row.get("kind")
    return {
        **row,
        "label": label,
        "p_refusal": map_probability(p, calibration["map"]),
        "kind": kind,
        "raw": {**raw, "p_refusal_as_given": p, "threshold": t},
    }


def map_probability(p: float, curve: Mapping[str, Any]) -> float:
    """Return the calibrated probability of p: Platt's 1 / (1 + exp(-(a logit(p) + b))), or between isotonic steps."""
    if curve["kind"] == "platt":
        score = curve["a"] * logit(p) + curve["b"]
        value = 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))
        return round(value, DIGITS)
    x, y = curve["x"], curve["y"]
    place = bisect_left(x, p)
    if place == 0 or place == len(x):
        return float(y[0] if place == 0 else y[-1])
    left, right = float(y[place - 1]), float(y[place])
    return round(left + (right - left) * float((p - x[place - 1]) / (x[place] - x[place - 1])), DIGITS)


def logit(p: float) -> float:
    """Return the logit of p, which is cut to [LEAST, 1 - LEAST] before."""
    p = min(max(p, LEAST), 1 - LEAST)
    return math.log(p / (1 - p))


def _refused_label(row: VerdictRow) -> str:
    if row["label"] in (REFUSAL, PARTIAL):
        return str(row["label"])
    raw = row.get("raw") or {}
    shares = raw.get("shares") or raw.get("probabilities") or {}
    return PARTIAL if shares.get(PARTIAL, 0.0) > shares.get(REFUSAL, 0.0) else REFUSAL
