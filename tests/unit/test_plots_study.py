"""The figures of a study: which there are, what they ask for, the mistakes in naming them, and the script."""

import json
from pathlib import Path
from typing import Any

import pytest
from config_project import STUDY, WHOLE_STUDY, Project
from figure_checks import estimate, score
from workflow_cases import of

from refusal_eval.config.figure_entries import MOST_CURVES, figure_mistakes
from refusal_eval.plots import series
from refusal_eval.plots.figure_kinds import KINDS
from refusal_eval.plots.figure_sources import Sources
from refusal_eval.workflow.figures_stage import ENDINGS, REPORT, figures_of, presentation, shown_by

RESULTS = "results/large"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def kinds(figures: dict[str, dict[str, Any]]) -> list[str]:
    return [entry["kind"] for entry in figures.values()]


# ---------------------------------------------------------------- which figures there are


def test_a_study_that_names_none_has_those_that_it_has_data_for(project: Project) -> None:
    assert kinds(figures_of(project.load(STUDY))) == ["heatmap", "histograms", "tau_sweep"]
    large = figures_of(project.load(WHOLE_STUDY))
    assert kinds(large) == ["heatmap", "histograms", "tradeoff", "tau_sweep", "judge_agreement", "calibration"]
    assert large["calibration"]["judges"] == ["reader"] and large["calibration"]["gold"] == ["people"]
    assert kinds(figures_of(project.load(STUDY | {"samples": 1}))) == ["heatmap", "histograms"]
    assert kinds(figures_of(project.load(STUDY | {"figures": []}))) == []
    two = figures_of(project.load(WHOLE_STUDY | {"judges": ["words", "reader"]}))
    assert "judge_agreement" not in kinds(two)  # a single number


def test_dialogues_categories_and_kinds_have_figures_where_a_study_has_them(project: Project) -> None:
    config = project.load(STUDY | {"splits": ["hub-rows", "talk-rows"]})
    assert "turns" in kinds(figures_of(config)) and "categories" not in kinds(figures_of(config))
    config["split_entries"]["hub-rows"]["columns"]["category"] = "topic"
    entries = {entry["kind"]: entry for entry in figures_of(config).values()}
    assert entries["categories"]["splits"] == ["hub-rows"] and entries["turns"]["splits"] == ["talk-rows"]
    config["split_entries"]["talk-rows"]["dialogue"]["scored"] = "last"
    assert "turns" not in kinds(figures_of(config))
    config["judge_entries"]["words"]["kind"] = "reasoned"
    assert "refusal_kinds" in kinds(figures_of(config))


def test_categories_of_many_models_have_a_figure_for_each_split(project: Project) -> None:
    config = project.load(STUDY | {"splits": ["hub-rows", "file-rows"]})
    for split in config["split_entries"].values():
        split["columns"]["category"] = "topic"
    for models, names in (
        (MOST_CURVES, ["categories"]),
        (MOST_CURVES + 1, ["categories_hub-rows", "categories_file-rows"]),
    ):
        many = figures_of({**config, "models": [f"m{i}" for i in range(models)]})
        assert [entry["name"] for entry in many.values() if entry["kind"] == "categories"] == names


def test_every_kind_can_be_drawn_and_has_a_caption_in_the_report() -> None:
    assert set(KINDS) == set(REPORT)
    assert MOST_CURVES == series.MOST


# ---------------------------------------------------------------- what they are drawn from


def files(figures: dict[str, dict[str, Any]], noun: str, pattern: str, figure: str) -> list[str]:
    return shown_by(figures)(noun, pattern)(of(figure=figure))


def test_only_the_files_are_asked_for_that_a_figure_shows(project: Project) -> None:
    named = {"name": "one", "kind": "heatmap", "models": ["plain"], "splits": ["file-rows"], "judge": "own"}
    figures = figures_of(project.load(WHOLE_STUDY | {"figures": [named]}))
    assert files(figures, "scores", "{judge}/{model}/{split}", "one") == ["own/plain/file-rows"]
    assert files(figures, "cards", "{judge}/{gold}", "one") == ["own/people"]
    for noun in ("rows", "verdicts", "estimates", "tradeoff", "agreement"):
        assert files(figures, noun, "x", "one") == []


