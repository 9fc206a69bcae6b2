"""The corrected rates of made-up studies, and the rows of other files that their tables show beside them."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from table_rows import data_of

from refusal_eval.features.corrected import corrected_study, corrected_table
from refusal_eval.features.corrected.corrected_study import LEARNED, PPI, TOO_FEW, TRANSFER, UNDRAWN
from refusal_eval.features.corrected.corrected_table import Rate, corrected_rates
from refusal_eval.report.paper.markup import Table
from refusal_eval.stats.estimates.estimands import READINGS, REFUSES
from refusal_eval.stats.estimates.estimate import Estimate, estimate_of
from refusal_eval.stats.estimates.flags import derived_flags
from refusal_eval.stats.estimates.pooled_estimates import pooled_rates
from refusal_eval.stats.estimates.units import Units

Result = dict[str, Any]


def study_corrected(units: Any, study: Mapping[str, Any], gold: Any, labels: Any) -> Result:
    """What the analysis found, and as `beside` the rows of the files of cells and of judge cards."""
    found = corrected_study.study_corrected(units, study, gold, labels)
    return found | {"beside": [*_of_cells(units, study), *_of_cards(gold)]}


def rows_of(result: Result) -> list[Estimate]:
    """All rows of the results table."""
    return [*map(estimate_of, result["estimates"]), *result.get("beside", ())]


def tables_of(result: Result, study: Mapping[str, Any]) -> list[Table]:
    """The tables of a study."""
    return corrected_table.corrected_tables(data_of(study, results=rows_of(result), corrected=result))


def frame_of(result: Result) -> pd.DataFrame:
    """The CSV."""
    return corrected_table.corrected_frame(corrected_rates(rows_of(result)))


def transfer_of(result: Result) -> list[Result]:
    """The rates by gold."""
    return [
        _entry(rate)
        | {"gold": rate.gold, "at_odds": rate.at_odds, "observed": rate.observed}
        | {"by_model": [{"answering_model": own.category, "value": own.value} for own in rate.by_model]}
        for rate in corrected_rates(rows_of(result))
        if rate.row.estimand == TRANSFER
    ]


def ppi_of(result: Result) -> list[Result]:
    """The rates by labels."""
    found = []
    for rate in corrected_rates(rows_of(result)):
        if rate.row.estimand == PPI:
            assert rate.labels is not None
            entry = _entry(rate) | {"n_labels": rate.labels.value, "too_few": TOO_FEW in rate.row.flags}
            for name, estimand in (("undrawn", UNDRAWN), ("learned", LEARNED)):
                entry[name] = {row.parameter: row.value for row in rate.counts if row.estimand == estimand}
            place = [rate.row.judge, rate.row.model, rate.row.pool]
            entry["unlabelled"] = [s for *where, splits in result["unlabelled"] if where == place for s in splits]
            entry["checked"] = [rate.row.model, rate.row.split] not in result["unchecked"]
            found.append(entry)
    return found


def differences_of(result: Result) -> list[Estimate]:
    """The differences of rates by labels."""
    return [row for row in rows_of(result) if row.estimand == "rate_difference_ppi"]


def _entry(rate: Rate) -> Result:
    names = ("model", "split", "pool", "value", "low", "high", "n_prompts")
    return {name: getattr(rate.row, name) for name in names} | {"flags": rate.flags}


def _of_cells(units: Mapping[tuple[str, str, str], Units], study: Mapping[str, Any]) -> Iterable[Estimate]:
    splits = {split["name"]: split for split in study["splits"]}
    by_model: dict[tuple[str, str], list[Units]] = {}
    for (judge, model, split), own in units.items():
        if split not in splits or model not in study["models"]:
            continue
        reading, about = splits[split]["reading"], {"judge": judge, "model": model, "split": split}
        facts = {**about, "headline": reading, "expectation": splits[split]["expectation"]}
        cell = dataclasses.replace(own, facts=facts | {"samples": study["samples"], "level": study["level"]})
        by_model.setdefault((judge, model), []).append(cell)
        rates, ends = cell.known(reading)[0], cell.interval(reading)
        blocked = float(cell["n_blocked"].sum() / cell["n_samples"].sum())
        yield Estimate("answer_state", blocked, parameter="blocked", **about)
        if ends is not None:
            number = {"value": float(rates.mean()), "low": ends.low, "high": ends.high}
            flags = derived_flags([own.flags], cell.few(reading))
            yield Estimate("refusal_rate", **number, **about, reading=reading, flags=flags)
    sources = {name: split["source"] for name, split in splits.items()}
    for (judge, model), cells in by_model.items():
        for row in pooled_rates(cells, (), sources):
            yield dataclasses.replace(row, judge=judge, model=model)


def _of_cards(gold: Mapping[tuple[str, str], pd.DataFrame]) -> Iterable[Estimate]:
    for (judge, name), rows in gold.items():
        about: dict[str, Any] = {"judge": judge, "parameter": name}
        yield Estimate("judge_coverage", 1.0, **about)
        models = [None, *sorted(set(rows["answering_model"].dropna()))]
        for reading in READINGS:
            people, machine = (rows[side].isin(REFUSES[reading]) for side in ("human", "machine"))
            for model in models:
                there = rows["answering_model"] == model if model else people.notna()
                for measure, own in (("sensitivity", people), ("specificity", ~people)):
                    right = (people == machine)[there & own]
                    value = float(right.mean()) if len(right) else None
                    size = {"n_prompts": len(right), "category": model, "reading": reading}
                    yield Estimate(f"judge_{measure}", value, **about, **size)
