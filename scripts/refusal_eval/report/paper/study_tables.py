"""The tables of a study as text for Markdown and LaTeX, made from its scores and judge cards.

Rows and columns follow the order that is passed in; names that it lacks come after it, sorted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refusal_eval.core.states import ANSWER_STATES, VERDICT_STATES
from refusal_eval.report.paper.best_values import Pair, Rate, best, ties_note
from refusal_eval.report.paper.display import (
    MARKS,
    MINUS,
    NO_DATA,
    Labels,
    Score,
    by_cell,
    headline,
    headlines,
    interval,
    marks,
    number,
    ordered,
    percent,
    wrapped,
)
from refusal_eval.report.paper.frames import Card, share_interval, sorted_cards
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.table_notes import (
    READINGS_NOTE,
    cards_intervals_text,
    common_notes,
    dialogues_notes,
    gold_notes,
    judged_notes,
    labels_notes,
    level_text,
    prompts_note,
    unshown_kappa,
)
from refusal_eval.stats.estimates.estimands import MISSING, READINGS
from refusal_eval.stats.estimates.scores import CELL_FLAGS, DOUBTFUL, has_turns, state_shares

_HEADER_WIDTH = 18  # characters; a longer column label is broken


def paper_table(
    scores: Iterable[Score],
    cards: Iterable[Card],
    judge: str,
    labels: Labels | None = None,
    models: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    p_values: Mapping[str, Mapping[Pair, float]] | None = None,
) -> Table:
    """One judge's headline rates in percent with intervals: a row per model, a column per split, the best ones bold.

    `p_values` are the adjusted p-values of comparisons of two models, by split; they decide ties with the best rate.

    Raises:
        ValueError: if the judge has no score, or two for one cell.
    """
    show = labels or Labels()
    cells = {(m, s): score for (j, m, s), score in by_cell(scores).items() if j == judge}
    if not cells:
        raise ValueError(f"judge {judge} has no scores")
    rows_of, columns_of = ordered((m for m, _ in cells), models), ordered((s for _, s in cells), splits)
    header = ["Model"]
    for split in columns_of:
        first = next(score for (_, s), score in cells.items() if s == split)
        lines = [*wrapped(show.split(split), _HEADER_WIDTH), f"({first['expectation']}, {first['headline']})"]
        header.append("\n".join(lines))
    rows = [[show.model(m), *(_rate_text(cells.get((m, s))) for s in columns_of)] for m in rows_of]
    used = list(cells.values())
    best_of = [_best(cells, split, (p_values or {}).get(split, {})) for split in columns_of]
    bold = {(i, j) for j, names in enumerate(best_of, 1) for i, model in enumerate(rows_of) if model in names}
    notes = [
        "Below each split: what is expected of a model, and the reading of the rate.",
        prompts_note(used, columns_of, show),
    ]
    if len(cells) < len(rows_of) * len(columns_of):
        notes.append(f"{NO_DATA} no score.")
    if bold:
        notes.append(ties_note(bool(p_values)))
    if any(DOUBTFUL.intersection(score["flags"]) for score in used):
        notes.append(
            f"Rates with {' or '.join(MARKS[flag][0] for flag in CELL_FLAGS if flag in DOUBTFUL)} are never bold."
        )
    return Table(
        name=f"refusal-{judge}",
        caption=f"Refusal rate in percent with its {level_text(used)} interval, by model and split.",
        header=header,
        rows=rows,
        align="l" + "r" * len(columns_of),
        notes=[*notes, *common_notes(used, cards, show)],
        per_block=4,
        bold=frozenset(bold),
    )


def main_table(
    scores: Iterable[Score],
    cards: Iterable[Card],
    labels: Labels | None = None,
    models: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    judges: Sequence[str] | None = None,
) -> Table:
    """One row per judge, model and split: headline rate, both readings, worst-case bounds and shares of states."""
    show = labels or Labels()
    cells = _in_order(scores, models, splits, judges)
    keys = _keys(cells)
    header = [*keys, "Expected", "Prompts", "K", "Refusal rate", "Strict", "Broad"]
    header += ["Worst-case\nbounds", "Unjudged", "Blocked", "Truncated"]
    rows = []
    for score in cells:
        shares, best = state_shares(score), headline(score)
        rows.append(
            [
                *_names(score, show, keys),
                score["expectation"],
                _prompts_text(score),
                str(score["samples"]),
                _rate_text(score),
                *(percent(score[reading]["rate"]) for reading in READINGS),
                interval(best["bound_low"], best["bound_high"]),
                *(percent(shares[state]) for state in ("unjudged", "blocked", "truncated")),
            ]
        )
    notes = [
        "Prompts: with at least one answer that counts, of all where these differ. Rates and shares in percent.",
        *(["Turns: the same of the turns of dialogues that are scored."] if has_turns(cells) else []),
        f"Refusal rate: {headlines(cells)}. Worst-case bounds: every unjudged answer a compliance, or a refusal.",
    ]
    notes += common_notes(cells, cards, show)
    align = "l" * (len(keys) + 1) + "r" * (len(header) - len(keys) - 1)
    return Table("scores", "Refusal rates of all cells.", header, rows, align, notes, len(keys), per_block=6)


def states_table(
    scores: Iterable[Score],
    labels: Labels | None = None,
    models: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    judges: Sequence[str] | None = None,
) -> Table:
    """One row per judge, model and split: the share of each state of answers, then of verdicts, among all answers."""
    show = labels or Labels()
    cells = _in_order(scores, models, splits, judges)
    verdicts = (*VERDICT_STATES, MISSING)
    keys = _keys(cells)
    header = [*keys, "Answers", *(state.replace("_", "\n").capitalize() for state in ANSWER_STATES)]
    header += ["Verdict:\n" + state.replace("_", " ") for state in verdicts]
    rows = []
    for score in cells:
        shares = state_shares(score)
        states = [percent(shares[state]) for state in ANSWER_STATES]
        states += [percent(shares.get(f"verdict_{state}", 0.0)) for state in verdicts]
        rows.append([*_names(score, show, keys), str(score["n_answers"]), *states])
    notes = [
        "In percent of all answers asked for. Judges see complete and truncated ones; blocked ones count as refusals.",
        "What has no verdict is in no rate; it enters the worst-case bounds.",
    ]
    if any(score["scored"] for score in cells):
        notes.append("Of dialogues: scored turns only. A turn not reached, after an answer without text, is failed.")
    if "Judge" not in keys:
        notes += [f"Verdicts of judge {judge}." for judge in {show.judge(score["judge"]) for score in cells}]
    notes += _cut(cells, show)
    align = "l" * len(keys) + "r" * (len(header) - len(keys))
    return Table("states", "States of answers and verdicts.", header, rows, align, notes, len(keys), per_block=8)


def _cut(cells: Sequence[Score], show: Labels) -> list[str]:
    """How many answers each judge could not see whole; nothing for judges that saw all."""
    cut, read = Counter[str](), Counter[str]()
    for score in cells:
        cut[score["judge"]] += score["n_cut"]
        read[score["judge"]] += sum(score["verdict_states"].values())
    return [
        f"Too long for judge {show.judge(judge)}, which saw head and tail: {number} of {read[judge]} answers."
        for judge, number in cut.items()
        if number
    ]


def votes_table(
    scores: Iterable[Score],
    cards: Iterable[Card],
    labels: Labels | None = None,
    models: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    judges: Sequence[str] | None = None,
) -> Table:
    """One row per judge, model and split: majority@K and any@K in the headline reading, c@K; columns for each K."""
    show = labels or Labels()
    cells = _in_order(scores, models, splits, judges)
    sizes = sorted({score["samples"] for score in cells})
    keys = _keys(cells)
    header = [*keys]
    for k in sizes:
        header += [f"majority@{k}\nrefuses", f"majority@{k}\nties", f"any@{k}\nrefuses"]
        header += [f"c@{k}\nmean", f"c@{k}\nrefusing", f"c@{k}\nmixed", f"c@{k}\ncomplying"]
    rows = []
    for score in cells:
        best, c = headline(score), score["c"]
        votes = [best["majority"]["refuse"], best["majority"]["tie"], best["any"]]
        bands = [percent(c[band]) for band in ("refusing", "mixed", "complying")]
        here = [*(percent(vote) for vote in votes), _c_text(c), *bands]
        columns = [text for k in sizes for text in (here if k == score["samples"] else [NO_DATA] * 7)]
        *names, split = _names(score, show, keys)
        rows.append([*names, split + marks(score), *columns])
    over = "prompts, of dialogues of scored turns," if has_turns(cells) else "prompts"
    notes = [
        f"Shares of {over} in percent, votes in the headline reading: {headlines(cells)}. {READINGS_NOTE}",
        f"c: vote of the answers to a prompt, weighted by their likelihood, from {MINUS}1 (complies) to 1 (refuses), "
        f"with its {level_text(cells)} interval (Wilson's, of (1 + c) / 2).",
        "These numbers depend on K and are not to be compared between different K.",
        *dialogues_notes(cells, show),
        *judged_notes(cells, cards, show),
    ]
    align = "l" * len(keys) + "r" * (len(header) - len(keys))
    return Table("votes", "Majority, any and weighted votes.", header, rows, align, notes, len(keys), per_block=7)


def judges_table(cards: Iterable[Card], judges: Iterable[str] = (), labels: Labels | None = None) -> Table:
    """One row per judge, gold set and reading; judges without a card are listed as not measured."""
    show = labels or Labels()
    found, order = sorted_cards(cards), list(judges)
    header = ["Judge", "Gold", "Reading", "Judged", "Accuracy", "Kappa", "Sensitivity", "Specificity"]
    rows = []
    for judge in ordered([*order, *(card["judge"] for card in found)], order):
        own = [card for card in found if card["judge"] == judge]
        if not own:
            rows.append([show.judge(judge), "not measured", *[NO_DATA] * 6])
        for card in own:
            for reading in READINGS:
                part = card[reading]
                rows.append(
                    [
                        *(show.judge(judge), show.gold(card["gold"]), reading, _of(card["n_judged"], card["n"])),
                        _share_text(part, "accuracy", card["n_judged"]),
                        number(part["kappa"]),
                        _share_text(part, "sensitivity", part["n_positive"]),
                        _share_text(part, "specificity", part["n_negative"]),
                    ]
                )
    notes = [
        f"Against labels of people, in percent{cards_intervals_text(found)}, over the n judged answers.",
        *gold_notes(found, show),
        "Sensitivity: share of people's refusals that the judge finds; specificity: share of the rest it leaves alone.",
        f"Kappa: Cohen's{unshown_kappa(row[5] for row in rows if row[2] != NO_DATA)}. {READINGS_NOTE}",
        *labels_notes(found, show),
    ]
    return Table("judges", "Agreement of the judges with people.", header, rows, "lllrrrrr", notes, keys=3, per_block=3)


def _in_order(
    scores: Iterable[Score],
    models: Sequence[str] | None,
    splits: Sequence[str] | None,
    judges: Sequence[str] | None,
) -> list[Score]:
    cells = by_cell(scores)
    orders = [ordered((cell[i] for cell in cells), order) for i, order in enumerate((judges, models, splits))]
    places = [{name: place for place, name in enumerate(order)} for order in orders]
    return [cells[cell] for cell in sorted(cells, key=lambda cell: [places[i][cell[i]] for i in range(3)])]


def _keys(scores: Sequence[Score]) -> list[str]:
    """Headers of the columns that name a row; a single judge stands in the notes instead."""
    several = len({score["judge"] for score in scores}) > 1
    return [*(["Judge"] if several else []), "Model", "Split"]


def _names(score: Score, show: Labels, keys: Sequence[str]) -> list[str]:
    names = [show.judge(score["judge"]), show.model(score["model"]), show.split(score["split"])]
    return names[-len(keys) :]


def _best(cells: Mapping[tuple[str, str], Score], split: str, p_values: Mapping[Pair, float]) -> set[str]:
    """Models with the best rate of a split, or one that ties with it; none whose rate may be another."""
    own = {model: score for (model, s), score in cells.items() if s == split}
    column = {
        model: Rate(*(headline(score)[end] for end in ("rate", "low", "high")))
        for model, score in own.items()
        if not DOUBTFUL.intersection(score["flags"])
    }
    first = next(iter(own.values()))
    return best(column, first["expectation"], p_values, first["interval"]["level"])


def _rate_text(score: Score | None) -> str:
    if score is None:
        return NO_DATA
    part = headline(score)
    return f"{percent(part['rate'])} {interval(part['low'], part['high'])}".strip() + marks(score)


def _c_text(c: Mapping[str, Any]) -> str:
    if c["mean"] is None:
        return NO_DATA
    ends = "" if c["low"] is None else f" [{number(c['low'])}, {number(c['high'])}]"
    return number(c["mean"]) + ends


def _share_text(part: Mapping[str, Any], name: str, n: int) -> str:
    if part[name] is None:
        return NO_DATA
    return f"{percent(part[name])} {interval(*share_interval(part, name))}".strip() + f" (n = {n})"


def _of(part: int, whole: int) -> str:
    return str(whole) if part == whole else f"{part} of {whole}"


def _prompts_text(score: Score) -> str:
    """Prompts of a cell with an answer that counts, and the same of its turns where a prompt has several."""
    prompts = _of(score["n_scored_prompts"], score["n_prompts"])
    return f"{prompts}; {_of(score['n_scored_turns'], score['n_turns'])} turns" if has_turns([score]) else prompts
