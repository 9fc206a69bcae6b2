"""Prompts chosen by a judge's verdicts on a model's answers, and the engine loads that wait for each other."""

import contextlib
import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from project import CATALOGUE, Project, change_yaml, copy_of, make_project

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.files import read_jsonl
from refusal_eval.study.batches import Cell
from refusal_eval.study.study import Study

pytestmark = pytest.mark.feature("judged")

ROOT = Path(__file__).parents[2]


def lines(path):
    return list(read_jsonl(path))


def judged(split, model, judge, **keep):
    source = {"kind": "judged", "split": split, "model": model, "judge": judge}
    return {"source": source | {"keep": keep or {"label": "refusal", "at_least": 0.5}}, "expectation": "varies"}


def judged_project(folder, entries, **study):
    """Make the small project with further splits."""
    project = make_project(folder)
    catalogue = json.loads(json.dumps(CATALOGUE))
    catalogue["datasets"]["own"]["splits"] |= entries
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    project.study(**({"models": ["plain"], "gold": []} | study))
    return project


def loaded(project):
    file = str(project.folder / "study.yaml")
    with contextlib.chdir(project.folder):  # entries name files relative to it
        return Study(load_study(study_values(file), file, str(ROOT)))


def rounds(project, *, end=True):
    """Run a study to its end, answering by hand what each engine load is asked; return how many requests each took."""
    study, asked = loaded(project), []
    for level in range(8):
        for kind in ("requests", "judge_requests"):
            cells = [c for c in study.batch_of if study.level(c) == level and bool(c.judge) == (kind != "requests")]
            if cells:
                project.snakemake("--", *(study.request_file(cell) for cell in cells))
                asked.append((kind, level, project.answer_everything(kind)))
    if end:
        project.snakemake()
    return asked


