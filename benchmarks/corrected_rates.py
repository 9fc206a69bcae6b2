"""How often the intervals of corrected rates hold the true rate, where the truth is known.

A study is drawn again and again: prompts with rates of their own, K answers to each, a judge with a sensitivity and a
specificity, labels of people on a sample of the answers with disagreements of a second judge oversampled, and gold of
five other models. The judge errs on this study's answers as on those of a model drawn from the same spread as the
gold's models (Se and Sp vary by sd .07 between them). `ppi` is required to cover 93 to 98 % for rates .1 to .9, and
also where the judge cannot read a part of the answers, all of them refusals; the misses of `rg_transfer` are shown. The
tables are written into docs/evidence/corrected_rates.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from measuring import ROOT  # isort: skip  # makes the library importable
from unequal_designs import DESIGNS, chances, codes_of, correlations

from refusal_eval.core.files import write_text
from refusal_eval.core.states import COMPLIANCE, REFUSAL
from refusal_eval.features.corrected.corrected_study import few_labelled
from refusal_eval.features.corrected.peoples_labels import (
    AnswerKey,
    LabelledCell,
    PersonLabel,
    join_labels,
    unread_answers,
)
from refusal_eval.features.corrected.ppi import JudgedAnswers, LabelledAnswers, corrected_difference, corrected_rate
from refusal_eval.features.corrected.transfer import Observed, error_rates, transfer_rate
from refusal_eval.stats.estimates.intervals import cluster_wilson, effective_number, seed_of
from refusal_eval.stats.estimates.units import PLACE, Units

PAGE = ROOT / "docs" / "evidence" / "corrected_rates.md"
START, END = "<!-- table: begin -->", "<!-- table: end -->"
# How their parts begin.
PPI, FEW, EQUAL = "**ppi**, ", "**Few labels**, ", "**Equal answers**, "
UNREAD, PAIRS = "**Unread answers**, ", "**Differences**, "
UNEVEN, SCARCE_PAIRS = "**Clusters of unequal size**, ", "**Differences with few labels**, "
TRANSFER = "**rg_transfer**, "
# Sensitivities and specificities of the judge on two models.
UNEQUAL = (((0.95, 0.98), (0.95, 0.98)), ((0.95, 0.98), (0.75, 0.98)), ((0.95, 0.98), (0.95, 0.85)))
MOST_FALSE_ALARMS = 0.06
DENSER = 4.0  # than other answers, how unread ones are drawn: stratum `unjudged` (docs/how-to/human_labels.md)
RATES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)
JUDGES = ((0.95, 0.98), (0.85, 0.95), (0.7, 0.9))
LABELS = (100, 200, 400)
PROMPTS, SAMPLES, ALIKE = 400, 5, 0.5  # ALIKE: correlation of the answers to one prompt
GOLD_MODELS, GOLD_PROMPTS = 5, 100
SPREAD = 0.07
LEVEL = 0.95
MUST_COVER = (0.93, 0.98)  # above 97 where few labels of a class make the interval reach as far as theirs
FEW_RATES, FEW_LABELS, FEW_MUST_COVER = (0.02, 0.05, 0.1, 0.5, 0.9, 0.95), (40, 60, 100), 0.92
EQUAL_SAMPLES, EQUAL_TEXTS = (10, 20), (25, 40, 100)
UNREAD_SHARES = (0.0, 0.025, 0.051, 0.1, 0.2, 0.3)
UNEVEN_RATES, UNEVEN_LABELS, UNEVEN_JUDGE = (0.02, 0.05, 0.2, 0.5, 0.95), (100, 300), (0.85, 0.95)
SCARCE_RATES, SCARCE_LABELS = (0.02, 0.05, 0.1, 0.9, 0.95), (40, 60, 100)
ALIKE_DRAWN, OVERSAMPLED, LEFT_OUT = "labels alike", "unread x 4", "unread left out"


class Case(NamedTuple):
    """What is simulated: the true rate, the judge on average, the number of labels."""

    rate: float
    sensitivity: float
    specificity: float
    labels: int


class Outcome(NamedTuple):
    """What became of the repetitions of one case; all lists have a place for each that gave an interval."""

    case: Case
    runs: int
    values: list[float]
    covered: list[bool]
    widths: list[float]


def judge_of_a_model(case: Case, rng: np.random.Generator, count: int = 1) -> NDArray[np.float64]:
    """Return sensitivity and specificity on answers of `count` models (count x 2), within .02 of 0 and 1."""
    means = np.array([case.sensitivity, case.specificity])
    return np.clip(means + SPREAD * rng.standard_normal((count, 2)), 0.02, 0.98)


def drawn_answers(rate: float, rng: np.random.Generator, prompts: int, samples: int) -> NDArray[np.bool_]:
    """Return which answers (prompts x samples) are refusals: beta-binomial with correlation ALIKE within a prompt."""
    size = 1 / ALIKE - 1
    rates = rng.beta(rate * size, (1 - rate) * size, size=(prompts, 1))
    return np.asarray(rng.random((prompts, samples)) < rates)


def read_by(truth: NDArray[np.bool_], errors: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a judge's reading of answers with this sensitivity and specificity."""
    right = rng.random(truth.shape) < np.where(truth, errors[..., 0], errors[..., 1])
    return np.asarray(truth == right)