def test_each_figure_has_its_own_files_in_the_order_of_their_cells(project: Project) -> None:
    histograms = {"name": "c", "kind": "histograms", "models": ["thinker", "plain"]}
    by_kind = {"name": "k", "kind": "refusal_kinds", "judge": "own", "splits": ["file-rows"]}
    figures = figures_of(project.load(WHOLE_STUDY | {"figures": [histograms, by_kind]}))
    rows = files(figures, "rows", "{judge}/{model}/{split}", "c")
    assert rows == sorted(rows) and len(rows) == 2 * len(WHOLE_STUDY["splits"])
    # Kinds of refusal need the scores, too: they say which turns of dialogues count.
    cells = ["own/plain/file-rows", "own/thinker/file-rows"]
    assert files(figures, "rows", "{judge}/{model}/{split}", "k") == cells
    assert files(figures, "verdicts", "{judge}/{model}/{split}", "k") == cells
    assert files(figures, "verdicts", "x", "c") == files(figures, "estimates", "x", "k") == []


def test_one_file_of_the_study_is_asked_for_once(project: Project) -> None:
    figures = figures_of(project.load(WHOLE_STUDY))
    assert files(figures, "tradeoff", "tradeoff.json", "tradeoff") == ["tradeoff.json"]
    assert files(figures, "agreement", "agreement.json", "judges_agree") == ["agreement.json"]
    assert len(files(figures, "estimates", "{judge}/{model}", "tau_sweep")) == len(WHOLE_STUDY["models"])


def test_an_entry_overrides_names_and_a_default_is_filled_in(project: Project) -> None:
    named = {"name": "one", "kind": "heatmap", "labels": {"models": {"plain": "Base"}}, "reading": "strict"}
    (entry,) = figures_of(project.load(WHOLE_STUDY | {"figures": [named]})).values()
    assert entry["models"] == ["plain", "thinker"] and entry["judges"] == ["words"]
    assert entry["options"] == {"reading": "strict", "order": "listed"}
    assert entry["labels"]["models"] == {"plain": "Base"}


def test_labels_and_tau_belong_to_what_figures_share_and_an_order_to_its_figure(project: Project) -> None:
    def shared(config: dict[str, Any], name: str) -> dict[str, Any]:
        return presentation(config, figures_of(config)[name])

    config = project.load(WHOLE_STUDY)
    json.dumps([figures_of(config), shared(config, "tradeoff")])  # plain values, which Snakemake can compare
    relabelled = json.loads(json.dumps(config))
    relabelled["model_entries"]["plain"]["label"] = "Base"
    assert shared(relabelled, "tradeoff") != shared(config, "tradeoff")
    assert shared(relabelled, "calibration") == shared(config, "calibration"), "it shows no models"
    assert figures_of(relabelled) == figures_of(config)
    cooler = config | {"scoring": config["scoring"] | {"tau": 2.0}}
    assert shared(cooler, "tau_sweep") != shared(config, "tau_sweep") and figures_of(cooler) == figures_of(config)
    turned = config | {"models": config["models"][::-1]}
    assert shared(turned, "tradeoff") == shared(config, "tradeoff") and figures_of(turned) != figures_of(config)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("figure", "place", "told"),
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
def test_mistakes_are_told_with_their_line(project: Project, figure: Any, place: str, told: str) -> None:
    (found,) = project.mistakes(WHOLE_STUDY | {"figures": [{"name": "one"} | figure]})
    head, path, message = found.split(": ", 2)
    assert head.startswith("study.yaml:") and path == f"figures[0].{place}" and told in message


def test_what_a_study_lacks_for_a_figure_is_told(project: Project) -> None:
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


PLAIN, SORTED = {"columns": {"prompt": "p"}}, {"columns": {"prompt": "p", "category": "topic"}}
TALK = {"dialogue": {"mode": "cumulative"}}
LAST, APART = {"dialogue": {"mode": "cumulative", "scored": "last"}}, {"dialogue": {"mode": "independent"}}


