"""The labels of a study's judges on the same answers: how far they agree, and the answers in dispute."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from refusal_eval.core.states import LABELS
from refusal_eval.stats.agreement.measures import Counts, Measure, cluster_tables, kappa, measure_interval, two_class
from refusal_eval.stats.estimates.estimands import READINGS, VOTES
from refusal_eval.stats.estimates.flags import derived_flags, few_flags
from refusal_eval.stats.estimates.intervals import cluster_wilson_of_counts, effective_number, seed_of
from refusal_eval.stats.estimates.near_duplicates import PromptPlace
from refusal_eval.stats.estimates.resampling import cluster_codes, cluster_sums, resample_sums
from refusal_eval.stats.estimates.units import NO_LABEL, PLACE, JudgedCell, Units

MIN_ROWS = 20  # answers of either class that one of the judges must see, or kappa and alpha are not shown
THREE = "three_class"
MOST_ROWS = 500
UNIT = ["split", "model", "prompt_id", "sample", "turn"]  # what names an answer of the study
_UNKNOWN: Mapping[str, None] = {"value": None, "interval": None}


class JudgeVotes(NamedTuple):
    """Answers by judges."""

    judges: tuple[str, ...]  # their names
    units: pd.DataFrame  # the answers: the columns `UNIT`, and the `cluster` of the prompt
    labels: NDArray[np.int8]  # places in `states.LABELS`, -1 where a judge has no label, units x judges

    def of_split(self, split: str) -> JudgeVotes:
        return self._select((self.units["split"] == split).to_numpy(bool))

    def without_duplicates(self, left_out: Collection[PromptPlace]) -> JudgeVotes:
        """Return the part without the prompts that pooled numbers leave out (`near_duplicates.counted_once`)."""
        places = zip(self.units["split"], self.units["prompt_id"], strict=True)
        return self._select(np.array([place not in left_out for place in places], dtype=bool))

    def _select(self, rows: NDArray[np.bool_]) -> JudgeVotes:
        return JudgeVotes(self.judges, self.units[rows], self.labels[rows])


class Disputes(NamedTuple):
    """Answers that judges label differently: how many there are, and a row for those they disagree on most."""

    found: int
    rows: list[dict[str, Any]]


def panel(cells: Mapping[JudgedCell, Units]) -> JudgeVotes:
    """Return the labels of all judges, units sorted by split, model, prompt, sample and turn; judges by name.

    All answers with a verdict count, whatever its state.

    Args:
        cells: by (judge, model, split); their clusters mean the same in all splits (`units.clusters_apart`).
    """
    judges = sorted({judge for judge, _, _ in cells})
    numbers = {label: number for number, label in enumerate(LABELS)}
    parts = []
    for (judge, model, split), own in sorted(cells.items()):
        assert own.samples is not None
        read = own.samples.loc[own.samples["verdict"].notna(), ["prompt_id", "sample", "turn", "label"]]
        cluster = own.frame["cluster"].loc[pd.MultiIndex.from_frame(read[PLACE])].to_numpy(object)
        label = read["label"].map(numbers).fillna(NO_LABEL).astype(np.int8)
        parts.append(read.assign(split=split, model=model, judge=judge, cluster=cluster, label=label))
    read = pd.concat(parts)
    labels = read.pivot(index=UNIT, columns="judge", values="label").sort_index().reindex(columns=judges)
    clusters = read.drop_duplicates(UNIT).set_index(UNIT)["cluster"].reindex(labels.index)
    units = labels.index.to_frame(index=False).assign(cluster=clusters.to_numpy(object))
    return JudgeVotes(tuple(judges), units, labels.fillna(NO_LABEL).to_numpy(np.int8))


def agreement_of(
    part: JudgeVotes,
    split: str | None,
    level: float,
    members: Mapping[str, Sequence[str]] | None = None,
    flags: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return how far the judges agree on a part of the answers.

    `pairs`, for every two judges: n (answers that both labelled), n_clusters (of these), flags and, under `strict`,
    `broad` and `three_class`, the share of answers with the same label (`same`) and Cohen's kappa. `alpha`:
    Krippendorff's of all `raters` in the same three ways, over n_alpha answers with at least two labels of theirs in
    n_alpha_clusters, with alpha_flags. Each is {"value", "interval"}; None without answers, with a single cluster, or
    if a class has fewer than 20 answers (kappa: under both judges). Intervals of `same` are Wilson's over clusters, the
    others a bootstrap (`measures.measure_interval`). Which judge comes first changes nothing.

    A judge that reads others has no opinion apart from theirs, and a duplicated judge has one. So `raters`, which
    alpha compares, are the other judges; and a pair has `overlap` if one judge's opinion is part of both, and so agrees
    with itself.

    Args:
        split: the split of the answers, None for all splits together.
        members: the judges that each judge reads, if any; for a judge with the same requests as another, the other.
        flags: of each judge's cells with these answers (`scores.derived_flags`); None for cells without any.
    """
    members, flags = members or {}, flags or {}
    raters = [judge for judge in part.judges if judge not in members]
    pairs = list(itertools.combinations(range(len(part.judges)), 2))
    about: dict[str, Any] = {
        **{"split": split, "n_answers": len(part.units), "n_clusters": part.units["cluster"].nunique()},
        **{"judges": list(part.judges), "raters": raters},
    }
    if part.units.empty or not pairs:
        return about | {"pairs": [], "alpha": None, "n_alpha": 0, "n_alpha_clusters": 0, "alpha_flags": []}
    codes = cluster_codes(part.units["cluster"])
    own = [place for place, judge in enumerate(part.judges) if judge in raters]
    coincident, scale = coincidences(part.labels[:, own], len(LABELS))
    tables = [cluster_tables(codes, part.labels[:, i], part.labels[:, j]) for i, j in pairs]
    sums = np.stack([*tables, cluster_sums(codes, coincident)], axis=1)
    seed = seed_of("agreement of judges", split or "")
    draws = resample_sums(sums, seed) if len(sums) > 1 else np.zeros((0, *sums.shape[1:]))
    # Each scored turn counts as a prompt, and each model has its own.
    prompts = part.units.groupby(["split", "model", "prompt_id", "turn"]).ngroup().to_numpy()
    found = []
    for place, (i, j) in enumerate(pairs):
        first, second = part.judges[i], part.judges[j]
        shared = not {first, *members.get(first, ())}.isdisjoint({second, *members.get(second, ())})
        names: dict[str, Any] = {"first": first, "second": second, "overlap": shared, "n": int(sums[:, place].sum())}
        names["n_clusters"] = _count_nonempty(sums[:, place])
        names["flags"] = _flags(flags, (first, second), sums[:, place])
        both = (part.labels[:, [i, j]] >= 0).all(axis=1)
        shown = partial(_kappa_and_share, prompts=len(np.unique(prompts[both])))
        found.append(names | _views(shown, sums[:, place], draws[:, place], level))
    alpha = _views(_alpha, sums[:, -1] / scale, draws[:, -1] / scale, level) if len(raters) > 1 else None
    about |= {"n_alpha": _count_nonempty(coincident), "n_alpha_clusters": _count_nonempty(sums[:, -1])}
    about["alpha_flags"] = _flags(flags, raters, sums[:, -1])
    return about | {"pairs": found, "alpha": alpha}