CHAIN = {"hard": judged("one", "plain", "label"), "harder": judged("hard", "terse", "words")}


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A study whose last split hangs on answers of two models, one of which it does not evaluate."""
    project = judged_project(tmp_path_factory.mktemp("judged") / "project", CHAIN, splits=["one", "harder"])
    rounds(project)
    return project


def test_one_engine_loads_once_for_each_wait(chained):
    study = loaded(chained)
    assert study.generation_batches == {
        "engine/tiny": [Cell("plain", "one")],
        "engine/tiny/_level1": [Cell("terse", "hard")],
        "engine/tiny/_level2": [Cell("plain", "harder")],
    }
    assert study.judging_batches == {
        "engine/tiny": [Cell("plain", "one", "label")],
        "engine/tiny/_level2": [Cell("plain", "harder", "label")],
    }


def test_prompts_are_those_whose_answers_the_judge_reads_so(chained):
    parents = lines(chained.results / "prompts" / "one.jsonl")
    for name, judge, model in (("hard", "label", "plain"), ("harder", "words", "terse")):
        of = CHAIN[name]["source"]["split"]
        read = {}
        for row in lines(chained.results / "verdicts" / judge / model / f"{of}.jsonl"):
            read.setdefault(row["prompt_id"], []).append(row["label"] == "refusal")
        wanted = [row for row in parents if sum(read[row["id"]]) >= 1.5]
        rows = lines(chained.results / "prompts" / f"{name}.jsonl")
        assert 0 < len(rows) < len(parents) and [row["id"] for row in rows] == [row["id"] for row in wanted]
        for row, parent in zip(rows, wanted, strict=True):
            assert {key: row[key] for key in ("messages", "cluster", "category")} == {
                key: parent[key] for key in ("messages", "cluster", "category")
            }
            assert row["source"]["kept"]["share"] == f"{sum(read[row['id']]) / 3:.4g}"
        parents = rows


def test_what_only_makes_prompts_is_neither_scored_nor_shown(chained):
    assert not list((chained.results / "scores").rglob("terse/*")) and not list(
        (chained.results / "scores").rglob("hard.parquet")
    )
    results = (chained.results / "results_table" / "results.csv").read_text()
    assert ",harder," in results and ",hard," not in results and ",terse," not in results
    assert "hard.jsonl" in str(list((chained.results / "answers" / "terse").iterdir()))
    said = chained.snakemake("-n")
    assert "Nothing to be done" in said.stdout + said.stderr


def test_prompts_that_are_asked_anew_are_answered_with_other_draws(tmp_path):
    entry = judged("one", "plain", "words")
    entry["source"]["anew"] = True
    project = judged_project(tmp_path / "project", {"again": entry}, splits=["one", "again"], judges=["words"])
    assert [count for _, _, count in rounds(project, end=False)] == [18, 6]
    before, after = (lines(project.results / "prompts" / f"{name}.jsonl") for name in ("one", "again"))
    chosen = {row["id"]: row for row in before if row["id"] in {own["source"]["parent"] for own in after}}
    assert len(chosen) == len(after) and not {row["id"] for row in after} & {row["id"] for row in before}
    for row in after:
        parent = chosen[row["source"]["parent"]]
        assert [row[key] for key in ("messages", "cluster")] == [parent[key] for key in ("messages", "cluster")]
    asked = [
        {sample["seed"] for row in lines(project.results / "requests" / "plain" / f"{name}.jsonl")[1:]
         for sample in row["samples"]}
        for name in ("one", "again")
    ]  # fmt: skip
    assert [len(seeds) for seeds in asked] == [18, 6] and not asked[0] & asked[1]


def test_a_change_of_what_is_kept_makes_the_prompts_behind_it_alone(chained, tmp_path):
    project = copy_of(chained, tmp_path / "project")
    entry = json.loads(json.dumps(CHAIN["harder"]))
    entry["source"]["keep"]["at_least"] = 0.1
    project_splits(project, harder=entry)
    planned, said = project.planned_and_said("--until", "answers")
    assert planned == {"prompts": 1, "requests": 1, "generate": 1, "answers": 1}
    assert "Generating answers: engine/tiny/_level2, load 0-of-1" in said
    assert "Making the prompts of harder" in said


def test_batches_of_a_study_without_such_prompts_have_the_names_they_had(tmp_path):
    project = judged_project(tmp_path / "project", {}, models=["plain", "terse"])
    for mode, names in {
        "engine": ["engine/tiny"],
        "model": ["model/tiny/plain", "model/tiny/terse"],
        "cell": [f"cell/tiny/{model}/{split}" for model in ("plain", "terse") for split in ("one", "two")],
    }.items():
        project.study(batch=mode)
        assert list(loaded(project).generation_batches) == names


def test_a_prompt_whose_answers_have_no_label_is_never_kept_on_a_guess():
    from refusal_eval.features.judged.judged_rows import shares_of

    answers = [{"prompt_id": p, "sample": n, "turn": 0, "state": s} for p, n, s in [
        ("a", 0, "complete"), ("a", 1, "truncated_reasoning"), ("b", 0, "blocked"), ("b", 1, "complete")]]  # fmt: skip
    verdicts = [
        {"prompt_id": "a", "sample": 0, "turn": 0, "label": "compliance"},
        {"prompt_id": "b", "sample": 1, "turn": 0, "label": None},
    ]
    assert shares_of(answers, verdicts, ["compliance"]) == {"a": 0.5, "b": 0.0}
    assert shares_of(answers, verdicts, ["refusal"], unlabelled=True) == {"a": 0.5, "b": 1.0}
    assert shares_of(answers, verdicts, ["refusal"]) == {"a": 0.0, "b": 0.5}


def test_the_best_of_each_group_by_hand():
    from refusal_eval.features.judged.judged_rows import best_of, chances_of

    answers = [{"prompt_id": p, "sample": n, "turn": 0, "state": s} for p, n, s in [
        ("a", 0, "complete"), ("a", 1, "complete"), ("b", 0, "blocked"), ("b", 1, "complete"), ("c", 0, "complete"),
        ("d", 0, "truncated_reasoning")]]  # fmt: skip
    verdicts = [
        {"prompt_id": "a", "sample": 0, "turn": 0, "p_refusal": 0.2},
        {"prompt_id": "a", "sample": 1, "turn": 0, "p_refusal": 0.4},
        {"prompt_id": "b", "sample": 1, "turn": 0, "p_refusal": None},
        {"prompt_id": "c", "sample": 0, "turn": 0, "p_refusal": 0.3},
    ]
    chances = chances_of(answers, verdicts)
    assert chances == {"a": pytest.approx(0.3), "b": 1.0, "c": 0.3}
    rows = [
        {"id": name, "cluster": cluster, "source": {"parent": parent} if parent else {}}
        for name, cluster, parent in (("c", "x", "p"), ("a", "x", "p"), ("d", "x", "p"), ("b", "x", None))
    ]
    chances["a"] = chances["c"]
    found = {of: [row["id"] for row in best_of(rows, chances, 1, of)] for of in ("parent", "cluster", "split")}
    assert found == {"parent": ["c", "b"], "cluster": ["b"], "split": ["b"]}  # of equal ones the first; `d` has none
    assert [row["id"] for row in best_of(rows, chances, 2, "parent")] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (judged("won", "plain", "words"), "source.split: there is no split `won` in the catalogue"),
        (judged("one", "plane", "words"), "source.model: there is no model `plane` in the catalogue; did you mean"),
        (judged("one", "plain", "wordz"), "source.judge: there is no judge `wordz` in the catalogue; did you mean"),
        (judged("hard", "plain", "words"), "in a circle: hard -> hard"),
        (
            judged("one", "plain", "words", label="refused"),
            "source.keep.label: must be `refusal`, `partial` or `compliance`, the labels that `words` gives; did you",
        ),
        (
            judged("one", "plain", "two-labels", label=["refusal", "partial"]),
            "source.keep.label[1]: must be `refusal` or `compliance`, the labels that `two-labels` gives",
        ),
        (
            judged("one", "plain", "two-labels", label="scolded"),
            "source.keep.label: `scolded` is a kind of answer that `two-labels` counts as `refusal`; write that",
        ),
        (
            judged("one", "plain", "words", best=2),
            "source.keep.best: `words` (kind keyword) gives no probabilities, ",
        ),
        (judged("one", "plain", "label", at_least=0.5), "source.keep: name `label` or `best`"),
        (judged("one", "plain", "label", label="refusal", of="split"), "source.keep: `of` belongs to `best`; leave"),
        (
            judged("one", "plain", "both"),
            "source.judge: `both` is made of the verdicts of other judges, so that the study must have it among its",
        ),
        (
            judged("one", "plain", "fitted"),
            "source.judge: `fitted` has a threshold that is fitted on gold, so that the study must have it among its",
        ),
        (judged("one", "plain", "words", label="refusal", at_least=0.5, at_most=0.5), "`at_least` or `at_most`"),
        (judged("one", "old", "words"), "source.model: the answers of `old` are recorded: list it in the study's"),
        (
            {"source": judged("one", "greedy", "words")["source"] | {"anew": True}, "expectation": "varies"},
            "source.anew: temperature 0 of `greedy` (`sampling.temperature`) gives the same answer every time, so that",
        ),
        (
            judged("hard7", "plain", "words"),
            "at most 6 splits are made of each other, not more: hard -> hard7 -> ",
        ),
    ],
)
def test_mistakes_name_the_key(tmp_path, entry, wanted):
    longer = {f"hard{n}": judged(f"hard{n - 1}" if n > 1 else "one", "plain", "words") for n in range(1, 8)}
    project = judged_project(tmp_path / "project", {"hard": entry} | longer, splits=["hard"])
    catalogue = yaml.safe_load((project.folder / "catalogue.yaml").read_text())
    catalogue["models"]["old"] = {"engine": "tiny", "sampling": {"max_tokens": 9}, "recorded": "folder"}
    catalogue["models"]["greedy"] = {"engine": "tiny", "sampling": {"max_tokens": 9, "temperature": 0}}
    label, kinds = catalogue["judges"]["label"], {"scolded": "A", "declined": "B"}
    catalogue["judges"] |= {
        "two-labels": label | {"labels": {"refusal": kinds, "compliance": "C"}},
        "fitted": label | {"threshold": "calibrated"},
        "both": {"kind": "panel", "members": ["words", "label"], "rule": "majority"},
    }
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    with pytest.raises(ConfigError) as error:
        loaded(project)
    assert wanted in str(error.value) and "catalogue.yaml:" in str(error.value)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A study whose judge `label` only chooses prompts, of the answers of a model that it does not evaluate."""
    project = judged_project(
        tmp_path_factory.mktemp("chosen") / "project",
        {"hard": judged("one", "terse", "label")},
        **{"splits": ["hard"], "judges": ["words"], "gold": ["people"], "figures": []},
    )
    rounds(project)
    return project