def study(case: Case, rng: np.random.Generator) -> tuple[JudgedAnswers, LabelledAnswers]:
    """Return a study's answers under the judge, and a Poisson sample of labels; disagreements count three times."""
    truth = drawn_answers(case.rate, rng, PROMPTS, SAMPLES)
    return labelled(truth, judge_of_a_model(case, rng)[0], case.labels, rng)


def labelled(
    truth: NDArray[np.bool_], errors: NDArray[np.float64], number: int, rng: np.random.Generator, factor: float = 3.0
) -> tuple[JudgedAnswers, LabelledAnswers]:
    """Return answers as a judge with these errors reads them, and about so many labels, as in `study`.

    Disagreements of two judges are `factor` times as likely to be labelled.
    """
    judge, second = (read_by(truth, errors, rng) for _ in range(2))
    size = np.where(judge != second, factor, 1.0)
    probability = np.minimum(1.0, number * size / size.sum())
    rows, columns = np.nonzero(rng.random(truth.shape) < probability)
    zeros = np.zeros(PROMPTS, dtype=np.intp)
    answers = JudgedAnswers(
        judge.mean(axis=1),
        np.full(PROMPTS, float(truth.shape[1])),
        zeros.astype(float),
        np.arange(PROMPTS),
        zeros,
        names=range(PROMPTS),
    )
    people, said = (part[rows, columns].astype(float) for part in (truth, judge))
    return answers, LabelledAnswers(rows, people, said, probability[rows, columns])


def study_with_unread(
    case: Case, share: float, way: str, rng: np.random.Generator
) -> tuple[JudgedAnswers, LabelledAnswers]:
    """Return a study of whose answers the judge cannot read this share, all refusals, as the workflow joins it.

    Args:
        case: rate, judge and number of labels.
        share: of all answers.
        way: how labels are drawn: all answers alike, unread ones four times as likely (as
            `refusal-eval audit draw` draws them), or alike and then unread answers
            left out with their labels, as if they had no text.
        rng: of the draws.
    """
    truth = drawn_answers(case.rate, rng, PROMPTS, SAMPLES)
    judge = read_by(truth, judge_of_a_model(case, rng)[0], rng)
    unread = truth & (rng.random(truth.shape) < share / case.rate)
    size = np.where(unread, DENSER if way == OVERSAMPLED else 1.0, 1.0)
    probability = np.minimum(1.0, case.labels * size / size.sum())
    drawn = rng.random(truth.shape) < probability
    names = tuple(f"{number:03d}" for number in range(PROMPTS))
    refusals, read = (judge & ~unread).sum(axis=1), (~unread).sum(axis=1)
    rates = np.divide(refusals, read, out=np.full(PROMPTS, np.nan), where=read > 0)
    index = pd.MultiIndex.from_product([names, [0]], names=PLACE)
    columns = {"cluster": names, "n_refusal": refusals, "n_judged": read, "n_blocked": 0, "rate_strict": rates}
    units = Units(pd.DataFrame(columns, index=index))
    people, said = {}, {}
    for row, column in zip(*(part.tolist() for part in np.nonzero(drawn)), strict=True):
        key = AnswerKey(names[row], 0, column)
        people[key] = PersonLabel(REFUSAL if truth[row, column] else COMPLIANCE, float(probability[row, column]))
        if not unread[row, column]:
            said[key] = REFUSAL if judge[row, column] else COMPLIANCE
    with_text = unread_answers(units, {(name, 0): SAMPLES for name in names}) if way != LEFT_OUT else {}
    found = join_labels([(units, LabelledCell(people, said, unread=with_text))], ["strict"])
    assert found is not None
    return found


