"""The table of a study's judges by task: F1 for refusals and for each flag, on each part of the gold sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from refusal_eval.config.report_sections import JUDGES
from refusal_eval.features.judge_cards.card_estimates import part_name
from refusal_eval.report.paper.display import NO_DATA, Card, clean, order_names, percent
from refusal_eval.report.paper.filled_notes import filled_notes
from refusal_eval.report.paper.markup import Table, move_to_notes
from refusal_eval.report.paper.table_data import TableData, TableParts
from refusal_eval.report.paper.table_kind import StudyTable
from refusal_eval.report.paper.table_notes import levels_text, of_all, share_text, sorted_cards
from refusal_eval.stats.estimates.estimands import READINGS

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

_SHARES = ("f1", "sensitivity", "specificity")


def judge_tasks(data: TableData) -> TableParts:
    """Return a row per judge, gold set, task and part of the gold set; the CSV has both readings of refusals."""
    return tasks_frame(data.cards), [move_to_notes(tasks_table(data))]


def tasks_frame(cards: Iterable[Card]) -> pd.DataFrame:
    """Return every number of `card_tasks.card_tasks`, a row per judge, gold set, task, part and reading.

    `published` is the figure of this very judge, and `met` how its own compares with it; both empty without one.
    """
    rows = []
    for card, part in _parts(cards):
        for reading in (reading for reading in READINGS if reading in part):
            own, published = part[reading], _published(part, reading)
            row: dict[str, Any] = {"judge": card["judge"], "gold": card["gold"]}
            row |= {name: part[name] for name in ("task", "slice", "expectation")} | {"reading": reading}
            row |= {name: part[name] for name in ("n", "n_judged", "n_clusters")}
            row |= {name: own[name] for name in ("n_positive", "n_negative")}
            for name in _SHARES:
                low, high = own["intervals"][name] or (None, None)
                row |= {name: own[name], f"{name}_low": low, f"{name}_high": high}
            named = published[0] if published else {}
            rows.append(row | {"published": named.get("f1"), "met": named.get("met"), "source": named.get("source")})
    return pd.DataFrame(rows, dtype=object)


def tasks_table(data: TableData) -> Table:
    """Return the table of `judge_tasks`: the broad reading of refusals, and the flags."""
    show, body, shown = data.labels, [], []
    found = list(_parts(data.cards))
    for judge in order_names((card["judge"] for card, _ in found), data.order("judges")):
        for card, part in found:
            if card["judge"] != judge:
                continue
            own, published = part["broad"], _published(part, "broad")
            shown.append(card)
            body.append(
                [
                    *(show.judge(judge), show.gold(card["gold"]), clean(part_name(part)).replace("_", " ")),
                    *(of_all(part["n_judged"], part["n"]), str(own["n_positive"])),
                    share_text(own["f1"], own["intervals"]["f1"]),
                    "; ".join(_met(one) for one in published) or NO_DATA,
                ]
            )
    notes = filled_notes(
        "judge_tasks/judge_tasks",
        show,
        cards=shown,
        levels=levels_text(shown),
        met=any(one["met"] for _, part in found for one in part["published"]),
        sources=list(dict.fromkeys(clean(one["source"]) for _, part in found for one in part["published"])),
        others=list(dict.fromkeys(_others(data))),
    )
    header = ["Judge", "Gold", "Task", "Judged", "Positive", "F1", "Published\nof this judge"]
    return Table("judge-tasks", "F1 of the judges by task and part of gold.", header, body, notes, keys=3, per_block=4)


def _parts(cards: Iterable[Card]) -> Iterator[tuple[Card, Mapping[str, Any]]]:
    for card in sorted_cards(cards):
        for part in card.get("tasks", ()):
            yield card, part


def _published(part: Mapping[str, Any], reading: str) -> list[Mapping[str, Any]]:
    return [one for one in part["published"] if one["reading"] == reading]


def _met(published: Mapping[str, Any]) -> str:
    return percent(published["f1"]) + (f" ({published['met']})" if published["met"] else "")


def _others(data: TableData) -> Iterator[str]:
    """Yield what others reach, by gold set and judge: the figures of judges that are not the card's own."""
    for card in sorted_cards(data.cards):
        if not card.get("tasks"):
            continue
        by_name: dict[tuple[str, str], list[str]] = {}
        for one in card["published"]["anchors"]:
            if one.get("f1") is None or one.get("judge") in data.order("judges"):
                continue
            part = {"task": one.get("flag") or "refusal"} | {key: one.get(key) for key in ("slice", "expectation")}
            key = clean(one["name"]), clean(one["source"])
            by_name.setdefault(key, []).append(f"{part_name(part).replace('_', ' ')} {percent(one['f1'])}")
        for (name, source), numbers in by_name.items():
            yield f"Published on {data.labels.gold(card['gold'])}, {name}: {'; '.join(numbers)} ({source})."


def has_parts(entry: Any, judges: Sequence[str]) -> bool:
    """Tell whether cards on a gold set have tasks, by its entry."""
    return bool(entry.flags or entry.slices or any(anchor.judge in judges for anchor in entry.anchors))


class JudgeTasksTable(StudyTable):
    """F1 of the judges for refusals and flags, by slice of gold."""

    name = "judge_tasks"
    needs = ("cards",)
    shows = ("judges", "gold")
    report = (JUDGES, "F1 by task and part of gold")
    make = staticmethod(judge_tasks)

    @classmethod
    def wanted(cls, study: Study) -> bool:
        return bool(study.judges) and any(has_parts(entry, list(study.judges)) for entry in study.gold.values())
