"""Rates corrected by people's labels, and their differences (docs/reference/corrected_rates.md)."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from independent_intervals import DRAWS, SEED, Span, expanded, resamples, spread, variance_in_splits, wilson_ends
from independent_judges import LEAST, gold_of
from independent_rates import Asked, Found, counting, pool_cells, pooled_rate, rate
from independent_study import Array, Study, read_lines, refuses
from scipy import optimize, stats

FEW = 10  # labels of a class, in a sample or of an answering model
IDENTIFIED = 0.3  # Se + Sp - 1, at least


class Errors(NamedTuple):
    """A judge's sensitivity and specificity on gold, and both for a new answering model in resamples."""

    se: float
    sp: float
    drawn_se: Array
    drawn_sp: Array
    resamples: int  # that the docs promise


@cache
def read_gold(
    study: Study, judge: str, name: str, reading: str
) -> tuple[Array, Array, npt.NDArray[np.intp], list[str], list[str]] | None:
    """Return what people and the judge say, the answering model's number (-1: none), models, clusters."""
    gold = gold_of(study, judge, name, "")
    if gold is None:
        return None
    rows = read_lines(study.folder / f"gold/{name}.jsonl")
    models = [
        str(row["answering_model"] or "") for row, label in zip(rows, gold.judge, strict=True) if label is not None
    ]
    gold = gold.only([label is not None for label in gold.judge])
    h, m = (np.array([refuses(x, reading) for x in side]) for side in (gold.people, gold.judge))
    named = sorted(set(models) - {""})
    return h, m, np.array([named.index(model) if model else -1 for model in models]), named, list(gold.clusters)