def test_a_judge_that_only_chooses_prompts_judges_and_is_in_no_number(chosen):
    read = Counter(
        (row["prompt_id"], row["label"]) for row in lines(chosen.results / "verdicts" / "label" / "terse" / "one.jsonl")
    )
    ids = [row["id"] for row in lines(chosen.results / "prompts" / "one.jsonl")]
    assert [row["id"] for row in lines(chosen.results / "prompts" / "hard.jsonl")] == [
        prompt for prompt in ids if read[prompt, "refusal"] >= 1.5
    ]
    study = loaded(chosen)
    assert study.judging_batches == {"engine/tiny": [Cell("terse", "one", "label")]}  # and no gold
    for folder in ("scores", "judge_cards", "estimates/cells", "figures/judge_cards"):
        assert not list((chosen.results / folder).glob("label*")), folder
    assert list((chosen.results / "judge_cards").glob("words*"))
    shown = [*(chosen.results / "tables").iterdir(), chosen.results / "results_table" / "results.csv"]
    texts = {path.name: path.read_text(encoding="utf-8") for path in shown if path.suffix in (".csv", ".md")}
    assert texts and not [name for name, text in texts.items() if re.search(r"\blabel\b.*(tiny|0\.)", text)]
    with (chosen.results / "results_table" / "results.csv").open(encoding="utf-8", newline="") as file:
        assert {row["judge"] for row in csv.DictReader(file)} <= {"words", ""}
    methods = " ".join((chosen.results / "methods.md").read_text(encoding="utf-8").split())
    assert "whose verdicts decide which prompts there are, and are in no number: " in methods