def disagreements(found: JudgeVotes, most: int = MOST_ROWS) -> Disputes:
    """Return the answers that judges label differently, those they disagree on most first, rows of at most `most`.

    Each row names the answer (its text is in answers/{model}/{split}.jsonl) and holds under `label_{judge}` the label
    of each judge, None where it has none. `disagreement` is the mean over pairs of judges of the distance of their
    labels: 1 between refusal and compliance, 0.5 between partial and either, 0 where equal.
    """
    votes = np.array([*(VOTES[label] for label in LABELS), np.nan])[found.labels]  # NO_LABEL is the last place
    a, b = np.triu_indices(len(found.judges), 1)
    gaps = np.abs(votes[:, a] - votes[:, b])
    pairs = np.isfinite(gaps).sum(axis=1)
    distances = np.divide(np.nansum(gaps, axis=1), 2 * pairs, out=np.zeros(len(gaps)), where=pairs > 0)
    places = np.flatnonzero(distances > 0)
    order = places[np.argsort(-distances[places].round(9), kind="stable")]  # units are sorted
    names = [*LABELS, None]
    rows = [
        {"disagreement": float(distances[i])}
        | found.units[UNIT].iloc[i].to_dict()
        | {f"label_{judge}": names[label] for judge, label in zip(found.judges, found.labels[i], strict=True)}
        for i in order[:most].tolist()
    ]
    return Disputes(len(order), rows)