@cache
def errors_of(study: Study, judge: str, name: str, reading: str) -> Errors | None:
    """docs/reference/corrected_rates.md, rg_transfer; None for gold with weights or fits."""
    read = read_gold(study, judge, name, reading)
    if read is None:
        return None
    h, m, of_model, named, names = read
    rng = np.random.default_rng(SEED)
    clusters, numbers = np.unique(names, return_inverse=True)
    weights = rng.standard_exponential((DRAWS, len(clusters)))[:, numbers]
    if len(named) > 1:
        own_weights = np.column_stack([rng.standard_exponential((DRAWS, len(named))), np.ones(DRAWS)])
        weights = weights * own_weights[:, of_model]
    drawn = []
    for label in (1, 0):
        own, hits = h == label, (h == label) & (h == m)
        half = rng.gamma(0.5, size=(2, DRAWS)) * own.sum() / len(set(numbers[own]))
        drawn.append((weights @ hits + half[0]) / (weights @ own + half.sum(axis=0)))
    both = np.clip(np.array(drawn) + new_model(h, m, of_model, rng), 0, 1)
    resamples_of_gold = min(20_000, max(2_000, 10_000_000 // len(h)))
    return Errors(float(m[h == 1].mean()), 1 - float(m[h == 0].mean()), both[0], both[1], resamples_of_gold)


def new_model(h: Array, m: Array, of_model: npt.NDArray[np.intp], rng: np.random.Generator) -> Array:
    """Return how far a new answering model's Se and Sp are from the mean of models: 2 x draws."""
    found = between_models(h, m, of_model)
    if found is None:
        return np.zeros((2, 1))
    values, vectors, d = found
    normal = (vectors * np.sqrt(np.maximum(values, 0))) @ rng.standard_normal((2, DRAWS))
    return np.asarray(normal * np.sqrt(d / rng.chisquare(d, size=DRAWS)), dtype=float)


def between_models(h: Array, m: Array, of_model: npt.NDArray[np.intp]) -> tuple[Array, Array, int] | None:
    """Return the eigenvalues and vectors of the covariance beyond chance, and the number of models less one."""
    shares, counts = [], []
    for model in np.unique(of_model[of_model >= 0]):
        classes = [(of_model == model) & (h == label) for label in (1, 0)]
        if min(own.sum() for own in classes) >= FEW:
            shares.append([(h == m)[own].mean() for own in classes])
            counts.append([own.sum() for own in classes])
    if len(shares) < 2:
        return None
    p = np.mean(shares, axis=0)
    chance = (p * (1 - p) / np.array(counts)).mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(np.transpose(shares)) - np.diag(chance))
    return values, vectors, len(shares) - 1


@cache
def exponential(clusters: int) -> Array:
    """Return weights of clusters in draws."""
    return np.random.default_rng([SEED, clusters]).standard_exponential((DRAWS, clusters))


def resampled_rate(parts: Sequence[tuple[Array, list[str]]]) -> Array:
    """Return the mean over splits of the judge's rate in resamples of clusters, half a cluster of each label added."""
    names, numbers = np.unique([name for _, clusters in parts for name in clusters], return_inverse=True)
    weights, rng = exponential(len(names)), np.random.default_rng([SEED, 1])
    found, start = [], 0
    for rates, clusters in parts:
        own = numbers[start : start + len(rates)]
        start += len(rates)
        half = rng.gamma(0.5, size=(2, DRAWS)) * len(rates) / len(set(clusters))
        sums, sizes = (np.bincount(own, weights=x, minlength=len(names)) for x in (rates, np.ones(len(rates))))
        found.append((weights @ sums + half[0]) / (weights @ sizes + half.sum(axis=0)))
    return np.asarray(np.mean(found, axis=0), dtype=float)


def transfer(study: Study, asked: Asked) -> Found | None:
    """docs/reference/corrected_rates.md, rg_transfer, of splits in one reading and without blocked answers."""
    splits = study.pool(asked.pool) if asked.pool else [asked.split]
    reading = study.headline(splits[0])
    errors = errors_of(study, asked.judge, asked.parameter, reading)
    if errors is None or len({study.headline(split) for split in splits}) > 1:
        return None
    if _blocked(study, asked.judge, asked.model, splits):
        return None
    j, alpha = errors.se + errors.sp - 1, study.alpha
    if np.quantile(errors.drawn_se + errors.drawn_sp - 1, alpha / 2) < IDENTIFIED:
        return Found()
    cells = [counting(cell, reading) for cell in pool_cells(study, asked.judge, asked.model, splits)]
    if asked.pool:
        r, ends = pooled_rate(study, asked.judge, asked.model, asked.pool, reading)
    else:
        r, ends = rate(study.cell(asked.judge, asked.model, asked.split), reading, alpha)
    g = len({name for cell, _ in cells for name in cell.clusters})
    drawn = resampled_rate([(rates, cell.clusters) for cell, rates in cells])
    drawn = (drawn + errors.drawn_sp - 1) / np.maximum(errors.drawn_se + errors.drawn_sp - 1, IDENTIFIED / 3)
    tails, theirs = expanded(g, alpha), min(resamples(g), errors.resamples)
    if np.quantile(drawn, tails[1]) <= 0 or np.quantile(drawn, tails[0]) >= 1:
        return Found()
    value = float(np.clip((r + errors.sp - 1) / j, 0, 1))
    least = max(0.0, value - (r - ends.low) / j, 1 - (1 - ends.low) / errors.sp)
    most = min(1.0, value + (ends.high - r) / j, ends.high / errors.se)
    low, high = (spread(np.clip(drawn, 0, 1), tail, theirs) for tail in tails)
    return Found(value, Span(*(min(x, value, least) for x in low)), Span(*(max(x, value, most) for x in high)))


def own_rate(study: Study, asked: Asked) -> tuple[float, str] | None:
    """Return the judge's own rate and its reading; None with blocked answers, or in several readings."""
    splits = study.pool(asked.pool) if asked.pool else [asked.split]
    if len({study.headline(split) for split in splits}) > 1 or _blocked(study, asked.judge, asked.model, splits):
        return None
    reading = study.headline(splits[0])
    if asked.pool:
        return pooled_rate(study, asked.judge, asked.model, asked.pool, reading)[0], reading
    return rate(study.cell(asked.judge, asked.model, asked.split), reading, study.alpha)[0], reading


def unclipped(study: Study, asked: Asked) -> Found | None:
    """The data dictionary: the rate by gold before it is cut, which an unidentified one has not."""
    own = own_rate(study, asked)
    errors = own and errors_of(study, asked.judge, asked.parameter, own[1])
    if not own or not errors:
        return None
    if np.quantile(errors.drawn_se + errors.drawn_sp - 1, study.alpha / 2) < IDENTIFIED:
        return Found()
    return Found((own[0] + errors.sp - 1) / (errors.se + errors.sp - 1))


def by_model(study: Study, asked: Asked) -> Found | None:
    """The data dictionary: the rate by gold with the errors on one answering model."""
    own = own_rate(study, asked)
    read = own and read_gold(study, asked.judge, asked.parameter, own[1])
    if not own or not read:
        return None
    h, m, of_model, named, _ = read
    there = of_model == named.index(asked.category)
    se, sp = (float((h == m)[there & (h == label)].mean()) for label in (1, 0))
    return Found(float(np.clip((own[0] + sp - 1) / (se + sp - 1), 0, 1))) if se + sp - 1 >= IDENTIFIED else Found()


def between(study: Study, asked: Asked) -> Found | None:
    """The data dictionary: how far answering models differ beyond chance."""
    read = read_gold(study, asked.judge, asked.parameter, asked.reading)
    found = read and between_models(*read[:3])
    if not found:
        return None
    values, vectors, _ = found
    side = ("judge_sensitivity_spread", "judge_specificity_spread").index(asked.estimand)
    return Found(float(np.sqrt((vectors[side] ** 2 * np.maximum(values, 0)).sum())))


class Labelled(NamedTuple):
    """One split of ppi: all answers and those that people labelled, with their shares a and a / probability."""

    f: Array
    a: Array
    clusters: list[str]
    h: Array
    of: Array  # the judge's reading of the labelled answers
    w: Array
    labelled_clusters: list[str]
    prompts: list[Any]  # of each answer, the prompt (of dialogues the turn) that it belongs to
    labelled_prompts: list[Any]
    texts: list[Any]  # what people read, the same for equal answers that they read once


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
        [(split, *place) for place, _, _ in at],
        [(split, row["prompt_id"], row["turn"]) for row in labels],
        [row.get("text") or (split, row["prompt_id"], row["turn"], row["sample"]) for row in labels],
    )


