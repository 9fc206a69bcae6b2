"""Agreement of judges with people, and with each other (docs/reference/agreement.md)."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from independent_intervals import SURE, Ends, Span, bootstrap, codes, draws, per_cluster, wilson, wilson_ends
from independent_rates import NAN, Asked, Found, counting, within
from independent_study import Array, Study, read_lines, refuses

CARD = (
    *("coverage", "accuracy", "sensitivity", "specificity", "balanced_accuracy", "f1", "kappa", "kappa_three_class"),
    *("ece", "brier", "roc_auc", "average_precision"),
)
CLASSES = ("refusal", "partial", "compliance")
LEAST, LEAST_CLUSTERS = 20, 5  # of answers, and of clusters, in each class
WIDER_BELOW = 10  # clusters of a class
CARD_DRAWS, RANKING_DRAWS = 10_000, 2_000  # how often the docs draw
Measure = Callable[[Array], Array]  # of tables, whose rows are people's (or the first judge's) labels


class Gold(NamedTuple):
    """Gold answers: people's labels, those of a judge (None where it gave none), its probabilities, and clusters."""

    people: list[str]
    judge: list[str | None]
    p: Array
    clusters: list[str]

    def only(self, kept: Sequence[bool]) -> "Gold":
        """Return some of the answers."""
        rows = [i for i, keep in enumerate(kept) if keep]
        people, judge, clusters = ([column[i] for i in rows] for column in (self.people, self.judge, self.clusters))
        return Gold([str(x) for x in people], judge, self.p[rows], [str(x) for x in clusters])


@cache
def gold_of(study: Study, judge: str, name: str, category: str) -> Gold | None:
    """Return the gold answers of one answering model or of all; None for gold with weights or fits."""
    rows = read_lines(study.folder / f"gold/{name}.jsonl")
    entry = study.said["judge_entries"][judge]
    if study.said["gold_entries"][name]["columns"].get("weight") or entry.get("calibrated_on"):
        return None
    verdicts = {row["prompt_id"]: row for row in read_lines(study.folder / f"verdicts/{judge}/gold/{name}.jsonl")}
    rows = [row for row in rows if not category or row["answering_model"] == category]
    said = [verdicts.get(row["id"], {}) for row in rows]
    p = np.array([NAN if row.get("p_refusal") is None else round(row["p_refusal"], 9) for row in said])
    labels = [row["label"] if row.get("state") == "judged" else None for row in said]
    return Gold([row["label"] for row in rows], labels, p, [row["cluster"] or row["id"] for row in rows])


def card(study: Study, asked: Asked) -> Found | None:
    """docs/reference/agreement.md: A judge against people."""
    gold = gold_of(study, asked.judge, asked.parameter, asked.category)
    if gold is None:
        return None
    labelled = gold.only([label is not None for label in gold.judge])
    name = asked.estimand.removeprefix("judge_")
    if name == "coverage":
        hits = np.array([float(label is not None) for label in gold.judge])
        return within(float(hits.mean()), wilson(hits, gold.clusters, len(hits), study.alpha))
    if name in ("ece", "brier"):
        return probabilities(study, labelled, name)
    if name in ("roc_auc", "average_precision"):
        return ranking(study, labelled, name)
    if name == "kappa_three_class":
        rows, columns = ([CLASSES.index(str(x)) for x in side] for side in (labelled.people, labelled.judge))
        return table_measure(study, rows, columns, labelled.clusters, 3, kappa)
    h, m = (np.array([refuses(x, asked.reading) for x in side]) for side in (labelled.people, labelled.judge))
    if name in ("accuracy", "sensitivity", "specificity"):
        kept = {"accuracy": h >= 0, "sensitivity": h == 1, "specificity": h == 0}[name]
        return within(*share(h == m, kept, labelled.clusters, study.alpha))
    measure = {"balanced_accuracy": balanced, "f1": f1, "kappa": kappa}[name]
    small = small_class(h, labelled.clusters)
    if name == "kappa" and min((h == 1).sum(), (h == 0).sum()) < LEAST:
        return Found()
    if small:
        return from_ends(study, h, m, labelled.clusters, measure)
    found = table_measure(study, [int(1 - x) for x in h], [int(1 - x) for x in m], labelled.clusters, 2, measure)
    if fewest_clusters(h, labelled.clusters) >= WIDER_BELOW:
        return found
    wide = from_ends(study, h, m, labelled.clusters, measure)
    assert isinstance(found.low, Span) and isinstance(found.high, Span)
    assert isinstance(wide.low, float) and isinstance(wide.high, float)
    least, most = wide.low, wide.high
    low, high = Span(*(min(x, least) for x in found.low)), Span(*(max(x, most) for x in found.high))
    return Found(found.value, low, high)


