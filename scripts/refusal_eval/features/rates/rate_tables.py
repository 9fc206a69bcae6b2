"""The tables of refusal rates, votes, states and answers, made of the scores of cells.

Rows of a CSV are sorted by name, so that it does not depend on the order in which a study lists its models and splits;
tables follow that order, and names that it lacks come after it, sorted. In a CSV rates, bounds and shares are between 0
and 1, c between -1 and 1; what is unknown is None.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.config.report_sections import METHODS, RATES
from refusal_eval.core.states import ANSWER_STATES, BLOCKED, EMPTY, TRUNCATED, TRUNCATED_REASONING, VERDICT_STATES
from refusal_eval.report.paper.best_values import best, best_notes, comparison_p, noninferiority_p, signs
from refusal_eval.report.paper.display import (
    MARKS,
    NO_DATA,
    Card,
    Labels,
    Score,
    add_marks,
    by_cell,
    clean,
    flags_in,
    headline,
    interval,
    marks_of,
    notes_of,
    order_names,
    percent,
    wrap_text,
)
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import OF_PRIMARY, OF_STUDY, StudyTable
from refusal_eval.report.paper.table_notes import (
    NOT_MEASURED,
    agreement_details,
    is_peoples,
    level_text,
    of_all,
    rate_text,
    share_text,
    value_text,
)
from refusal_eval.report.results.cells import has_turns, of_alone, state_shares
from refusal_eval.stats.estimates.estimands import MISSING, READINGS
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.flags import CELL_FLAGS, DOUBTFUL, FEW_CLUSTERS, MIXED_SERVING
from refusal_eval.stats.estimates.model_alone import as_user_meets_it, of_model_alone

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

EXPECTATIONS = ("refuse", "varies", "comply")  # in the order of the columns
HEADER_WIDTH = 18  # characters; a longer column label is broken
_ENDS = ("rate", "low", "high")
_ALONE = (*_ENDS, "n_eff", "bound_low", "bound_high")
_BANDS = ("refusing", "mixed", "complying")
_CUT = (TRUNCATED, TRUNCATED_REASONING)
_RATES = ("Refusal rate", "Strict", "Broad", "c(x) > 0", "Model alone")  # columns of the table of all cells
MOST_REASONS = 5  # of failures, that a note names
# A rate with one of these marks is no best one, and no rival.
NEVER_BOLD = DOUBTFUL | {FEW_CLUSTERS}


def refusal(data: TableData) -> TableParts:
    """Return the headline rates of the primary judge: a row per model, a column per split, the best one bold.

    Splits with the same expectation are side by side. Comparisons of two models, if the study has them, decide which
    other rates have a sign. The rates of the model alone, if the study has them, are a table of their own.
    """
    tables = [_refusal_table(data, data.scores, as_user_meets_it(data.results))]
    if alone := of_alone(data.scores):
        tables.append(_refusal_table(data, alone, of_model_alone(data.results), alone=True))
    return rates_frame(data.scores, data.cards), tables


def _refusal_table(data: TableData, used: Sequence[Score], results: Sequence[Estimate], alone: bool = False) -> Table:
    show = data.labels
    cells = {(m, s): score for (_, m, s), score in by_cell(used).items()}
    rows_of, splits = (
        order_names({cell[i] for cell in cells}, data.order(n)) for i, n in enumerate(("models", "splits"))
    )
    expected = {score["split"]: score["expectation"] for score in used}
    columns_of = sorted(splits, key=lambda split: EXPECTATIONS.index(expected[split]))
    header = ["Model"]
    for split in columns_of:
        first = next(score for score in used if score["split"] == split)
        lines = [*wrap_text(show.split(split), HEADER_WIDTH), f"({first['expectation']}, {first['headline']})"]
        header.append("\n".join(lines))
    found = _BestRates(data, cells, columns_of, results)
    rows = [
        [show.model(m), *(cell_rate_text(cells.get((m, s))) + found.signs[s].get(m, "") for s in columns_of)]
        for m in rows_of
    ]
    bold = {(rows_of.index(model), j) for j, s in enumerate(columns_of, 1) for model in found.firsts[s]}
    about = {(i, j): of_cell(m, s) for i, m in enumerate(rows_of) for j, s in enumerate(columns_of, 1)}
    doubtful = bool(bold) and any(NEVER_BOLD.intersection(score["flags"]) for score in used)
    notes = filled_notes(
        "refusal/refusal",
        show,
        scores=used,
        splits=columns_of,
        cards=data.cards,
        lacking=len(cells) < len(rows_of) * len(columns_of),
        best=found.notes() if bold else [],
        doubtful=[MARKS[flag][0] for flag in CELL_FLAGS if flag in NEVER_BOLD & flags_in(used)] if doubtful else [],
        model_alone=alone,
    )
    rate = "Refusal rate of the model alone" if alone else "Refusal rate"
    caption = f"{rate} in percent with its {level_text(used)} interval, by model and split."
    groups, name = [expected[split] for split in columns_of], "refusal" + "-model-alone" * alone
    return Table(name, caption, header, rows, notes, per_block=4, bold=frozenset(bold), groups=groups, about=about)


class _BestRates:
    """The best rate of each split, and the signs of the others."""

    def __init__(
        self,
        data: TableData,
        cells: Mapping[tuple[str, str], Score],
        splits: Sequence[str],
        results: Sequence[Estimate],
    ) -> None:
        judge, self.margin = data.asked["primary_judge"], data.asked.get("margin")
        tested, no_worse = comparison_p(results, judge), noninferiority_p(results, judge)
        self.level: float = next(iter(cells.values()))["interval"]["level"] if cells else 0.95
        self.firsts: dict[str, list[str]] = {}
        self.signs: dict[str, dict[str, str]] = {}
        self.tested = bool(tested)
        for split in splits:
            # A rate in doubt is no best one, and no rival.
            own = {m: cell for (m, s), cell in cells.items() if s == split and not NEVER_BOLD & {*cell["flags"]}}
            rates = {model: headline(cell)["rate"] for model, cell in own.items()}
            expectation = next(cell["expectation"] for (_, s), cell in cells.items() if s == split)
            self.firsts[split] = best(rates, expectation)
            margin_tests = None if self.margin is None else no_worse.get(split, {})
            known = [model for model, rate in rates.items() if rate is not None]
            self.signs[split] = signs(known, self.firsts[split], tested.get(split, {}), self.level, margin_tests)

    def notes(self) -> list[str]:
        """Return what bold and the signs mean."""
        used = {sign for own in self.signs.values() for sign in own.values()}
        return best_notes(used, self.tested, self.margin, self.level)


def scores(data: TableData) -> TableParts:
    """Return a row per judge, model and split: headline rate, both readings, worst-case bounds, shares of states."""
    cells, keys = _cells_and_keys(data)
    header = [*keys, "Expected", "Prompts", "K", "Refusal rate", "Strict", "Broad", "c(x) > 0"]
    with_alone = any("alone" in score for score in cells)
    header += ["Model alone"] * with_alone + ["Worst-case\nbounds", "Unjudged", "Blocked", "Truncated"]
    rows = []
    for score in cells:
        shares, part = state_shares(score), headline(score)
        alone = [cell_rate_text(own) for own in of_alone([score])] or [NO_DATA]
        rows.append(
            [
                *_names(score, data.labels, keys),
                score["expectation"],
                _prompts_text(score),
                str(score["samples"]),
                cell_rate_text(score),
                *(add_marks(percent(score[reading]["rate"]), score[reading]["flags"]) for reading in READINGS),
                _positive_text(score["c"]["positive"]),
                *(alone if with_alone else ()),
                interval(part["bound_low"], part["bound_high"]),
                *(percent(shares[state]) for state in ("unjudged", "blocked", "truncated")),
            ]
        )
    shown = [{**score, "flags": [f for reading in READINGS for f in score[reading]["flags"]]} for score in cells]
    notes = filled_notes("scores/scores", data.labels, scores=shown, cards=data.cards, model_alone=with_alone)
    align = "l" * (len(keys) + 1) + "r" * (len(header) - len(keys) - 1)
    rates = frozenset(header.index(name) for name in _RATES if name in header)
    about = {(i, j): _about(score) for i, score in enumerate(cells) for j in rates}
    about |= _about_states(cells, header, {"Blocked": BLOCKED, "Truncated": TRUNCATED})
    caption = "Refusal rates of all cells."
    table = Table(
        "scores", caption, header, rows, notes, len(keys), per_block=6, align=align, marked=rates, about=about
    )
    return rates_frame(cells, data.cards, with_c=True), [table]


def of_cell(model: str, split: str, **further: str) -> dict[str, str]:
    """Return what a table says its cell is about (`Table.about`)."""
    return {"split": split, "model": model, **further}


def _about(score: Score, **further: str) -> dict[str, str]:
    return of_cell(score["model"], score["split"], judge=score["judge"], **further)


def _about_states(
    cells: Sequence[Score], header: Sequence[str], columns: Mapping[str, str]
) -> dict[tuple[int, int], dict[str, str]]:
    """Return what the cells of these columns, each with the share of one state of answers, are about, but for zeros."""
    places = {header.index(name): state for name, state in columns.items()}
    return {
        (i, j): _about(score, state=state)
        for i, score in enumerate(cells)
        for j, state in places.items()
        if state_shares(score)[state]
    }


def _positive_text(share: Mapping[str, Any] | None) -> str:
    """Return the share of prompts with c(x) > 0, with its interval and its marks."""
    if share is None or share["value"] is None:
        return NO_DATA
    return add_marks(share_text(share["value"], (share["low"], share["high"])), share["flags"])


def rates_frame(scores: Iterable[Score], cards: Iterable[Card] = (), with_c: bool = False) -> pd.DataFrame:
    """Return a row per judge, model and split: n, headline rate, both readings with bounds, shares of states, flags.

    With `with_c` also the share of prompts with c(x) > 0. `scored` says which turns count; rates are over scored
    turns.
    """
    peoples = [card for card in cards if is_peoples(card)]

    def rows(score: Score) -> Iterable[dict[str, Any]]:
        shares = state_shares(score)
        row = {key: score[key] for key in ("expectation", "headline", "scored", "samples", "max_tokens")}
        row |= {key: score[key] for key in ("n_prompts", "n_scored_prompts", "n_turns", "n_scored_turns")}
        row |= {key: score[key] for key in ("n_clusters", "n_answers")}
        row |= {key: headline(score)[key] for key in _ENDS}
        for reading in READINGS:
            row |= {f"{reading}_{key}": score[reading][key] for key in (*_ENDS, "n_eff", "bound_low", "bound_high")}
        if with_c:
            positive = score["c"]["positive"] or {}
            row |= {f"c_positive{end}": positive.get(end.strip("_") or "value") for end in ("", "_low", "_high")}
        row |= {state: shares[state] for state in ("unjudged", BLOCKED, TRUNCATED)}
        row["flags"] = [flag for flag in score["flags"] if flag != MIXED_SERVING]
        row["mixed_serving"] = score["mixed_serving"]
        row |= {"interval_level": score["interval"]["level"], "interval_method": score["interval"]["method"]}
        for own in of_alone([score]):
            ends = {reading: own[reading] for reading in READINGS}
            row |= {f"model_alone_{reading}_{key}": ends[reading][key] for reading in READINGS for key in _ALONE}
            row |= {"model_alone_n_scored_turns": own["n_scored_turns"], "model_alone_flags": own["flags"]}
        row["agreement_with_people"] = "; ".join(agreement_details(score["judge"], peoples)) or NOT_MEASURED
        yield row

    return _frame(scores, rows)


def states(data: TableData) -> TableParts:
    """Return a row per model and split: the share of each state of answers and then of each judge's verdicts.

    In the CSV `n_cut` are answers that are too long for the judge, which saw their head and tail.
    """
    cells, _ = _cells_and_keys(data)
    verdicts, judges = (*VERDICT_STATES, MISSING), list(dict.fromkeys(score["judge"] for score in cells))
    header = ["Model", "Split", "Answers", *(state.replace("_", "\n").capitalize() for state in ANSWER_STATES)]
    for judge in judges:
        name = "Verdict:" if len(judges) == 1 else "\n".join(wrap_text(f"{data.labels.judge(judge)}:", HEADER_WIDTH))
        header += [f"{name}\n{state.replace('_', ' ')}" for state in verdicts]
    by_place: dict[tuple[str, str], dict[str, Score]] = {}
    for score in cells:
        by_place.setdefault((score["model"], score["split"]), {})[score["judge"]] = score
    rows = []
    for (model, split), of in by_place.items():
        first = _first(of)
        texts = [percent(state_shares(first)[state]) for state in ANSWER_STATES]
        for judge in judges:
            shares = state_shares(of[judge]) if judge in of else None
            texts += [NO_DATA if shares is None else percent(shares.get(f"verdict_{state}", 0.0)) for state in verdicts]
        rows.append([data.labels.model(model), data.labels.split(split), str(first["n_answers"]), *texts])
    cut: dict[str, tuple[int, int]] = {}
    for score in cells:
        before, read = cut.get(score["judge"], (0, 0))
        cut[score["judge"]] = before + score["n_cut"], read + sum(score["verdict_states"].values())
    alone = judges[0] if len(judges) == 1 else None
    reasons = sum((Counter(of["reasons"]) for of in map(_first, by_place.values()) if "reasons" in of), Counter[str]())
    said = [(clean(why), n) for why, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))]
    more = {"reasons": said[:MOST_REASONS], "further": sum(n for _, n in said[MOST_REASONS:])}
    notes = filled_notes("states/states", data.labels, scores=cells, alone=alone, cut=cut, **more)
    frame = _frame(
        cells, lambda score: [{"n_answers": score["n_answers"]} | state_shares(score) | {"n_cut": score["n_cut"]}]
    )
    columns = {state.replace("_", "\n").capitalize(): state for state in ANSWER_STATES}
    about = _about_states([_first(of) for of in by_place.values()], header, columns)
    return frame, [Table("states", "States of answers and verdicts.", header, rows, notes, 2, per_block=8, about=about)]


def votes(data: TableData) -> TableParts:
    """Return a row per judge, model and split: majority@K and any@K in the headline reading, c@K; columns for each K.

    The CSV has a row for each measure, with K in its name: none may be compared between different K. They are over
    scored turns.
    """
    cells, keys = _cells_and_keys(data)
    sizes = sorted({score["samples"] for score in cells})
    header = [*keys]
    for k in sizes:
        header += [f"majority@{k}\nrefuses", f"majority@{k}\nties", f"any@{k}\nrefuses"]
        header += [f"c@{k}\nmean", *(f"c@{k}\n{band}" for band in _BANDS)]
    rows = []
    for score in cells:
        part, c = headline(score), score["c"]
        counted = [part["majority"]["refuse"], part["majority"]["tie"], part["any"]]
        mean = value_text(c["mean"], (c["low"], c["high"]))
        here = [*map(percent, counted), mean, *(percent(c[band]) for band in _BANDS)]
        columns = [text for k in sizes for text in (here if k == score["samples"] else [NO_DATA] * 7)]
        *names, split = _names(score, data.labels, keys)
        rows.append([*names, split + marks_of([score]), *columns])
    notes = filled_notes("votes/votes", data.labels, scores=cells, cards=data.cards)
    caption, at_split = "Majority, any and weighted votes.", frozenset({len(keys) - 1})
    numbers = range(len(keys), len(header))
    about = {(i, j): _about(score) for i, score in enumerate(cells) for j in numbers}
    table = Table("votes", caption, header, rows, notes, len(keys), per_block=7, marked=at_split, about=about)
    return _frame(cells, _votes), [table]


def _votes(score: Score) -> Iterable[dict[str, Any]]:
    k, c = score["samples"], score["c"]
    voting = {"n_prompts": score["n_scored_prompts"], "n_turns": score["n_scored_turns"]}
    with_c = {"n_prompts": c["n_prompts"], "n_turns": c["n"]}
    unknown = {"low": None, "high": None}
    for reading in READINGS:
        counted = score[reading]["majority"]
        for vote in ("refuse", "tie"):
            yield {"measure": f"majority@{k} {vote} {reading}", "value": counted[vote], **unknown, **voting}
        yield {"measure": f"any@{k} {reading}", "value": score[reading]["any"], **unknown, **voting}
    yield {"measure": f"c@{k} mean", "value": c["mean"], "low": c["low"], "high": c["high"], **with_c}
    for band in _BANDS:
        yield {"measure": f"c@{k} {band}", "value": c[band], **unknown, **with_c}


def answers(data: TableData) -> TableParts:
    """Return a row per split and model: refusal rate, log-probability, length, what went wrong, right answers.

    Models of one split are adjacent, so that a steered model is next to its plain one and its control.
    """
    cells = {(score["split"], score["model"]): score for score in by_cell(data.scores).values()}
    splits, models = (
        order_names({cell[i] for cell in cells}, data.order(n)) for i, n in enumerate(("splits", "models"))
    )
    found = [cells[split, model] for split in splits for model in models if (split, model) in cells]
    with_right = any(score["answers"]["right"] for score in found)
    header = ["Split", "Model", "Refusal rate", "Log-probability", "Tokens", "Cut", "Empty", "Loops"]
    rows, further = [], set[str]()  # marks that no refusal rate has
    for score in found:
        shares, of = state_shares(score), score["answers"]
        row = [data.labels.split(score["split"]), data.labels.model(score["model"]), cell_rate_text(score)]
        own = {name: number["flags"] if number else () for name, number in of.items()}
        more = [(_mean(of["logprob"], 2), own["logprob"]), (_mean(of["tokens"], 0), own["tokens"])]
        more += [(percent(sum(shares[state] for state in _CUT)), score["state_flags"])]
        more += [(percent(shares[EMPTY]), score["state_flags"]), (rate_text(of["loops"]), own["loops"])]
        more += [(rate_text(of["right"]), own["right"])] if with_right else []
        rows.append([*row, *(add_marks(text, flags) for text, flags in more)])
        further |= {flag for text, flags in more if text != NO_DATA for flag in flags} - flags_in(found)
    marks = notes_of(further)
    notes = filled_notes(
        "answers/answers", data.labels, scores=found, cards=data.cards, with_right=with_right, marks=marks
    )
    header += ["Right"] if with_right else []
    align = "ll" + "r" * (len(header) - 2)
    about = {(i, header.index("Refusal rate")): _about(score) for i, score in enumerate(found)}
    table = Table(
        "answers", "Properties of the answers.", header, rows, notes, 2, per_block=7, align=align, about=about
    )
    return pd.DataFrame(list(_answers(found)), dtype=object), [table]


def _answers(scores: Iterable[Score]) -> Iterable[dict[str, Any]]:
    for score in scores:
        row = {name: score[name] for name in ("judge", "split", "model", "samples", "n_prompts", "n_clusters")}
        for name, number in score["answers"].items():
            ends = number or {"value": None, "low": None, "high": None}
            row |= {name: ends["value"], f"{name}_low": ends["low"], f"{name}_high": ends["high"]}
        shares = state_shares(score)
        yield row | {state: shares[state] for state in (*_CUT, EMPTY)} | {"flags": score["flags"]}


def _mean(number: Mapping[str, Any] | None, digits: int) -> str:
    return NO_DATA if number is None else value_text(number["value"], (number["low"], number["high"]), digits)


def _first(by_judge: Mapping[str, Score]) -> Score:
    return next(iter(by_judge.values()))


# ---------------------------------------------------------------- rows and their names


def _frame(scores: Iterable[Score], rows: Callable[[Score], Iterable[Mapping[str, Any]]]) -> pd.DataFrame:
    """The rows of each cell behind its names; columns of objects keep None and whole numbers as they are."""
    cells = by_cell(scores).items()
    found = [{"judge": j, "model": m, "split": s, **row} for (j, m, s), score in cells for row in rows(score)]
    return pd.DataFrame(found, dtype=object)


def _cells_and_keys(data: TableData) -> tuple[list[Score], list[str]]:
    """Return the scores by judge, model and split, and the row headers; a single judge is named in the notes."""
    cells = by_cell(data.scores)
    orders = [
        order_names((cell[i] for cell in cells), data.order(n)) for i, n in enumerate(("judges", "models", "splits"))
    ]
    places = [{name: place for place, name in enumerate(order)} for order in orders]
    found = [cells[cell] for cell in sorted(cells, key=lambda cell: [places[i][cell[i]] for i in range(3)])]
    return found, [*(["Judge"] if len(orders[0]) > 1 else []), "Model", "Split"]


def _names(score: Score, show: Labels, keys: Sequence[str]) -> list[str]:
    names = [show.judge(score["judge"]), show.model(score["model"]), show.split(score["split"])]
    return names[-len(keys) :]


def cell_rate_text(score: Score | None) -> str:
    """Return a cell's headline rate with its interval and marks."""
    if score is None:
        return NO_DATA
    part = headline(score)
    return share_text(part["rate"], (part["low"], part["high"])) + marks_of([score])


