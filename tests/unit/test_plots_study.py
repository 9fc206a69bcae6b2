"""The figures of a study: which there are, what they ask for, the mistakes in naming them, and the script."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import make_figure
import pytest
from config_project import STUDY, WHOLE_STUDY, Project
from estimate_rows import cell_file, estimates_file, rows_of, single
from figure_checks import words

from refusal_eval.config.datasets import Split
from refusal_eval.config.figure_entry import MOST_CURVES, Shown
from refusal_eval.config.kinds import FIGURES
from refusal_eval.config.study_view import StudyView
from refusal_eval.judges.keyword_judge import KeywordJudge
from refusal_eval.judges.reasoned_judge import ReasonedJudge
from refusal_eval.plots import base
from refusal_eval.plots.figure_data import FigureData
from refusal_eval.study.study import Study
from refusal_eval.workflow.figures_stage import ENDINGS, files, params


def kinds(config: dict[str, Any]) -> list[str]:
    return [entry.kind for entry in Study(config).figures.values()]


# ---------------------------------------------------------------- which figures there are


def test_a_study_that_names_none_has_those_that_it_has_data_for(project: Project) -> None:
    assert kinds(project.load(STUDY)) == ["heatmap", "histograms", "tau_sweep"]
    large = project.load(WHOLE_STUDY)
    assert kinds(large) == ["heatmap", "histograms", "tau_sweep", "calibration", "judge_agreement", "tradeoff"]
    whole = Study(large)
    shown = whole.figures["calibration"].shown(whole.view)
    assert (shown.judges, shown.gold) == (["reader"], ["people"])
    assert kinds(project.load(STUDY | {"samples": 1})) == ["heatmap", "histograms"]
    assert kinds(project.load(STUDY | {"figures": []})) == []
    assert "judge_agreement" not in kinds(project.load(WHOLE_STUDY | {"judges": ["words", "reader"]}))  # one number


KEYWORDS = KeywordJudge(kind="keyword", lists=["words.yaml"])
NONE = StudyView({"words": KEYWORDS}, [], models=["m"], samples=5, primary_judge="words")


def split(columns: dict[str, Any] | None = None, dialogue: dict[str, Any] | None = None) -> Split:
    turns = {"turns": ["a", "b"]} if dialogue else {"prompt": "p"}
    source = {"kind": "file", "path": "rows.jsonl"}
    return Split.model_validate(
        {"source": source, "columns": turns | (columns or {}), "dialogue": dialogue, "expectation": "comply"}
    )


PLAIN, SORTED, TALK = split(), split({"category": "topic"}), split(None, {"mode": "cumulative"})
LAST = split(None, {"mode": "cumulative", "scored": "last"})
APART = split(None, {"mode": "independent", "scored": "all"})


def unasked(kind: str, study: StudyView = NONE, **changes: Any) -> list[Any]:
    cls: Any = FIGURES.get(kind)
    found: list[Any] = cls.unasked(dataclasses.replace(study, **changes))
    return found


def test_dialogues_categories_and_kinds_have_figures_where_a_study_has_them() -> None:
    assert not unasked("turns", splits={"a": PLAIN, "b": LAST, "c": APART}) and unasked("turns", splits={"b": TALK})
    (categories,) = unasked("categories", splits={"a": SORTED, "b": TALK})
    assert categories.splits == ["a"] and not unasked("categories", splits={"b": TALK})
    reasoned = ReasonedJudge(kind="reasoned", engine="e", rubric="r.jinja")
    published = reasoned.model_copy(update={"form": "published"})
    assert unasked("refusal_kinds", judges={"words": reasoned})
    assert not unasked("refusal_kinds") and not unasked("refusal_kinds", judges={"words": published})


def test_categories_of_a_small_split_are_not_drawn_unasked() -> None:
    small, large = (SORTED.model_copy(update={"expected_rows": rows}) for rows in (49, 50))
    filtered = large.model_copy(update={"expected_kept": 49})
    (found,) = unasked("categories", splits={"a": small, "b": large, "c": filtered, "d": SORTED})
    assert found.splits == ["b", "d"]
    assert not unasked("categories", splits={"a": small})


def test_categories_of_many_models_have_a_figure_for_each_split() -> None:
    for models, names in ((MOST_CURVES, ["categories"]), (MOST_CURVES + 1, ["categories_a", "categories_b"])):
        named = [f"m{i}" for i in range(models)]
        found = unasked("categories", models=named, splits={"a": SORTED, "b": SORTED})
        assert [entry.name for entry in found] == names


def test_as_many_curves_are_allowed_as_there_are_looks() -> None:
    assert len(base.LOOKS) == MOST_CURVES


# ---------------------------------------------------------------- what they are drawn from


def test_only_the_files_are_asked_for_that_a_figure_shows(project: Project) -> None:
    named = {"name": "one", "kind": "heatmap", "models": ["plain"], "splits": ["file-rows"], "judge": "own"}
    study = Study(project.load(WHOLE_STUDY | {"figures": [named]}))
    results = study.paths.results
    assert files(study, "one") == {
        "estimates": [f"{results}/estimates/cells/own/plain.json"],
        "cards": [f"{results}/judge_cards/own/people.json"],
    }


def test_each_figure_has_its_own_files_in_the_order_of_their_cells(project: Project) -> None:
    histograms = {"name": "c", "kind": "histograms", "models": ["thinker", "plain"]}
    by_kind = {"name": "k", "kind": "refusal_kinds", "judge": "own", "splits": ["file-rows"]}
    study = Study(project.load(WHOLE_STUDY | {"figures": [histograms, by_kind]}))
    cells = files(study, "c")["scores"]
    assert cells == sorted(cells) and len(cells) == 2 * len(WHOLE_STUDY["splits"])
    scores = f"{study.paths.results}/scores/own"
    assert files(study, "k")["scores"] == [f"{scores}/{model}/file-rows.parquet" for model in ("plain", "thinker")]


def test_one_file_of_the_study_is_asked_for_once(project: Project) -> None:
    study = Study(project.load(WHOLE_STUDY))
    results = study.paths.results
    assert files(study, "tradeoff")["tradeoff"] == [f"{results}/estimates/tradeoff.json"]
    assert files(study, "judges_agree")["judge_agreement"] == [f"{results}/estimates/judge_agreement.json"]
    assert len(files(study, "tau_sweep")["estimates"]) == len(WHOLE_STUDY["models"])


def test_what_an_entry_leaves_open_is_filled_in(project: Project) -> None:
    named = {"name": "one", "kind": "heatmap", "labels": {"models": {"plain": "Base"}}, "reading": "strict"}
    asked = params(Study(project.load(WHOLE_STUDY | {"figures": [named]})), "one")
    assert asked["shown"]["models"] == ["plain", "thinker"] and asked["shown"]["judges"] == ["words"]
    assert (asked["figure"]["reading"], asked["figure"]["order"]) == ("strict", "listed")
    assert asked["figure"]["labels"]["models"] == {"plain": "Base"}
    assert [split["source"] for split in asked["splits"]] == WHOLE_STUDY["splits"], "what tells their clusters apart"


def test_labels_and_tau_belong_to_what_figures_share_and_an_order_to_its_figure(project: Project) -> None:
    def asked(config: dict[str, Any], name: str) -> dict[str, Any]:
        return params(Study(config), name)

    config = project.load(WHOLE_STUDY)
    json.dumps([asked(config, "tradeoff"), asked(config, "calibration")])  # plain values, which Snakemake can compare
    relabelled = json.loads(json.dumps(config))
    relabelled["model_entries"]["plain"]["label"] = "Base"
    assert asked(relabelled, "tradeoff") != asked(config, "tradeoff")
    assert asked(relabelled, "calibration") == asked(config, "calibration"), "it shows no models"
    cooler = config | {"scoring": config["scoring"] | {"tau": 2.0}}
    assert asked(cooler, "tau_sweep") != asked(config, "tau_sweep")
    turned = config | {"models": config["models"][::-1]}
    assert asked(turned, "tradeoff") != asked(config, "tradeoff")
    assert asked(turned, "calibration") == asked(config, "calibration")


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("figure", "place", "reported"),
    [
        ({"kind": "heatmap", "models": ["plane"]}, "models[0]", "did you mean `plain`"),
        ({"kind": "heatmap", "models": ["plain", "plain"]}, "models[1]", "named twice"),
        ({"kind": "heatmap", "splits": ["talk-rows"]}, "splits[0]", "not in `splits` of the study"),
        ({"kind": "heatmap", "judge": "guard"}, "judge", "not in `judges` of the study"),
        ({"kind": "heatmap", "reading": "loose"}, "reading", "strict"),
        ({"kind": "heatmap", "labels": {"models": {"x": "y"}}}, "labels.models.x", "not in `models`"),
        ({"kind": "heat map"}, "kind", "did you mean `heatmap`"),
        ({"kind": "heatmap", "tau": 1}, "tau", "unknown key `tau`"),
        ({"kind": "turns"}, "kind", "needs a split of dialogues"),
        ({"kind": "refusal_kinds"}, "kind", "judge `words` (kind keyword) does not tell kinds of refusal"),
        ({"kind": "refusal_kinds", "judge": "reader"}, "judge", "`own`"),
        ({"kind": "calibration", "judges": ["words"]}, "judges[0]", "gives no probabilities"),
        ({"kind": "calibration", "gold": ["peple"]}, "gold[0]", "did you mean `people`"),
        ({"kind": "judge_agreement", "split": "talk-rows"}, "split", "not in `splits`"),
    ],
)
def test_mistakes_are_reported_with_their_line(project: Project, figure: Any, place: str, reported: str) -> None:
    (found,) = project.mistakes(WHOLE_STUDY | {"figures": [{"name": "one"} | figure]})
    head, path, message = found.split(": ", 2)
    assert head.startswith("study.yaml:") and path == f"figures[0].{place}" and reported in message


def test_what_a_study_lacks_for_a_figure_is_reported(project: Project) -> None:
    small = [
        {"name": "a", "kind": "tradeoff"},
        {"name": "b", "kind": "judge_agreement"},
        {"name": "c", "kind": "tau_sweep"},
        {"name": "c", "kind": "heatmap"},
        {"name": "d", "kind": "categories"},
    ]
    found = project.mistakes(STUDY | {"samples": 1, "figures": small})
    wanted = ("expectation: refuse", "needs two judges", "does not depend on tau", "two figures have the name `c`")
    wanted += ("`categories` needs a split with a column of categories",)
    assert len(found) == 5 and all(any(words in line for line in found) for words in wanted)


@pytest.mark.parametrize(
    ("kind", "splits", "named", "reported"),
    [
        ("categories", {"a": PLAIN, "b": SORTED}, None, []),
        ("categories", {"a": PLAIN}, None, ["kind: `categories` needs a split with a column of categories"]),
        ("categories", {"a": PLAIN, "b": SORTED}, ["b", "a"], ["splits.1: `a` has no column of categories"]),
        ("turns", {"a": TALK, "b": LAST}, None, []),
        (
            "turns",
            {"a": LAST, "b": APART},
            None,
            ["kind: `turns` needs dialogues in mode `cumulative`"],
        ),
        ("turns", {"a": TALK, "b": APART}, ["a", "b"], ["splits.1: the dialogues of `b` have no rates by turn"]),
        ("turns", {"a": TALK, "b": PLAIN}, ["a", "b"], ["splits.1: `b` is no split of dialogues"]),
    ],
)
def test_categories_and_turns_without_data_are_reported(
    kind: str, splits: dict[str, Split], named: list[str] | None, reported: list[str]
) -> None:
    figure: Any = FIGURES.get(kind).model_validate({"name": "f", "kind": kind, "splits": named})
    found = list(figure.mistakes(dataclasses.replace(NONE, splits=splits)))
    assert len(found) == len(reported)
    for (path, message), start in zip(found, reported, strict=True):
        assert f"{'.'.join(map(str, path))}: {message}".startswith(start)


def test_more_curves_than_can_be_told_apart_are_a_mistake() -> None:
    names = [str(i) for i in range(9)]
    study = dataclasses.replace(NONE, models=names, splits=dict.fromkeys(names, PLAIN))
    sweep: Any = FIGURES.get("tau_sweep")
    ((path, message),) = sweep(name="t", kind="tau_sweep").mistakes(study)
    assert path == ("kind",) and "9 models and 9 splits" in message
    assert not list(sweep(name="t", kind="tau_sweep", models=names[:3]).mistakes(study))


def test_what_follows_from_a_mistake_in_an_entry_is_no_mistake_of_the_figure(project: Project) -> None:
    project.write("catalogue.yaml", {"models": {"m": 1}})
    found = project.mistakes(STUDY | {"figures": [{"name": "a", "kind": "turns"}], "splits": ["no-such-rows"]})
    assert "no-such-rows" in "".join(found) and "dialogues" not in "".join(found)


# ---------------------------------------------------------------- the script


def test_the_script_writes_every_figure_and_says_why_one_is_not_drawn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    labels = {"a": "refusal", "b": "partial", "c": "compliance"}
    prompts = [
        {"id": name, "category": None, "cluster": name, "dialogue": True, "messages": [{"role": "user"}] * 2}
        for name in labels
    ]
    place = {"sample": 0, "state": "complete", "answer_logprob": -1.0, "serving": None}
    answers = [{"prompt_id": name, "turn": turn} | place for name in labels for turn in (0, 1)]
    # Judges read the first turn, too, which is not scored.
    verdicts = [
        {"prompt_id": name, "turn": turn, "sample": 0, "state": "judged", "label": label if turn else "refusal"}
        | {"kind": "lecture" if turn and name == "a" else None if turn else "direct"}
        for name, label in labels.items()
        for turn in (0, 1)
    ]
    names = {"judge": "rules", "headline": "broad"}
    cell = cell_file(tmp_path / "s.parquet", prompts, answers, verdicts, 1, scored="last", **names)
    entries = [
        {"name": "heat", "kind": "heatmap", "title": "Mine."},
        {"name": "c", "kind": "histograms", "width": "page"},
        {"name": "kinds", "kind": "refusal_kinds"},
        {"name": "turns", "kind": "turns"},
    ]
    shown = {"judges": ["rules"], "models": ["m"], "splits": ["s"], "gold": []}
    files = {"estimates": [estimates_file(tmp_path / "estimates.json", [cell])], "scores": [cell]}
    splits = [{"name": "s", "expectation": "comply", "reading": "broad", "scored": "last"}]
    for entry in entries:
        asked = {"figure": entry, "shown": shown, "labels": {}, "scoring": {"tau": 1.0, "band": 0.1, "level": 0.95}}
        asked |= {"splits": splits, "paper": {"page": 17.5, "column": 8.5}}
        make_figure.main(
            asked, {noun: [str(path) for path in paths] for noun, paths in files.items()}, tmp_path / "figures"
        )
    made = {path.name for path in (tmp_path / "figures").iterdir()}
    assert made == {f"{entry['name']}.{ending}" for entry in entries for ending in ENDINGS}
    assert (tmp_path / "figures" / "heat.caption_long.md").read_text().startswith("**Mine.** In each cell")
    assert (tmp_path / "figures" / "kinds.csv").read_text().splitlines()[1:] == [
        "rules,m,s,broad,lecture,1,0.5",
        "rules,m,s,broad,not given,1,0.5",
    ]
    assert "no estimates by turn" in (tmp_path / "figures" / "turns.caption.md").read_text()
    assert "not drawn: figure `turns`" in caplog.text


def test_a_figure_of_another_reading_carries_the_marks_of_that_reading(tmp_path: Path) -> None:
    clusters = {f"p{i:03d}": str(i // 2) for i in range(80)}
    cell = cell_file(tmp_path / "s.parquet", *rows_of(single(*["PC"] * 8, *["CC"] * 72), clusters), 2)
    found = {"estimates": [str(estimates_file(tmp_path / "estimates.json", [cell]))]}
    splits, shown = [{"name": "s", "expectation": "comply", "reading": "broad"}], Shown(["j"], ["m"], ["s"])
    for reading, flags in (("strict", ""), ("broad", "few_clusters"), (None, "few_clusters")):
        figure: Any = FIGURES.entry({"name": "heat", "kind": "heatmap", "reading": reading})
        scoring = {"tau": 1.0, "band": 0.1, "level": 0.95}
        drawn = figure.draw(FigureData(figure, shown, scoring=scoring, splits=splits, files=found))
        assert drawn.frame["flags"].map(" ".join).tolist() == [flags]
        assert ("* fewer than 30" in words(drawn)) == bool(flags)