def share(hits: Array, kept: Array, clusters: Sequence[str], alpha: float) -> tuple[float, Ends]:
    """Return the share of hits among some answers, each a row and a draw."""
    values = hits[kept].astype(float)
    return float(values.mean()), wilson(
        values, [c for c, k in zip(clusters, kept, strict=True) if k], len(values), alpha
    )


def small_class(h: Array, clusters: Sequence[str]) -> bool:
    """Return whether a class has too few answers or clusters for a bootstrap."""
    return min((h == 1).sum(), (h == 0).sum()) < LEAST or fewest_clusters(h, clusters) < LEAST_CLUSTERS


def fewest_clusters(h: Array, clusters: Sequence[str]) -> int:
    """Return the number of clusters of the class that has fewer."""
    return min(len({c for c, x in zip(clusters, h, strict=True) if x == of}) for of in (0, 1))


def kappa(tables: Array) -> Array:
    """Cohen's kappa of tables."""
    n = tables.sum(axis=(-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1) / n**2
        return np.asarray((np.trace(tables, axis1=-2, axis2=-1) / n - chance) / (1 - chance), dtype=float)


def balanced(tables: Array) -> Array:
    """Balanced accuracy."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((np.diagonal(tables, axis1=-2, axis2=-1) / tables.sum(axis=-1)).mean(axis=-1), dtype=float)


def f1(tables: Array) -> Array:
    """F1 of the first class."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return 2 * tables[..., 0, 0] / (2 * tables[..., 0, 0] + tables[..., 0, 1] + tables[..., 1, 0])


def from_ends(study: Study, h: Array, m: Array, clusters: Sequence[str], measure: Measure) -> Found:
    """docs/reference/agreement.md: Small classes, over the four pairs of ends of Se and Sp."""
    of = [share(h == m, h == label, clusters, study.alpha)[1] for label in (1, 0)]
    n = [(h == label).sum() for label in (1, 0)]
    table = np.array([[((h == a) & (m == b)).sum() for b in (1, 0)] for a in (1, 0)], dtype=float)
    found = [
        float(measure(np.array([[se * n[0], (1 - se) * n[0]], [(1 - sp) * n[1], sp * n[1]]])))
        for se in (of[0].low, of[0].high)
        for sp in (of[1].low, of[1].high)
    ]
    return Found(float(measure(table)), min(found), max(found))


def tables_of(rows: Sequence[int], columns: Sequence[int], clusters: Sequence[str], size: int) -> Array:
    """Return a table for each cluster."""
    numbers, count = codes(clusters)
    tables = np.zeros((count, size, size))
    np.add.at(tables, (numbers, np.array(rows), np.array(columns)), 1.0)
    return tables


def unseen(tables: Array, alpha: float, clusters: Sequence[float] = ()) -> tuple[Array, Array]:
    """The table with errors that no row shows, and with hits that none shows.

    See docs/reference/agreement.md, Unseen errors.

    `clusters`: of each class, where answers have weights.
    """
    whole = tables.sum(axis=0)
    low, high, size = whole.copy(), whole.copy(), len(whole)
    for i, row in enumerate(whole):
        behind = clusters[i] if clusters else int((tables[:, i].sum(axis=1) > 0).sum())
        if not behind:
            continue
        s, n = 1 - (alpha / 2) ** (1 / behind), row.sum()
        if row[i] == n:
            low[i] = s * n / (size - 1)
            low[i, i] = n - s * n
        if row[i] == 0:
            high[i] = row * (1 - s)
            high[i, i] = s * n
    return low, high


def table_measure(
    study: Study, rows: Sequence[int], columns: Sequence[int], clusters: Sequence[str], size: int, measure: Measure
) -> Found:
    """Return a measure of a table of people's and a judge's labels."""
    tables = tables_of(rows, columns, clusters, size)
    per_class = tables.sum(axis=2)
    if size == 3 and (per_class.sum(axis=0).min() < LEAST or ((per_class > 0).sum(axis=0)).min() < LEAST_CLUSTERS):
        return Found()
    of_classes = (per_class > 0).sum(axis=0)
    behind = int(of_classes[of_classes > 0].min())
    return with_unseen(study.alpha, tables, measure, [unseen(tables, study.alpha)], CARD_DRAWS, behind)


def with_unseen(
    alpha: float, tables: Array, measure: Measure, changed: Sequence[tuple[Array, Array]], theirs: int, behind: int = 0
) -> Found:
    size = tables.shape[-1]
    flat = tables.reshape(len(tables), -1)
    ends = bootstrap(flat, lambda drawn: measure(drawn.reshape(-1, size, size)), alpha, theirs, behind)
    least = min(float(measure(low)) for low, _ in changed)
    most = max(float(measure(high)) for _, high in changed)
    low, high = Span(*(min(x, least) for x in ends[0])), Span(*(max(x, most) for x in ends[1]))
    return Found(float(measure(tables.sum(axis=0))), low, high)


def probabilities(study: Study, gold: Gold, name: str) -> Found:
    """docs/reference/agreement.md: Probabilities."""
    kept = ~np.isnan(gold.p)
    p, y = gold.p[kept], np.array([refuses(label, "broad") for label in gold.people])[kept]
    clusters = [c for c, k in zip(gold.clusters, kept, strict=True) if k]
    one = np.ones(len(p))
    if name == "brier":
        sums = np.column_stack([per_cluster((p - y) ** 2, clusters), per_cluster(one, clusters)])
        ends = bootstrap(sums, lambda drawn: drawn[:, 0] / drawn[:, 1], study.alpha, CARD_DRAWS)
        return Found(float(((p - y) ** 2).mean()), *ends)
    bins = _bins(p)
    columns = [per_cluster((p - y) * (bins == b), clusters) for b in np.unique(bins)]
    sums = np.column_stack([*columns, per_cluster(one, clusters)])
    d = sums[:, :-1].sum(axis=0) / len(p)

    def moved(drawn: Array) -> Array:
        return drawn[:, :-1] / drawn[:, -1:]

    ece = float(np.abs(d).sum())
    high = bootstrap(sums, lambda drawn: np.abs(moved(drawn)).sum(axis=1), study.alpha, CARD_DRAWS)[1]
    r = bootstrap(sums, lambda drawn: np.abs(moved(drawn) - d).sum(axis=1), study.alpha, CARD_DRAWS)[1]
    basic = [max(0.0, 2 * ece - x) for x in (high.most, high.at, high.least)]
    low = [0.0 if ece <= r.most else basic[0], 0.0 if ece <= r.at else basic[1], 0.0 if ece <= r.least else basic[2]]
    return Found(ece, Span(*low), Span(*(max(x, ece) for x in high)))


def _bins(p: Array) -> Array:
    n = len(p)
    count = min(10, max(1, n // LEAST))
    values, inverse, equal = np.unique(p, return_inverse=True, return_counts=True)
    below = np.cumsum(equal)
    return np.minimum(np.floor((below - equal / 2) * count / n), count - 1)[inverse] if len(values) else p


def ranking(study: Study, gold: Gold, name: str) -> Found:
    """docs/reference/agreement.md: ROC area and average precision, Wilson's interval with the variance of resamples."""
    kept = ~np.isnan(gold.p)
    p, y = gold.p[kept], np.array([refuses(label, "broad") for label in gold.people])[kept]
    clusters = [c for c, k in zip(gold.clusters, kept, strict=True) if k]
    if small_class(y, clusters):
        return Found()
    numbers, count = codes(clusters)
    measure = _roc_area if name == "roc_auc" else _average_precision
    value = float(measure(p, y, np.ones((1, len(p))))[0])
    drawn = measure(p, y, draws(count, 10 * RANKING_DRAWS)[:, numbers])
    behind = min(len({c for c, x in zip(clusters, y, strict=True) if x == of}) for of in (0, 1))
    most = float(len(p) if name == "roc_auc" else y.sum())
    if value in (0.0, 1.0):
        exact = (study.alpha / 2) ** (1 / behind)
        return Found(value, *((exact, 1.0) if value else (0.0, 1 - exact)))
    variance, error = float(drawn.var()) * count / (count - 1), SURE * np.sqrt(2 / RANKING_DRAWS + 2 / len(drawn))
    worth = [min(value * (1 - value) / (variance * by), most) for by in (1 + error, 1, 1 - error)]
    ends = [wilson_ends(value, n, behind - 1, study.alpha) for n in worth]
    return Found(value, Span(*(low for low, _ in ends)), Span(*(high for _, high in reversed(ends))))


def _by_value(p: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """Return the weights of refusals and of others at each distinct p, from the smallest."""
    values, inverse = np.unique(p, return_inverse=True)
    at = np.zeros((len(p), len(values)))
    at[np.arange(len(p)), inverse] = 1.0
    return (weights * y) @ at, (weights * (1 - y)) @ at


def _roc_area(p: Array, y: Array, weights: Array) -> Array:
    ones, zeros = _by_value(p, y, weights)
    below = np.cumsum(zeros, axis=1) - zeros
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (ones * (below + zeros / 2)).sum(axis=1) / (ones.sum(axis=1) * zeros.sum(axis=1)), dtype=float
        )


def _average_precision(p: Array, y: Array, weights: Array) -> Array:
    ones, zeros = (side[:, ::-1] for side in _by_value(p, y, weights))
    found, every = np.cumsum(ones, axis=1), np.cumsum(ones + zeros, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nansum(ones * found / every, axis=1) / found[:, -1], dtype=float)


def label_of(label: str | None, reading: str) -> int | None:
    """Return the class of a label: of three, or of two in a reading."""
    if label is None or label == "blocked":
        return None
    return CLASSES.index(label) if not reading else int(1 - refuses(label, reading))


Rows = list[tuple[str, tuple[str, str, str, int], list[tuple[int | None, ...]]]]


@cache
def together(study: Study, judges: tuple[str, ...], splits: tuple[str, ...], reading: str) -> Rows:
    """Return for each prompt or scored turn of each model its cluster, its names and its answers' classes by judges."""
    found: Rows = []
    for split in splits:
        pool = study.pool(study.expectation(split)) if len(splits) > 1 else splits
        counts = study.without_copies(pool)[split]
        for model in study.models:
            cells = [study.cell(judge, model, split) for judge in judges]
            for i, (place, cluster) in enumerate(zip(cells[0].places, cells[0].clusters, strict=True)):
                if place[0] not in counts:
                    continue
                said = zip(*(cell.labels[i] for cell in cells), strict=True)
                labels = [tuple(label_of(x, reading) for x in answer) for answer in said]
                found.append((cluster, (split, model, *place), labels))
    return found


def _splits(study: Study, asked: Asked) -> tuple[str, ...]:
    return tuple(study.said["splits"]) if asked.pool == "all" else (asked.split,)


def _other(asked: Asked) -> str:
    return asked.parameter.removeprefix("with judge ")


def same_label(study: Study, asked: Asked) -> Found:
    """docs/reference/agreement.md: Same label, of answers, with the interval of so many prompts."""
    hits, clusters, prompts = [], [], 0
    for cluster, _, labels in together(study, (asked.judge, _other(asked)), _splits(study, asked), asked.reading):
        both = [float(a == b) for a, b in labels if a is not None and b is not None]
        hits += both
        clusters += [cluster] * len(both)
        prompts += bool(both)
    values = np.array(hits)
    return within(float(values.mean()), wilson(values, clusters, len(values), study.alpha, prompts))


def judges_kappa(study: Study, asked: Asked) -> Found:
    """docs/reference/agreement.md: Kappa of two judges."""
    size = 2 if asked.reading else 3
    rows = together(study, (asked.judge, _other(asked)), _splits(study, asked), asked.reading)
    names = [cluster for cluster, _, _ in rows]
    numbers, count = codes(names)
    tables = np.zeros((count, size, size))
    for number, (_, _, labels) in zip(numbers, rows, strict=True):
        for a, b in labels:
            if a is not None and b is not None:
                tables[number, a, b] += 1
    whole = tables.sum(axis=0)
    if np.maximum(whole.sum(axis=1), whole.sum(axis=0)).min() < LEAST:
        return Found()
    turned = tables.swapaxes(1, 2)
    changed = [unseen(tables, study.alpha), unseen(turned, study.alpha)]
    behind = int((tables.sum(axis=(1, 2)) > 0).sum())
    return with_unseen(study.alpha, tables, kappa, changed, CARD_DRAWS, behind)


def alpha_of(o: Array, kept: Array | None = None) -> Array:
    """Krippendorff's alpha of tables of coincidences; `kept`: the n_c where o was changed."""
    n_c = o.sum(axis=-1) if kept is None else kept
    n = n_c.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = n - np.trace(o, axis1=-2, axis2=-1)
        return np.asarray(1 - (n - 1) * apart / (n**2 - (n_c**2).sum(axis=-1)), dtype=float)


def judges_alpha(study: Study, asked: Asked) -> Found:
    """docs/reference/agreement.md: Alpha of all judges."""
    size = 2 if asked.reading else 3
    rows = together(study, tuple(asked.parameter.split(", ")), _splits(study, asked), asked.reading)
    numbers, count = codes([cluster for cluster, _, _ in rows])
    o = np.zeros((count, size, size))
    for number, (_, _, labels) in zip(numbers, rows, strict=True):
        for answer in labels:
            said = [label for label in answer if label is not None]
            for a, b in combinations(said, 2):
                o[number, a, b] += 1 / (len(said) - 1)
                o[number, b, a] += 1 / (len(said) - 1)
    kept = o.sum(axis=(0, 2))
    if kept.min() < LEAST:
        return Found()
    low, high = unseen(o, study.alpha)
    behind = int((o.sum(axis=(1, 2)) > 0).sum())
    changed = [(low, high)]
    found = with_unseen(study.alpha, o, alpha_of, [(o.sum(axis=0),) * 2], CARD_DRAWS, behind)
    ends = [float(alpha_of(table, kept)) for table in changed[0]]
    lows, highs = (end if isinstance(end, Span) else Span(end, end, end) for end in (found.low, found.high))
    return Found(found.value, Span(*(min(x, ends[0]) for x in lows)), Span(*(max(x, ends[1]) for x in highs)))


def judges_tau(study: Study, asked: Asked) -> Found:
    """docs/reference/agreement.md: Tau, between the orders of the models by headline rates."""
    reading, sums, names = study.headline(asked.split), [], set[str]()
    for judge in (asked.judge, _other(asked)):
        for model in study.models:
            cell, rates = counting(study.cell(judge, model, asked.split), reading)
            sums.append(dict(_totals(rates, cell.clusters)))
            names |= set(cell.clusters)
    table = np.array([[of.get(name, (0.0, 0.0)) for of in sums] for name in sorted(names)])
    flat = table.reshape(len(table), -1)
    answered = flat[:, 1::2].any(axis=0).reshape(2, -1).all(axis=0)  # a model without a rate under one judge is in none
    if answered.sum() < 2:
        return Found()

    def statistic(drawn: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = np.round(drawn[:, 0::2] / drawn[:, 1::2], 12)
        first, second = rates[:, : len(study.models)], rates[:, len(study.models) :]
        pairs = list(combinations(np.flatnonzero(answered).tolist(), 2))
        a, b = (np.column_stack([np.sign(side[:, i] - side[:, j]) for i, j in pairs]) for side in (first, second))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1)), dtype=float)

    value = float(statistic(flat.sum(axis=0)[None, :])[0])
    return Found() if np.isnan(value) else Found(value, *bootstrap(flat, statistic, study.alpha, CARD_DRAWS))


def _totals(rates: Array, clusters: Sequence[str]) -> Iterator[tuple[str, tuple[float, float]]]:
    for name in set(clusters):
        own = rates[[cluster == name for cluster in clusters]]
        yield name, (float(own.sum()), float(len(own)))


KNOWN: dict[str, Callable[[Study, Asked], Found | None]] = {
    **{f"judge_{name}": card for name in CARD},
    **dict.fromkeys(("judges_same_label", "judges_same_label_three_class"), same_label),
    **dict.fromkeys(("judges_kappa", "judges_kappa_three_class"), judges_kappa),
    **dict.fromkeys(("judges_alpha", "judges_alpha_three_class"), judges_alpha),
    "judges_tau": judges_tau,
}
