"""Rates corrected by people's labels, and their differences (docs/corrected_rates.md)."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from independent_intervals import wilson_ends
from independent_judges import LEAST, gold_of
from independent_rates import Asked, Found, counting, pool_cells
from independent_study import Array, Study, read_lines, refuses
from scipy import stats

FEW = 10  # labels of a class
IDENTIFIED = 0.3  # Se + Sp - 1, at least


def transfer(study: Study, asked: Asked) -> Found | None:
    """docs/corrected_rates.md, rg_transfer: the value alone, of splits in their headline reading."""
    gold = gold_of(study, asked.judge, asked.parameter, "")
    splits = study.pool(asked.pool) if asked.pool else [asked.split]
    if gold is None or len({study.headline(split) for split in splits}) > 1:
        return None
    gold, reading = gold.only([label is not None for label in gold.judge]), study.headline(splits[0])
    h, m = (np.array([refuses(x, reading) for x in side]) for side in (gold.people, gold.judge))
    se, sp = float(m[h == 1].mean()), 1 - float(m[h == 0].mean())
    if se + sp - 1 < IDENTIFIED:
        return Found()
    cells = pool_cells(study, asked.judge, asked.model, splits)
    if any(label == "blocked" for cell in cells for label in cell.labels.flat):
        return None
    rate = float(np.mean([counting(cell, reading)[1].mean() for cell in cells]))
    return Found(float(np.clip((rate + sp - 1) / (se + sp - 1), 0, 1)))


class Labelled(NamedTuple):
    """One split of ppi: all answers and those that people labelled, with their shares a and a / probability."""

    f: Array
    a: Array
    clusters: list[str]
    h: Array
    of: Array  # the judge's reading of the labelled answers
    w: Array
    labelled_clusters: list[str]


def labelled_split(study: Study, judge: str, model: str, split: str, kept: set[str]) -> Labelled:
    """Return a split's answers with a text, as the judge and people read them."""
    cell, reading = study.cell(judge, model, split), study.headline(split)
    with_text = {
        (row["prompt_id"], row["turn"], row["sample"])
        for row in cell.answers
        if row["state"] in ("complete", "truncated")
    }
    rows = {place: i for i, place in enumerate(cell.places) if place[0] in kept}
    per_row = {place: sum((*place, k) in with_text for k in range(study.samples)) for place in rows}
    rows = {place: i for place, i in rows.items() if per_row[place]}
    values = np.nan_to_num(cell.values(reading))
    at = [(place, i, k) for place, i in rows.items() for k in range(study.samples) if (*place, k) in with_text]
    shares = {place: 1 / len(rows) / per_row[place] for place in rows}
    labels = [
        row
        for row in _labels(study)
        if (row["model"], row["split"]) == (model, split)
        and (row["prompt_id"], row["turn"]) in rows
        and (row["prompt_id"], row["turn"], row["sample"]) in with_text
    ]
    w = np.array([shares[row["prompt_id"], row["turn"]] / row["probability"] for row in labels])
    return Labelled(
        np.array([values[i, k] for _, i, k in at]),
        np.array([shares[place] for place, _, _ in at]),
        [cell.clusters[i] for _, i, _ in at],
        np.array([refuses(row["label"], reading) for row in labels]),
        np.array([values[rows[row["prompt_id"], row["turn"]], row["sample"]] for row in labels]),
        w,
        [cell.clusters[rows[row["prompt_id"], row["turn"]]] for row in labels],
    )


@cache
def _labels(study: Study) -> list[dict[str, Any]]:
    rows = read_lines(study.labels_path) if study.labels_path else []
    return [row for row in rows if "label" in row]


class Corrected(NamedTuple):
    """A corrected rate (perhaps below 0 or above 1), what each cluster adds to it, and what its interval needs."""

    value: float
    added: dict[str, float]
    people: float  # the rate of the labels alone
    weights: Array
    human: Array
    labelled: int  # clusters with labels

    @property
    def half(self) -> float:
        """Return the variance of half an error more in each direction."""
        return float((self.weights**2).sum()) ** 2 / 2


def spread_of(added: Array, sides: Sequence[Corrected]) -> tuple[float, float]:
    """Return V and df of what clusters add to a rate, or to the difference of two."""
    variance = len(added) / (len(added) - 1) * float((added**2).sum()) + sum(side.half for side in sides)
    halves = sum(side.half**2 / (side.labelled - 1) for side in sides)
    fewest = min(side.labelled for side in sides) - 1
    carried = variance**2 / (float((added**4).sum()) + halves)
    return variance, float(np.sqrt(min(carried, fewest) * fewest))


def corrected(study: Study, judge: str, model: str, splits: tuple[str, ...]) -> Corrected | None:
    """docs/corrected_rates.md, ppi, with the lambda that makes the variance of clusters smallest; None without."""
    kept = study.without_copies(splits)
    parts = [labelled_split(study, judge, model, split, kept[split]) for split in splits]
    if sum(len(part.h) for part in parts) < LEAST or not all(len(part.h) for part in parts):
        return None
    total, count = sum(float(part.w.sum()) for part in parts), len(parts)
    people = sum(float(part.w @ part.h) for part in parts) / total
    read = sum(float(part.w @ part.of) for part in parts) / total
    fixed: Counter[str] = Counter()
    moving: Counter[str] = Counter()
    for part in parts:
        for cluster, w, h, f in zip(part.labelled_clusters, part.w / total, part.h, part.of, strict=True):
            fixed[cluster] += w * (h - people)
            moving[cluster] -= w * (f - read)
        for cluster, x in zip(part.clusters, part.a * (part.f - part.a @ part.f) / count, strict=True):
            moving[cluster] += x
    squares = sum(x * x for x in moving.values())
    best = -sum(fixed[name] * x for name, x in moving.items()) / squares if squares else 0.0
    best = min(1.0, max(0.0, best))
    judged = float(np.mean([part.a @ part.f for part in parts]))
    return Corrected(
        best * judged + people - best * read,
        {name: fixed[name] + best * x for name, x in moving.items()},
        people,
        np.concatenate([part.w for part in parts]) / total,
        np.concatenate([part.h for part in parts]),
        len({cluster for part in parts for cluster in part.labelled_clusters}),
    )