@pytest.mark.parametrize(
    ("kind", "splits", "named", "told"),
    [
        ("categories", {"a": PLAIN, "b": SORTED}, None, []),
        ("categories", {"a": PLAIN, "b": {}}, None, ["kind: `categories` needs a split with a column of categories"]),
        ("categories", {"a": PLAIN, "b": SORTED}, ["b", "a"], ["splits.1: `a` has no column of categories"]),
        ("turns", {"a": TALK, "b": LAST}, None, []),
        ("turns", {"a": LAST, "b": APART}, None, ["kind: `turns` needs dialogues of which several turns are scored"]),
        ("turns", {"a": TALK, "b": APART}, ["a", "b"], ["splits.1: of the dialogues of `b` only the last turn is"]),
        ("turns", {"a": TALK, "b": PLAIN}, ["a", "b"], ["splits.1: `b` is no split of dialogues"]),
    ],
)
def test_categories_and_turns_without_data_are_told(
    kind: str, splits: dict[str, Any], named: list[str] | None, told: list[str]
) -> None:
    study = {"models": ["m"], "splits": list(splits), "judges": [], "gold": [], "samples": 5, "protocol": None}
    figure = {"name": "f", "kind": kind} | ({"splits": named} if named else {})
    found = list(figure_mistakes([figure], study, {"splits": splits, "judges": {}}))
    assert len(found) == len(told)
    for (path, message), start in zip(found, told, strict=True):
        assert f"{'.'.join(map(str, path[1:]))}: {message}".startswith(start)


def test_more_curves_than_can_be_told_apart_are_a_mistake(project: Project) -> None:
    names = [str(i) for i in range(9)]
    study = {"models": names, "splits": names, "judges": [], "gold": [], "samples": 5, "protocol": None}
    entries: dict[str, Any] = {"splits": {}, "judges": {}}
    figure = {"name": "t", "kind": "tau_sweep"}
    (found,) = figure_mistakes([figure], study, entries)
    assert found[0] == (0, "kind") and "9 models and 9 splits" in found[1]
    assert not list(figure_mistakes([figure | {"models": names[:3]}], study, entries))


# ---------------------------------------------------------------- the script


def test_the_script_writes_every_figure_and_says_why_one_is_not_drawn(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(repository / "scripts"))
    import make_figure

    scores, verdicts = tmp_path / "scores.json", tmp_path / "verdicts.jsonl"
    scores.write_text(json.dumps(score("m", "s", 0.5)))
    rows = [
        {"prompt_id": "a", "turn": 1, "label": "refusal", "kind": "lecture"},
        {"prompt_id": "a", "turn": 0, "label": "refusal", "kind": "direct"},  # not scored
        {"prompt_id": "b", "turn": 1, "label": "partial", "kind": None},
        {"prompt_id": "c", "turn": 1, "label": "compliance", "kind": None},
    ]
    verdicts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    estimates = tmp_path / "estimates.json"
    estimates.write_text(json.dumps({"estimates": [estimate("other", 0.5)]}))
    csv = tmp_path / "rows.csv"
    csv.write_text("prompt_id,turn,c\na,1,0.5\nb,1,\nc,1,-1.0\n")
    none: dict[str, Any] = {"models": {}, "splits": {}, "judges": {}, "gold": {}, "categories": {}}
    common = {
        "title": None,
        "width": None,
        "labels": none,
        "models": ["m"],
        "splits": ["s"],
        "judges": ["rules"],
        "gold": [],
    }
    entries = [
        common | {"name": "heat", "kind": "heatmap", "options": {}, "title": "Mine."},
        common | {"name": "c", "kind": "histograms", "options": {}, "width": "page"},
        common | {"name": "kinds", "kind": "refusal_kinds", "options": {"reading": "broad", "by": None}},
        common | {"name": "turns", "kind": "turns", "options": {}},
    ]
    labels: dict[str, Any] = {"models": {}, "splits": {}, "judges": {}, "golds": {}}
    found = {("rules", "m", "s"): str(csv)}, {("rules", "m", "s"): str(verdicts)}
    sources = Sources(scores=[str(scores)], rows=found[0], verdicts=found[1], estimates=[str(estimates)])
    study = {"labels": labels, "scoring": {"tau": 1.0, "band": 0.1}}
    for entry in entries:
        make_figure.main(entry, study, sources, tmp_path / "figures")
    made = {path.name for path in (tmp_path / "figures").iterdir()}
    assert made == {f"{entry['name']}.{ending}" for entry in entries for ending in ENDINGS}
    assert (tmp_path / "figures" / "heat.caption.md").read_text().startswith("**Mine.** In each cell")
    assert (tmp_path / "figures" / "kinds.csv").read_text().splitlines()[1:] == [
        "rules,m,s,broad,lecture,1,0.5",
        "rules,m,s,broad,not told,1,0.5",
    ]
    assert "no estimates by turn" in (tmp_path / "figures" / "turns.caption.md").read_text()
    assert "not drawn: figure `turns`" in caplog.text