def _prompts_text(score: Score) -> str:
    """Prompts of a cell with an answer that counts, and the same of its turns where a prompt has several."""
    prompts = of_all(score["n_scored_prompts"], score["n_prompts"])
    return f"{prompts}; {of_all(score['n_scored_turns'], score['n_turns'])} turns" if has_turns([score]) else prompts


class RefusalTable(StudyTable):
    """Refusal rates under the primary judge."""

    name = "refusal"
    needs = ("estimates", "cards", "results")
    shows = (*OF_PRIMARY, "margin")
    report = (RATES, "Rates by model and split")
    make = staticmethod(refusal)


class ScoresTable(StudyTable):
    """Refusal rates under all judges."""

    name = "scores"
    needs = ("estimates", "cards")
    shows = OF_STUDY
    report = (RATES, "Rates under every judge")
    make = staticmethod(scores)


class StatesTable(StudyTable):
    """States of answers and verdicts."""

    name = "states"
    needs = ("estimates",)
    shows = ("models", "splits", "judges")
    report = (METHODS, "States of answers, verdicts")
    make = staticmethod(states)


class VotesTable(StudyTable):
    """Votes over K samples, and c(x)."""

    name = "votes"
    needs = ("estimates", "cards")
    shows = OF_STUDY
    report = (RATES, "Votes over K samples, c(x)")
    make = staticmethod(votes)


class AnswersTable(StudyTable):
    """Properties of the answers, for studies that steer or match them."""

    name = "answers"
    needs = ("estimates", "cards")
    shows = OF_PRIMARY
    report = ("Steering", "Answers, and what steering costs")
    make = staticmethod(answers)

    @classmethod
    def wanted(cls, study: "Study") -> bool:
        return any(change.may_spoil for change in study.changes) or any(split.match for split in study.splits.values())
