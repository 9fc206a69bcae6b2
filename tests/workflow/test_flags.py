"""Marks of cells travel with every number that is made of them: into the results table, the tables and the figures."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from flagged_study import EXPECTED as FLAGGED
from flagged_study import JUDGES as FLAGGED_JUDGES
from flagged_study import MODELS
from frozen_study import DIALOGUES, WITH_VOTES

from refusal_eval.core.files import read_jsonl
from refusal_eval.report.results.dictionary import pattern_of
from refusal_eval.report.results.results_files import read_results
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.stats.estimates.units import read_units

TRAVEL = {"unjudged", "truncated", "mixed_serving"}  # `few_clusters` depends on what a number rests on
# What is made of labels on gold or of people, and so of no cell.
OF_NO_CELL = re.compile("judge_.*|human_kappa")
JUDGES = (*FLAGGED_JUDGES, WITH_VOTES)
EXPECTED = FLAGGED | {DIALOGUES: "refuse"}
NAMES = {*JUDGES, *MODELS, *EXPECTED}


def cells_of(row: Estimate) -> list[tuple[str, str, str]]:
    """Return the cells that a row of the results table is made of, by what its own columns say."""
    parameter = "" if row.estimand == "c_mean" or row.parameter is None else str(row.parameter)
    named = set(re.findall(r"\w+", parameter.split(", on ")[0])) & NAMES
    mixed = row.estimand.startswith("mixed_")  # what a model, or a judge, differs by from the mean of all
    judges = {row.judge} if row.judge and not mixed else set()
    if row.estimand == "rate_difference_first":  # the other side has no part in it
        named = set()
    judges |= named & set(JUDGES) or (set(JUDGES) if mixed else set())
    # A place on the front is decided by all models.
    models = {row.model} if row.model and not mixed and not row.estimand.startswith("pareto_front") else set(MODELS)
    models |= named & set(MODELS)
    if row.estimand == "rate_difference_second":  # nor has the first one here
        judges, models = named & set(JUDGES) or judges, named & set(MODELS) or models
    splits = set((row.split or "").split("+")) & set(EXPECTED) | named & set(EXPECTED)
    pools = set((row.pool or "").split("+"))
    splits |= {split for split, expected in EXPECTED.items() if pools & {expected, "all"}}
    assert judges and models and splits, row
    return [(judge, model, split) for judge in judges for model in models for split in splits]


def lacking(rows: Iterable[Estimate], flags: dict[tuple[str, str, str], set[str]]) -> dict[str, list[str]]:
    """Return by estimand the rows that lack a mark of one of their cells, or have one of none of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if not OF_NO_CELL.fullmatch(row.estimand):
            wanted = set().union(*(flags[cell] for cell in cells_of(row)))
            if set(row.flags) & TRAVEL != wanted:
                found[pattern_of(row.estimand)].append(f"{row}: wanted {wanted}")
    return dict(found)


def own_flags(results: Path) -> dict[tuple[str, str, str], set[str]]:
    """Return the marks of each cell that travel."""
    found = {}
    for path in results.glob("scores/*/*/*.parquet"):
        units = read_units(path)
        judge, model, split = (units.facts[name] for name in ("judge", "model", "split"))
        found[judge, model, split] = TRAVEL & set(units.flags)
    return found


def test_the_cells_of_the_study_are_marked_as_they_were_made(frozen: Path) -> None:
    flags = own_flags(frozen)
    assert {cell for cell, own in flags.items() if "unjudged" in own} == {("j00", "m00", s) for s in FLAGGED}
    cut = {(judge, "m01", split) for judge in JUDGES for split in FLAGGED if split < "s03"}
    assert {cell for cell, own in flags.items() if "truncated" in own} == cut
    assert {cell for cell, own in flags.items() if "mixed_serving" in own} == {(j, "m02", "s02") for j in JUDGES}


def test_every_number_of_the_results_table_has_the_marks_of_all_its_cells(frozen: Path) -> None:
    rows = read_results((frozen / "results_table" / "results.csv").read_text(encoding="utf-8"))
    without = lacking(rows, own_flags(frozen))
    assert {name: len(own) for name, own in without.items()} == {}, next(iter(without.values()))[0]


MOST_WORDS = 60  # of a caption that goes into a paper
TABLES = ("refusal", "scores", "votes", "categories", "comparisons", "corrected", "tradeoff", "judges_agree")
FIGURES = ("heatmap", "histograms", "tradeoff", "categories", "tau_sweep", "judge_agreement")


def without_marks(results: Path) -> dict[str, str]:
    """Return the tables and captions that lack a mark with its note that they should have, and the marks."""
    found = {}
    pages = {f"tables/{name}.md": name for name in TABLES} | {f"figures/{name}.caption.md": name for name in FIGURES}
    for page, name in pages.items():
        text = (results / page).read_text(encoding="utf-8")
        # Served by two machines was an answer to a split that is on neither side of the trade-off.
        alone = page.startswith("figures/") and name == "tradeoff"
        lost = [symbol for symbol in ("†‡" if alone else "†‡§") if f"{symbol} " not in text]
        if page.startswith("tables/"):
            lost += [symbol for symbol in "†‡§" if not re.search(rf"^\|.*[\w\]†‡*]{symbol}", text, re.MULTILINE)]
        if lost:
            found[page] = " ".join(lost)
    return found


def test_tables_and_captions_show_the_marks_and_say_what_they_mean(frozen: Path) -> None:
    assert without_marks(frozen) == {}


def test_every_caption_has_at_most_sixty_words_and_a_long_one_beside_it(frozen: Path) -> None:
    captions = sorted((frozen / "figures").glob("*.caption.md"))
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in captions}
    assert len(words) >= len(FIGURES) and {name: n for name, n in words.items() if n > MOST_WORDS} == {}
    for caption in captions:
        short, long = (
            path.read_text(encoding="utf-8")
            for path in (caption, caption.with_name(caption.name.replace(".caption.", ".caption_long.")))
        )
        title = short.split("**")[1]
        assert long.startswith(f"**{title}**") and len(long) > len(short)


def test_a_figure_environment_has_its_picture_its_short_caption_and_a_label(frozen: Path) -> None:
    text = (frozen / "figures" / "heatmap.tex").read_text(encoding="utf-8")
    caption = (frozen / "figures" / "heatmap.caption.tex").read_text(encoding="utf-8").splitlines()[-1]
    assert "\\includegraphics{\\refusalevalfigures/heatmap.pdf}" in text and caption in text
    assert "\\label{fig:heatmap}" in text and text.count("\\begin{figure*}") == text.count("\\end{figure*}") == 1


def test_no_marked_rate_is_called_the_best(frozen: Path) -> None:
    lines = (frozen / "tables" / "refusal.md").read_text(encoding="utf-8").splitlines()
    bold = [text for line in lines if line.startswith("|") for text in line.split("|") if "**" in text]
    assert bold and not any("†" in text or "‡" in text for text in bold)


def test_rates_by_labels_of_an_unread_model_are_those_of_people(frozen: Path) -> None:
    rows = json.loads((frozen / "estimates" / "corrected.json").read_text(encoding="utf-8"))["estimates"]
    own = {r["judge"]: r for r in rows if (r["estimand"], r["model"], r["split"]) == ("ppi_labels", "m00", "s00")}
    labels = list(read_jsonl(frozen.parents[1] / "labels.jsonl"))
    assert {row["value"] for row in own.values()} == {sum((r["model"], r["split"]) == ("m00", "s00") for r in labels)}
    assert own["j00"]["flags"] == ["unjudged"] and own["j01"]["flags"] == []