@cache
def _labels(study: Study) -> list[dict[str, Any]]:
    rows = read_lines(study.labels_path) if study.labels_path else []
    return [row for row in rows if "label" in row]


class Corrected(NamedTuple):
    """A corrected rate (perhaps below 0 or above 1), what each prompt adds to it, and what its interval needs."""

    value: float
    added: dict[Any, float]  # by prompt, whose name begins with its split
    clusters: dict[Any, str]
    people: float  # the rate of the labels alone
    weights: Array  # of each text
    classes: tuple[int, int]  # texts that people call refusals, and others
    labelled: float  # effective number of clusters with labels

    @property
    def half(self) -> float:
        """Return the variance of half an error more in each direction."""
        return float((self.weights**2).sum()) ** 2 / 2

    @property
    def most(self) -> float:
        """Return the most degrees of freedom."""
        return max(1.0, self.labelled - 1)

    def alone(self, alpha: float) -> tuple[float, float]:
        """Return Wilson's interval of the labels alone."""
        worth = min(1 / float((self.weights**2).sum()), self.labelled)
        return wilson_ends(self.people, worth, self.most, alpha)


def spread_of(added: dict[Any, float], sides: Sequence[Corrected]) -> tuple[float, float]:
    """Return V and df of what prompts add to a rate, or to the difference of two."""
    clusters = {place: name for side in sides for place, name in side.clusters.items()}
    splits = []
    for split in sorted({place[0] for place in added}):
        own = [place for place in added if place[0] == split]
        splits.append((np.array([added[place] for place in own]), [clusters[place] for place in own]))
    variance, together = variance_in_splits(splits)
    variance += sum(side.half for side in sides)
    halves = sum(side.half**2 / side.most for side in sides)
    fewest = min(side.most for side in sides)
    carried = variance**2 / (sum(own**4 for own in together.values()) + halves)
    return variance, float(np.sqrt(min(carried, fewest) * fewest))