def gold(case: Case, rng: np.random.Generator) -> pd.DataFrame:
    """Return gold of five other models on the same prompts, half of them refusals."""
    models = np.repeat(np.arange(GOLD_MODELS), GOLD_PROMPTS)
    people = drawn_answers(0.5, rng, GOLD_PROMPTS, GOLD_MODELS).T.ravel()
    judge = read_by(people, judge_of_a_model(case, rng, GOLD_MODELS)[models], rng)
    clusters = np.tile([f"{number:03d}" for number in range(GOLD_PROMPTS)], GOLD_MODELS)
    human, machine = (np.where(said, REFUSAL, COMPLIANCE) for said in (people, judge))
    answering = [f"model {number}" for number in models]
    columns = {"human": human, "machine": machine, "cluster": clusters, "answering_model": answering, "weight": 1.0}
    return pd.DataFrame(columns)


def resampled(rates: NDArray[np.float64], rng: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    """Return what `transfer.resampled_rates` would for one model and split of single prompts."""
    weights = rng.standard_exponential((resamples, len(rates)))
    extra = rng.gamma(0.5, size=(2, resamples))
    return np.asarray((weights @ rates + extra[0]) / (weights.sum(axis=1) + extra.sum(axis=0)))


def simulate_ppi(case: Case, runs: int) -> Outcome:
    """Draw studies with labels and correct their rates."""
    rng = np.random.default_rng(seed_of("ppi", *map(str, case)))
    return _outcome(case, runs, (_ppi_ends(case, rng) for _ in range(runs)))


def simulate_few(case: Case, factor: float, runs: int) -> Outcome:
    """Draw studies with few labels and correct their rates."""
    rng = np.random.default_rng(seed_of("few", *map(str, case), str(factor)))
    drawn = (drawn_answers(case.rate, rng, PROMPTS, SAMPLES) for _ in range(runs))
    studies = (labelled(truth, judge_of_a_model(case, rng)[0], case.labels, rng, factor) for truth in drawn)
    found = (corrected_rate(*made, LEVEL) for made in studies)
    return _outcome(case, runs, (None if one is None else (one.value, one.low, one.high) for one in found))


def simulate_equal(case: Case, samples: int, runs: int) -> Outcome:
    """Draw studies in which the K answers to a prompt are equal, and people read one of them for all."""
    rng = np.random.default_rng(seed_of("equal", *map(str, case), str(samples)))
    found = (corrected_rate(*study_of_equal(case, samples, rng), LEVEL) for _ in range(runs))
    return _outcome(case, runs, (None if one is None else (one.value, one.low, one.high) for one in found))


def study_of_equal(case: Case, samples: int, rng: np.random.Generator) -> tuple[JudgedAnswers, LabelledAnswers]:
    """Return a study with so many equal answers to each prompt, and about `case.labels` texts that people read."""
    truth = drawn_answers(case.rate, rng, PROMPTS, 1)
    answers, labels = labelled(truth, judge_of_a_model(case, rng)[0], case.labels, rng)
    people, judge, probability = (
        np.repeat(part, samples) for part in (labels.people, labels.judge, labels.probability)
    )
    rows, texts = (np.repeat(part, samples) for part in (labels.rows, np.arange(len(labels.rows))))
    of_all = dataclasses.replace(answers, counting=np.full(PROMPTS, float(samples)))
    return of_all, LabelledAnswers(rows, people, judge, probability, texts)


def simulate_unread(share: float, way: str, runs: int) -> Outcome:
    """Draw studies with unread answers and correct their rates."""
    case = Case(0.5, 0.85, 0.95, 200)
    rng = np.random.default_rng(seed_of("unread", str(share), way))
    found = (corrected_rate(*study_with_unread(case, share, way, rng), LEVEL) for _ in range(runs))
    return _outcome(case, runs, (None if one is None else (one.value, one.low, one.high) for one in found))


def simulate_pairs(rate: float, labels: int, judges: Any, runs: int) -> tuple[float, float]:
    """Draw two models with the same true rate of every prompt; return how often each test calls them different.

    Returns:
        the share of p < .05 of the paired corrected difference, and that of the uncorrected one (a paired t test).
    """
    rng = np.random.default_rng(seed_of("pairs", str(rate), str(labels), str(judges)))
    size = 1 / ALIKE - 1
    alarms: list[tuple[bool, bool]] = []
    while len(alarms) < runs:
        rates = rng.beta(rate * size, (1 - rate) * size, size=(PROMPTS, 1))
        truths = [rng.random((PROMPTS, SAMPLES)) < rates for _ in range(2)]
        one, other = (labelled(t, np.array(errors), labels, rng) for t, errors in zip(truths, judges, strict=True))
        found = corrected_difference(one, other, LEVEL)
        if found is None:  # of 40 labels that are drawn at random, fewer than 20 are drawn once in some thousand times
            continue
        gaps = one[0].rates - other[0].rates
        alarms.append((found.p < 1 - LEVEL, ttest_1samp(gaps, 0).pvalue < 1 - LEVEL))
    corrected, plain = np.mean(alarms, axis=0).tolist()
    return corrected, plain


def simulate_uneven(name: str, correlation: float, rate: float, labels: int, runs: int) -> tuple[float, float, float]:
    """Draw pairs of equal models with clusters of unequal size, K = 5, and labels of all answers alike.

    Returns:
        the coverage of the first one's rate, the share of p < .05 of the difference, and the share that is marked
        `few_clusters`.
    """
    rng, sizes = np.random.default_rng(seed_of("uneven", name, str(correlation), str(rate), str(labels))), DESIGNS[name]
    codes, zeros = codes_of(sizes), np.zeros(sum(sizes), dtype=np.intp)
    held, alarms, marked = [], [], []
    for drawn in chances(sizes, (rate, rate), correlation, runs, rng):
        pair = []
        for own in drawn:
            truth = rng.random((len(codes), SAMPLES)) < own[:, None]
            judge, probability = read_by(truth, np.array(UNEVEN_JUDGE), rng), min(1.0, labels / truth.size)
            rows, columns = np.nonzero(rng.random(truth.shape) < probability)
            whole = np.full(len(codes), float(SAMPLES))
            answers = JudgedAnswers(
                judge.mean(axis=1), whole, zeros.astype(float), codes, zeros, names=range(len(sizes))
            )
            people, said = (part[rows, columns].astype(float) for part in (truth, judge))
            pair.append((answers, LabelledAnswers(rows, people, said, np.full(len(rows), probability))))
        found, difference = corrected_rate(*pair[0], LEVEL), corrected_difference(pair[0], pair[1], LEVEL)
        assert found is not None and difference is not None
        held.append(found.low <= rate <= found.high)
        alarms.append(difference.p < 1 - LEVEL)
        marked.append(bool(few_labelled(*pair[0])))
    return float(np.mean(held)), float(np.mean(alarms)), float(np.mean(marked))


def simulate_transfer(case: Case, runs: int, resamples: int) -> Outcome:
    """Draw studies and gold of other models and correct the rates."""
    rng = np.random.default_rng(seed_of("transfer", *map(str, case)))
    return _outcome(case, runs, (_transfer_ends(case, rng, resamples) for _ in range(runs)))


def _outcome(case: Case, runs: int, ends: Iterator[tuple[float, float, float] | None]) -> Outcome:
    found = [made for made in ends if made is not None]
    inside = [low <= case.rate <= high for _, low, high in found]
    return Outcome(case, runs, [value for value, _, _ in found], inside, [high - low for _, low, high in found])


def _ppi_ends(case: Case, rng: np.random.Generator) -> tuple[float, float, float] | None:
    found = corrected_rate(*study(case, rng), LEVEL)
    return None if found is None else (found.value, found.low, found.high)


def _transfer_ends(case: Case, rng: np.random.Generator, resamples: int) -> tuple[float, float, float] | None:
    answers, _ = study(case, rng)
    errors = error_rates(gold(case, rng), "strict", int(rng.integers(2**62)), resamples)
    if errors is None:
        return None
    drawn = resampled(answers.rates, rng, resamples)
    ends = cluster_wilson(answers.rates.tolist(), range(PROMPTS), LEVEL, PROMPTS * SAMPLES)
    assert ends.low is not None and ends.high is not None
    observed = Observed(float(answers.rates.mean()), ends.low, ends.high, drawn, PROMPTS, PROMPTS)
    found = transfer_rate(observed, errors, LEVEL)
    if found.value is None or found.low is None or found.high is None:  # not identifiable, or at odds with gold
        return None
    return found.value, found.low, found.high


def ppi_table(outcomes: list[Outcome]) -> str:
    """Return the table of ppi in Markdown: a row per judge and number of labels, a column per rate."""
    head = ["Se", "Sp", "labels", *(f"rate {rate:g}" for rate in RATES)]
    rows = []
    for se, sp in JUDGES:
        for n in LABELS:
            own = {o.case.rate: o for o in outcomes if o.case[1:] == (se, sp, n)}
            rows.append([f"{se:g}", f"{sp:g}", str(n), *(_cell(own[rate]) for rate in RATES)])
    return _markdown(head, rows)


def transfer_table(outcomes: list[Outcome]) -> str:
    """Return the table of rg_transfer: a row per judge, a column per rate."""
    head = ["Se", "Sp", *(f"rate {rate:g}" for rate in RATES)]
    rows = []
    for se, sp in JUDGES:
        own = {o.case.rate: o for o in outcomes if o.case[1:3] == (se, sp)}
        rows.append([f"{se:g}", f"{sp:g}", *(_cell(own[rate], identified=True) for rate in RATES)])
    return _markdown(head, rows)


def _cell(outcome: Outcome, identified: bool = False) -> str:
    if not outcome.values:
        return "not given"
    cover, bias = 100 * np.mean(outcome.covered), 100 * (np.mean(outcome.values) - outcome.case.rate)
    text = f"{cover:.1f} ({bias:+.1f}; {100 * np.mean(outcome.widths):.0f})"
    share = len(outcome.values) / outcome.runs
    return f"{text}, given {100 * share:.0f} %" if identified and share < 0.995 else text


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def few_part(outcomes: dict[tuple[Case, float], Outcome], runs: int) -> str:
    """Return what the page says of few labels."""
    head = ["Se", "Sp", "labels", *(f"rate {rate:g}" for rate in FEW_RATES)]
    rows = []
    for se, sp in JUDGES:
        for n in FEW_LABELS:
            own = [[outcomes[Case(rate, se, sp, n), factor] for factor in (1.0, 3.0)] for rate in FEW_RATES]
            shown = ["{:.1f}, {:.1f}".format(*(100 * np.mean(o.covered) for o in pair)) for pair in own]
            rows.append([f"{se:g}", f"{sp:g}", str(n), *shown])
    return (
        f"{FEW}ppi, {runs:,} studies per cell: coverage with labels of all answers alike, and with disagreements of "
        f"two judges three times as likely:\n\n{_markdown(head, rows)}"
    )


def equal_part(outcomes: dict[tuple[Case, int], Outcome], runs: int) -> str:
    """Return what the page says of equal answers."""
    head = ["Se", "Sp", "texts", *(f"rate {rate:g}" for rate in FEW_RATES)]
    rows = []
    for se, sp in JUDGES:
        for n in EQUAL_TEXTS:
            own = [[outcomes[Case(rate, se, sp, n), samples] for samples in EQUAL_SAMPLES] for rate in FEW_RATES]
            shown = ["{:.1f}, {:.1f}".format(*(100 * np.mean(o.covered) for o in pair)) for pair in own]
            rows.append([f"{se:g}", f"{sp:g}", str(n), *shown])
    return (
        f"{EQUAL}ppi, {runs:,} studies per cell in which all K answers to a prompt are equal and were read once: "
        f"coverage with K = {EQUAL_SAMPLES[0]} and {EQUAL_SAMPLES[1]}, where at least 20 texts were drawn, "
        f"disagreements of two judges three times as likely:\n\n{_markdown(head, rows)}"
    )


def missed_few(outcomes: Mapping[Any, Outcome], runs: int) -> list[str]:
    """Return the cases of few labels or equal answers that are covered more seldom than required, beyond noise."""
    noise = 2 * (FEW_MUST_COVER * (1 - FEW_MUST_COVER) / max(1, runs)) ** 0.5
    covers = {case: float(np.mean(outcome.covered)) for case, outcome in outcomes.items()}
    return [f"{case}: {cover:.3f}" for case, cover in covers.items() if cover < FEW_MUST_COVER - noise]


def missed(outcomes: list[Outcome]) -> list[str]:
    """Return the cases of ppi that cover less or more often than required, for rates of at least .1."""
    found = []
    for outcome in outcomes:
        cover = float(np.mean(outcome.covered)) if outcome.covered else 0.0
        if outcome.case.rate >= 0.1 and not MUST_COVER[0] <= cover <= MUST_COVER[1]:
            found.append(f"{outcome.case}: {cover:.3f}")
    return found


def ppi_part(outcomes: list[Outcome], runs: int) -> str:
    """Return what the page says of ppi."""
    return (
        f"{PPI}{runs:,} studies per cell (one standard error of a coverage near 95 is "
        f"{100 * (0.95 * 0.05 / runs) ** 0.5:.1f}), labels by Poisson sampling with disagreements of two judges "
        f"three times as likely:\n\n{ppi_table(outcomes)}"
    )


def unread_part(outcomes: dict[tuple[float, str], Outcome], runs: int) -> str:
    """Return what the page says of answers that the judge cannot read."""
    ways = (ALIKE_DRAWN, OVERSAMPLED, LEFT_OUT)
    case = next(iter(outcomes.values())).case
    rows = [[f"{100 * s:g} %", *(_cell(outcomes[s, way]) for way in ways)] for s in UNREAD_SHARES]
    design = (
        f"{runs:,} studies per cell, rate {case.rate:g}, Se {case.sensitivity:g}, Sp {case.specificity:g}, "
        f"{case.labels} labels"
    )
    return (
        f"{UNREAD}ppi, {design}; unread is this share of all answers, all of them refusals. Labels of all "
        "answers alike; of unread ones four times as likely; and, to show what these are worth, unread answers left "
        "out with theirs:"
        f"\n\n{_markdown(['unread', *ways], rows)}"
    )


def missed_unread(outcomes: dict[tuple[float, str], Outcome]) -> list[str]:
    """Return the shares of unread answers at which ppi with their labels covers otherwise than required."""
    found = []
    for (share, way), outcome in outcomes.items():
        cover = float(np.mean(outcome.covered))
        if way != LEFT_OUT and not MUST_COVER[0] <= cover <= MUST_COVER[1]:
            found.append(f"{100 * share:g} % unread, {way}: {cover:.3f}")
    return found


def part_of(page: str, head: str) -> str:
    """Return a part of the page as it is, nothing where it has none."""
    if head not in page:
        return ""
    text = head + page.split(head)[1]
    for other in (FEW, EQUAL, UNREAD, PAIRS, SCARCE_PAIRS, UNEVEN, TRANSFER, END):
        if other != head:
            text = text.split(other)[0]
    return text.rstrip()


def pairs_part(found: dict[Any, tuple[float, float]], runs: int) -> str:
    """Return what the page says of differences."""
    head = ["rate", "labels of each", *(f"Se {a[0]:g} and {b[0]:g}, Sp {a[1]:g} and {b[1]:g}" for a, b in UNEQUAL)]
    rows = [
        [f"{rate:g}", str(n), *("{:.1f} ({:.0f})".format(*(100 * x for x in found[rate, n, j])) for j in UNEQUAL)]
        for rate in RATES
        for n in LABELS[:2]
    ]
    return (
        f"{PAIRS}{runs:,} pairs of models per cell with the same true rate on every prompt (one standard error of 5 is "
        f"{100 * (0.95 * 0.05 / runs) ** 0.5:.1f}): how often p < .05 calls them different, in percent, with the "
        "corrected difference (and with the uncorrected one), by the judge's errors on the one and the other:"
        f"\n\n{_markdown(head, rows)}"
    )


def scarce_part(found: dict[Any, tuple[float, float]], runs: int) -> str:
    """Return what the page says of differences with few labels."""
    head = ["rate", "labels of each", *(f"Se {a[0]:g} and {b[0]:g}, Sp {a[1]:g} and {b[1]:g}" for a, b in UNEQUAL)]
    rows = [
        [f"{rate:g}", str(n), *(f"{100 * found[rate, n, judges][0]:.1f}" for judges in UNEQUAL)]
        for rate in SCARCE_RATES
        for n in SCARCE_LABELS
    ]
    return (
        f"{SCARCE_PAIRS}{runs:,} pairs of models per cell as above: how often p < .05 of the corrected difference "
        f"calls equal models different, in percent:\n\n{_markdown(head, rows)}"
    )


def uneven_part(found: dict[Any, tuple[float, float, float]], runs: int) -> str:
    """Return what the page says of clusters of unequal size."""
    head = ["clusters", "G*", "correlation", "labels", *(f"rate {rate:g}" for rate in UNEVEN_RATES)]
    rows = []
    for name, rho, n in dict.fromkeys((name, rho, n) for name, rho, _, n in found):
        cells = [found[name, rho, rate, n] for rate in UNEVEN_RATES]
        texts = ["{:.1f}, {:.1f} [{:.0f}]".format(*(100 * share for share in cell)) for cell in cells]
        rows.append([name, f"{effective_number(DESIGNS[name]):.1f}", f"{rho:g}", str(n), *texts])
    se, sp = UNEVEN_JUDGE
    return (
        f"{UNEVEN}ppi, {runs:,} pairs of equal models per cell, Se {se:g}, Sp {sp:g}, labels of all answers alike: "
        "coverage of the rate, how often p < .05 of the corrected difference calls the models different, and in "
        f"brackets how many rates are marked `few_clusters`, all in percent:\n\n{_markdown(head, rows)}"
    )


def transfer_part(outcomes: list[Outcome], runs: int) -> str:
    """Return what the page says of rg_transfer."""
    return (
        f"{TRANSFER}{runs:,} studies per cell, gold of {GOLD_MODELS} other models x {GOLD_PROMPTS} "
        "prompts; over the studies whose rate is given (identifiable, and not at odds with gold):\n\n"
        f"{transfer_table(outcomes)}"
    )


def report(parts: list[str]) -> str:
    """Return what stands between the marks of the page."""
    design = (
        f"{PROMPTS} prompts, K = {SAMPLES}, correlation {ALIKE:g} of the answers to a prompt; Se and Sp are means over "
        f"models, each model's own vary around them (sd {SPREAD:g}). In a cell: coverage of the 95 % interval in "
        "percent (bias; mean width of the interval, both in percentage points)."
    )
    return "\n\n".join(
        [
            START,
            design,
            *parts,
            END,
        ]
    )


def main() -> int:
    """Simulate, print the tables, write them into the page; 1 if ppi misses."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=2000, help="studies per case of ppi; 0 leaves a part as it is")
    parser.add_argument("--few-runs", type=int, default=1000, help="the same with few labels")
    parser.add_argument("--equal-runs", type=int, default=2000, help="the same with equal answers that are read once")
    parser.add_argument(
        "--unread-runs", type=int, default=2000, help="the same with answers that the judge could not read"
    )
    parser.add_argument("--pairs-runs", type=int, default=1000, help="pairs of models per case of a difference")
    parser.add_argument("--scarce-runs", type=int, default=1000, help="the same with few labels")
    parser.add_argument("--uneven-runs", type=int, default=500, help="pairs of models with clusters of unequal size")
    parser.add_argument("--transfer-runs", type=int, default=800, help="studies per case of rg_transfer")
    parser.add_argument("--resamples", type=int, default=500, help="resamples of each rg_transfer interval")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--page", type=Path, default=PAGE, help="page with the marks; default: %(default)s")
    options = parser.parse_args()
    begin = time.monotonic()
    cases = [Case(rate, se, sp, n) for se, sp in JUDGES for n in LABELS for rate in RATES]
    plain = [case for case in cases if case.labels == LABELS[0]]
    with ProcessPoolExecutor(options.workers) as pool:
        ppi = list(pool.map(simulate_ppi, cases, [options.runs] * len(cases))) if options.runs else []
        few = [(Case(r, *judge, n), f) for judge in JUDGES for n in FEW_LABELS for r in FEW_RATES for f in (1.0, 3.0)]
        of_few = pool.map(simulate_few, *zip(*few, strict=True), [options.few_runs] * len(few))
        scarce = dict(zip(few, of_few, strict=True)) if options.few_runs else {}
        equal = [
            (Case(r, *judge, n), k) for judge in JUDGES for n in EQUAL_TEXTS for r in FEW_RATES for k in EQUAL_SAMPLES
        ]
        of_equal = pool.map(simulate_equal, *zip(*equal, strict=True), [options.equal_runs] * len(equal))
        alike = dict(zip(equal, of_equal, strict=True)) if options.equal_runs else {}
        ways = [(s, way) for s in UNREAD_SHARES for way in (ALIKE_DRAWN, OVERSAMPLED, LEFT_OUT)]
        numbers = [options.unread_runs] * len(ways)
        of_ways = pool.map(simulate_unread, *zip(*ways, strict=True), numbers) if options.unread_runs else ()
        unread = dict(zip(ways, of_ways, strict=True)) if options.unread_runs else {}
        pairs = [(rate, n, judges) for judges in UNEQUAL for n in LABELS[:2] for rate in RATES]
        numbers = [options.pairs_runs] * len(pairs)
        of_pairs = pool.map(simulate_pairs, *zip(*pairs, strict=True), numbers) if options.pairs_runs else ()
        alarms = dict(zip(pairs, of_pairs, strict=True)) if options.pairs_runs else {}
        scarcer = [(rate, n, judges) for judges in UNEQUAL for n in SCARCE_LABELS for rate in SCARCE_RATES]
        numbers = [options.scarce_runs] * len(scarcer)
        of_scarce = pool.map(simulate_pairs, *zip(*scarcer, strict=True), numbers) if options.scarce_runs else ()
        few_alarms = dict(zip(scarcer, of_scarce, strict=True)) if options.scarce_runs else {}
        uneven = [
            (name, rho, rate, n)
            for name, sizes in DESIGNS.items()
            if sum(sizes) > min(UNEVEN_LABELS)
            for rho in correlations(sizes)
            for n in UNEVEN_LABELS
            for rate in UNEVEN_RATES
        ]
        numbers = [options.uneven_runs] * len(uneven)
        of_uneven = pool.map(simulate_uneven, *zip(*uneven, strict=True), numbers) if options.uneven_runs else ()
        by_design = dict(zip(uneven, of_uneven, strict=True)) if options.uneven_runs else {}
        counts: list[Any] = [[number] * len(plain) for number in (options.transfer_runs, options.resamples)]
        transfer = list(pool.map(simulate_transfer, plain, *counts)) if options.transfer_runs else []
    page = options.page.read_text(encoding="utf-8")
    text = report(
        [
            ppi_part(ppi, options.runs) if ppi else part_of(page, PPI),
            few_part(scarce, options.few_runs) if scarce else part_of(page, FEW),
            equal_part(alike, options.equal_runs) if alike else part_of(page, EQUAL),
            unread_part(unread, options.unread_runs) if unread else part_of(page, UNREAD),
            pairs_part(alarms, options.pairs_runs) if alarms else part_of(page, PAIRS),
            scarce_part(few_alarms, options.scarce_runs) if few_alarms else part_of(page, SCARCE_PAIRS),
            uneven_part(by_design, options.uneven_runs) if by_design else part_of(page, UNEVEN),
            transfer_part(transfer, options.transfer_runs) if transfer else part_of(page, TRANSFER),
        ]
    )
    print(text)
    before, after = page.split(START)[0], page.split(END)[1]
    write_text(options.page, before + text + after)
    wrong = [*missed(ppi), *missed_few(scarce, options.few_runs)]
    wrong += [*missed_few(alike, options.equal_runs), *missed_unread(unread)]
    chance = 2 * (0.05 * 0.95 / max(1, options.pairs_runs)) ** 0.5
    alarms |= few_alarms
    wrong += [f"{case}: {own:.3f}" for case, (own, _) in alarms.items() if own > MOST_FALSE_ALARMS + chance]
    noise = 2 * (0.05 * 0.95 / max(1, options.uneven_runs)) ** 0.5
    for case, (held, own, marked) in by_design.items():
        if marked < 0.5 and (held < FEW_MUST_COVER - noise or own > MOST_FALSE_ALARMS + noise):
            wrong.append(f"{case}: {held:.3f}, {own:.3f}")
    print(f"\n{time.monotonic() - begin:.0f} s; ppi outside {MUST_COVER}: {', '.join(wrong) or 'nowhere'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