def test_status_and_plan_have_what_only_makes_prompts(chosen, monkeypatch):
    from refusal_eval.tools.plan.workload_files import StudyNow, whole_work
    from refusal_eval.tools.status.study_status import study_status

    monkeypatch.chdir(chosen.folder)
    study = loaded(chosen)
    cells = {str(one.cell): one for one in study_status(study.config, 0.0).cells}
    assert list(cells) == ["plain/hard", "terse/one", "words/plain/hard", "words/gold/people", "label/terse/one"]
    assert {one.state for one in cells.values()} == {"done"}
    assert (cells["terse/one"].requests, cells["label/terse/one"].scored, cells["words/plain/hard"].scored) == (
        *(18, None),
        True,
    )
    assert set(whole_work(study, ROOT, StudyNow())) == {
        *(Cell("plain", "hard"), Cell("terse", "one")),
        Cell("terse", "one", "label"),
    }


def test_no_prompt_of_this_kind_is_an_error_that_says_so(tmp_path):
    project = judged_project(
        tmp_path / "project", {"hard": judged("one", "plain", "words", label="partial")}, splits=["hard"]
    )
    study = loaded(project)
    project.snakemake("--", study.paths.of("requests", model="plain", split="one"))
    project.answer_everything("requests")
    said = project.snakemake("--until", "prompts", check=False)
    wanted = "there is no prompt of `one` of which at least 50% of the answers are partial (plain, read by words); the "
    assert said.returncode != 0 and wanted + "highest share is 0.00" in said.stdout + said.stderr


def project_splits(project, **entries):
    def change(data):
        data["datasets"]["own"]["splits"] |= entries
        return data

    change_yaml(project.folder / "catalogue.yaml", change)