def columns(found: JudgeVotes) -> list[str]:
    return ["disagreement", *UNIT, *(f"label_{judge}" for judge in found.judges)]


def coincidences(labels: NDArray[Any], classes: int) -> tuple[Counts, int]:
    """Return each unit's table of coincidences times a whole number, and that number: units x classes x classes.

    Among the m labels of a unit each ordered pair of two judges' labels counts 1 / (m - 1); a unit with one label or
    none has no pairs. Tables of merged classes are sums of cells.

    Args:
        labels: units x judges; a label is a number from 0 to classes - 1, anything below 0 is none.
    """
    counts = np.stack([(labels == label).sum(axis=1) for label in range(classes)], axis=-1).astype(float)
    m = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(classes)
    scale = math.lcm(*range(1, max(2, labels.shape[1]))) if labels.shape[1] < 20 else 1
    weights = np.where(m > 1, scale / np.maximum(m - 1, 1), 0.0)
    return pairs * weights[:, None, None], scale


def krippendorff_alpha(tables: Counts) -> NDArray[np.float64]:
    """Return alpha = 1 - D_observed / D_expected of tables of coincidences, in the last two axes.

    Nominal metric (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", University of Pennsylvania). NaN
    where all labels are the same, or none has a partner: there is no disagreement to expect.
    """
    each = tables.sum(axis=-1)
    n = each.sum(axis=-1)
    observed = n - np.trace(tables, axis1=-2, axis2=-1)
    expected = n * n - (each * each).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - (n - 1) * observed / expected, np.nan)


def _flags(flags: Mapping[str, Sequence[str]], judges: Sequence[str], tables: Counts) -> list[str]:
    few = few_flags(effective_number(tables.sum(axis=(-1, -2))))
    return list(derived_flags((flags.get(judge, ()) for judge in judges), few))


def _count_nonempty(tables: Counts) -> int:
    """Return the number of nonempty tables."""
    return int((tables.sum(axis=(-1, -2)) > 0).sum())


def _views(numbers: Callable[..., dict[str, Any]], sums: Counts, draws: Counts, level: float) -> dict[str, Any]:
    """The same numbers strict, broad and with three classes."""
    views: dict[str, tuple[Counts, Counts]] = {r: (two_class(sums, r), two_class(draws, r)) for r in READINGS}
    views[THREE] = (sums, draws)
    return {name: numbers(*view, level) for name, view in views.items()}


def _kappa_and_share(sums: Counts, draws: Counts, level: float, prompts: int) -> dict[str, Any]:
    table = sums.sum(axis=0)
    enough = np.maximum(table.sum(axis=0), table.sum(axis=1)).min() >= MIN_ROWS
    shown = _number(kappa, sums, draws, level) if enough else dict(_UNKNOWN)
    return {"same": _same(sums, prompts, level), "kappa": shown}


def _alpha(sums: Counts, draws: Counts, level: float) -> dict[str, Any]:
    enough = sums.sum(axis=(0, 1)).min() >= MIN_ROWS
    return _number(krippendorff_alpha, sums, draws, level) if enough else dict(_UNKNOWN)


def _same(sums: Counts, prompts: int, level: float) -> dict[str, Any]:
    """The share of answers on the diagonal, with the interval that a refusal rate of so many prompts has."""
    sizes, hits = sums.sum(axis=(-1, -2)), np.trace(sums, axis1=-2, axis2=-1)
    if (sizes > 0).sum() < 2:
        return dict(_UNKNOWN)
    ends = cluster_wilson_of_counts(hits, sizes, prompts, level)
    return {"value": float(hits.sum() / sizes.sum()), "interval": [ends.low, ends.high]}


def _number(measure: Measure, sums: Counts, draws: Counts, level: float) -> dict[str, Any]:
    groups = _count_nonempty(sums)
    if groups < 2:
        return dict(_UNKNOWN)
    table = sums.sum(axis=0)
    value = float(measure(table))
    if not np.isfinite(value):
        return dict(_UNKNOWN)
    rows, columns = ((sums.sum(axis=axis) > 0).sum(axis=0).tolist() for axis in (-1, -2))
    sides = [(table, rows), (table.T, columns)]
    return {"value": value, "interval": measure_interval(measure, draws, sides, groups, level)}