def corrected(study: Study, judge: str, model: str, splits: tuple[str, ...]) -> Corrected | None:
    """docs/reference/corrected_rates.md, ppi, with the lambda of least variance of clusters; None without."""
    kept = study.without_copies(splits)
    parts = [labelled_split(study, judge, model, split, kept[split]) for split in splits]
    texts = {text for part in parts for text in part.texts}
    if len(texts) < LEAST or not all(len(part.h) for part in parts):
        return None
    total, count = sum(float(part.w.sum()) for part in parts), len(parts)
    people = sum(float(part.w @ part.h) for part in parts) / total
    read = sum(float(part.w @ part.of) for part in parts) / total
    fixed: Counter[Any] = Counter()
    moving: Counter[Any] = Counter()
    clusters: dict[Any, str] = {}
    for part in parts:
        for place, w, h, f in zip(part.labelled_prompts, part.w / total, part.h, part.of, strict=True):
            fixed[place] += w * (h - people)
            moving[place] -= w * (f - read)
        for place, x in zip(part.prompts, part.a * (part.f - part.a @ part.f) / count, strict=True):
            moving[place] += x
        clusters |= dict(zip(part.prompts, part.clusters, strict=True))
    fixed_of: Counter[str] = Counter()
    moving_of: Counter[str] = Counter()
    for place, x in moving.items():
        fixed_of[clusters[place]] += fixed[place]
        moving_of[clusters[place]] += x
    squares = sum(x * x for x in moving_of.values())
    best = -sum(fixed_of[name] * x for name, x in moving_of.items()) / squares if squares else 0.0
    best = min(1.0, max(0.0, best))
    judged = float(np.mean([part.a @ part.f for part in parts]))
    weights: Counter[Any] = Counter()
    seen = [(text, w, h) for part in parts for text, w, h in zip(part.texts, part.w, part.h, strict=True)]
    for text, w, _ in seen:
        weights[text] += w / total
    refused, others = (len({text for text, _, h in seen if h == side}) for side in (1, 0))
    return Corrected(
        best * judged + people - best * read,
        {place: fixed[place] + best * x for place, x in moving.items()},
        clusters,
        min(1.0, people),
        np.array(list(weights.values())),
        (refused, others),
        effective_in_labels(Counter(cluster for part in parts for cluster in part.labelled_clusters)),
    )


def effective_in_labels(labels: Counter[str]) -> float:
    """Return the effective number of clusters with labels, from the number of labels in each."""
    return sum(labels.values()) ** 2 / sum(n**2 for n in labels.values())


def _splits(study: Study, asked: Asked) -> tuple[str, ...]:
    return tuple(study.pool(asked.pool)) if asked.pool else (asked.split,)


def _blocked(study: Study, judge: str, model: str, splits: Sequence[str]) -> bool:
    return any(label == "blocked" for split in splits for label in study.cell(judge, model, split).labels.flat)


def ppi(study: Study, asked: Asked) -> Found | None:
    """Wilson's interval with V and df; with few labels of a class that of the labels, too.

    See docs/reference/corrected_rates.md.
    """
    splits = _splits(study, asked)
    found = corrected(study, asked.judge, asked.model, splits)
    if found is None:
        return Found()
    if _blocked(study, asked.judge, asked.model, splits):
        return None
    value, one = min(1.0, max(0.0, found.value)), float((found.weights**2).sum())
    least = min(0.5, one)
    q = min(1 - least, max(least, value))
    variance, degrees = spread_of(found.added, [found])
    low, high = wilson_ends(value, q * (1 - q) / variance, degrees, study.alpha)
    if min(found.classes) < FEW:
        alone = found.alone(study.alpha)
        low, high = min(low, alone[0]), max(high, alone[1])
    return Found(value, min(low, value), max(high, value))


def ppi_labels(study: Study, asked: Asked) -> Found:
    """The data dictionary: texts that people labelled."""
    splits = _splits(study, asked)
    kept = study.without_copies(splits)
    parts = [labelled_split(study, asked.judge, asked.model, split, kept[split]) for split in splits]
    return Found(float(len({text for part in parts for text in part.texts})))


class Difference(NamedTuple):
    """A difference of corrected rates with its standard error, and both rates if one has few labels of a class."""

    value: float
    error: float
    degrees: float
    sides: tuple[Corrected, ...]

    def ends(self, alpha: float) -> tuple[float, float]:
        """Return the interval, which reaches over that of the labels alone if these are few."""
        reach = self.error * float(stats.t.ppf(1 - alpha / 2, self.degrees))
        found = [(self.value - reach, self.value + reach)]
        if self.sides:
            one, other = self.sides
            (low, high), (least, most) = one.alone(alpha), other.alone(alpha)
            apart = one.people - other.people
            below = np.hypot(one.people - low, most - other.people)
            found.append((apart - below, apart + np.hypot(high - one.people, other.people - least)))
        return max(-1.0, min(low for low, _ in found)), min(1.0, max(high for _, high in found))

    @property
    def p(self) -> float:
        """Return the p of no difference: the smallest alpha whose interval leaves out 0."""
        plain = float(2 * stats.t.sf(abs(self.value) / self.error, self.degrees))
        if not self.sides:
            return plain
        if self.value * (self.sides[0].people - self.sides[1].people) <= 0:
            return 1.0

        def left_out(alpha: float) -> float:
            low, high = Difference(self.value, 1e-300, self.degrees, self.sides).ends(alpha)
            return low if self.value > 0 else -high

        alone = 0.0 if left_out(1e-15) > 0 else float(optimize.brentq(left_out, 1e-15, 1 - 1e-12, xtol=1e-15))
        return max(plain, alone)