def _splits(study: Study, asked: Asked) -> tuple[str, ...]:
    return tuple(study.pool(asked.pool)) if asked.pool else (asked.split,)


def _blocked(study: Study, judge: str, model: str, splits: Sequence[str]) -> bool:
    return any(label == "blocked" for split in splits for label in study.cell(judge, model, split).labels.flat)


def ppi(study: Study, asked: Asked) -> Found | None:
    """docs/corrected_rates.md: Wilson's interval with V and df; with few labels of a class that of the labels, too."""
    splits = _splits(study, asked)
    found = corrected(study, asked.judge, asked.model, splits)
    if found is None:
        return Found()
    if _blocked(study, asked.judge, asked.model, splits):
        return None
    value, one = min(1.0, max(0.0, found.value)), float((found.weights**2).sum())
    least = min(0.5, one)
    q = min(1 - least, max(least, value))
    variance, degrees = spread_of(np.array(list(found.added.values())), [found])
    low, high = wilson_ends(value, q * (1 - q) / variance, degrees, study.alpha)
    if min(found.human.sum(), (1 - found.human).sum()) < FEW:
        alone = wilson_ends(found.people, min(1 / one, found.labelled), found.labelled - 1, study.alpha)
        low, high = min(low, alone[0]), max(high, alone[1])
    return Found(value, min(low, value), max(high, value))


class Difference(NamedTuple):
    """A difference of corrected rates with its standard error."""

    value: float
    error: float
    degrees: float

    @property
    def p(self) -> float:
        """Return the p of no difference."""
        return float(2 * stats.t.sf(abs(self.value) / self.error, self.degrees))


@cache
def difference(study: Study, judge: str, first: str, second: str, splits: tuple[str, ...]) -> Difference | None:
    """docs/corrected_rates.md: Differences of two models; None where one has no corrected rate."""
    one, other = (corrected(study, judge, model, splits) for model in (first, second))
    if one is None or other is None:
        return None
    names = one.added.keys() | other.added.keys()
    added = np.array([one.added.get(name, 0.0) - other.added.get(name, 0.0) for name in names])
    variance, degrees = spread_of(added, (one, other))
    return Difference(min(1.0, max(-1.0, one.value - other.value)), float(np.sqrt(variance)), degrees)


def rate_difference_ppi(study: Study, asked: Asked) -> Found | None:
    """docs/corrected_rates.md: Student's t."""
    found = _asked(study, asked)
    if found is None:
        return None
    reach = found.error * float(stats.t.ppf(1 - study.alpha / 2, found.degrees))
    return Found(found.value, max(-1.0, found.value - reach), min(1.0, found.value + reach))


def rate_difference_ppi_p(study: Study, asked: Asked) -> Found | None:
    """docs/corrected_rates.md: the test."""
    found = _asked(study, asked)
    return None if found is None else Found(found.p)


def _asked(study: Study, asked: Asked) -> Difference | None:
    second, splits = asked.parameter.removeprefix("minus "), _splits(study, asked)
    if any(_blocked(study, asked.judge, model, splits) for model in (asked.model, second)):
        return None
    return difference(study, asked.judge, asked.model, second, splits)


def rate_difference_ppi_p_holm(study: Study, asked: Asked) -> Found | None:
    """docs/corrected_rates.md: Holm's, over all corrected differences under a judge."""
    found = _asked(study, asked)
    if found is None:
        return None
    scopes = [(split,) for split in study.said["splits"]]
    scopes += [pool for pool in (tuple(study.pool(name)) for name in ("comply", "refuse", "varies")) if len(pool) > 1]
    pairs = list(combinations(sorted(study.models), 2))
    every = [difference(study, asked.judge, *pair, scope) for pair in pairs for scope in scopes]
    ps = sorted(other.p for other in every if other is not None)
    steps = [min(1.0, p * (len(ps) - i)) for i, p in enumerate(ps)]
    return Found(max(step for p, step in zip(ps, steps, strict=True) if p <= found.p))


def human_kappa(study: Study, asked: Asked) -> Found | None:
    """docs/labelling.md, Reading back: copied from beside the labels; a study does not hold each person's own."""
    path = study.labels_path and study.labels_path.with_name("agreement.json")
    if path is None or not path.is_file():
        return None
    said = json.loads(path.read_text(encoding="utf-8"))[asked.reading or asked.parameter]
    return Found(said["kappa"], *said["interval"])


KNOWN: dict[str, Callable[[Study, Asked], Found | None]] = {
    "refusal_rate_rg_transfer": transfer,
    "refusal_rate_ppi": ppi,
    "rate_difference_ppi": rate_difference_ppi,
    "rate_difference_ppi_p": rate_difference_ppi_p,
    "rate_difference_ppi_p_holm": rate_difference_ppi_p_holm,
    "human_kappa": human_kappa,
}