@cache
def difference(study: Study, judge: str, first: str, second: str, splits: tuple[str, ...]) -> Difference | None:
    """docs/reference/corrected_rates.md: Differences of two models; None where one has no corrected rate."""
    one, other = (corrected(study, judge, model, splits) for model in (first, second))
    if one is None or other is None:
        return None
    places = sorted(one.added.keys() | other.added.keys())
    variance, degrees = spread_of(
        {place: one.added.get(place, 0.0) - other.added.get(place, 0.0) for place in places}, (one, other)
    )
    sides = (one, other) if min(*one.classes, *other.classes) < FEW else ()
    return Difference(min(1.0, max(-1.0, one.value - other.value)), float(np.sqrt(variance)), degrees, sides)


def rate_difference_ppi(study: Study, asked: Asked) -> Found | None:
    """docs/reference/corrected_rates.md: Student's t."""
    found = _asked(study, asked)
    if found is None:
        return None
    return Found(found.value, *found.ends(study.alpha))


def rate_difference_ppi_p(study: Study, asked: Asked) -> Found | None:
    """docs/reference/corrected_rates.md: the test."""
    found = _asked(study, asked)
    return None if found is None else Found(found.p)


def _asked(study: Study, asked: Asked) -> Difference | None:
    second, splits = asked.parameter.removeprefix("minus "), _splits(study, asked)
    if any(_blocked(study, asked.judge, model, splits) for model in (asked.model, second)):
        return None
    return difference(study, asked.judge, asked.model, second, splits)


def rate_difference_ppi_p_holm(study: Study, asked: Asked) -> Found | None:
    """docs/reference/corrected_rates.md: Holm's, over all corrected differences under a judge."""
    found = _asked(study, asked)
    if found is None:
        return None
    scopes: list[tuple[str, ...]] = [(split,) for split in study.said["splits"]]
    scopes += [pool for pool in (tuple(study.pool(name)) for name in ("comply", "refuse", "varies")) if len(pool) > 1]
    pairs = list(combinations(sorted(study.models), 2))
    every = [difference(study, asked.judge, *pair, scope) for pair in pairs for scope in scopes]
    ps = sorted(other.p for other in every if other is not None)
    steps = [min(1.0, p * (len(ps) - i)) for i, p in enumerate(ps)]
    return Found(max(step for p, step in zip(ps, steps, strict=True) if p <= found.p))


def human_kappa(study: Study, asked: Asked) -> Found | None:
    """Copied from beside the labels; a study does not hold each person's own.

    See docs/how-to/human_labels.md, Reading back.
    """
    path = study.labels_path and study.labels_path.with_name("agreement.json")
    if path is None or not path.is_file():
        return None
    said = json.loads(path.read_text(encoding="utf-8"))[asked.reading or asked.parameter]
    return Found(said["kappa"], *said["interval"])


KNOWN: dict[str, Callable[[Study, Asked], Found | None]] = {
    "refusal_rate_rg_transfer": transfer,
    "refusal_rate_rg_transfer_unclipped": unclipped,
    "refusal_rate_rg_transfer_by_model": by_model,
    **dict.fromkeys(("judge_sensitivity_spread", "judge_specificity_spread"), between),
    "refusal_rate_ppi": ppi,
    "ppi_labels": ppi_labels,
    "rate_difference_ppi": rate_difference_ppi,
    "rate_difference_ppi_p": rate_difference_ppi_p,
    "rate_difference_ppi_p_holm": rate_difference_ppi_p_holm,
    "human_kappa": human_kappa,
}
