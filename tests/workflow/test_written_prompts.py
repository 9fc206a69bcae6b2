"""Prompts that a model writes from others, in a study whose engine is killed again and again."""

import contextlib
import csv
import json
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

pytestmark = pytest.mark.feature("written", "transforms", "hosted")

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "plugins" / "scripted_engine.py"
ASK = "REWORD the question.\n<q-{{ nonce }}>{{ prompt }}</q-{{ nonce }}>"
SHORTEN = "SHORTEN the question.\n<q-{{ nonce }}>{{ prompt }}</q-{{ nonce }}>"
SCRIPT = [
    [r"REWORD.*question 0", "Which thing is the zeroth?"],
    [r"REWORD.*question 1", "I cannot help with that."],
    [r"REWORD.*question 2", "one: Question 2"],
    [r"REWORD.*question 3", "<blocked>"],
    [r"REWORD.*question 4", "<cut>Which thing"],
    [r"REWORD.*question 5", '"Which thing is the fifth?"'],
    [r"SHORTEN.*zeroth", "RESULT: Zeroth?"],
    [r"SHORTEN.*fifth", "Fifth?"],
    [r"", "Sure, here it is."],
]
KILLS = (2, 5, 9)
SPLITS = ("one", "short")


def written(split, template, **more):
    source = {"kind": "written", "split": split, "by": "writer", "template": template} | more.pop("source", {})
    return {"source": source, "where": {"state": "written"}, "expectation": "comply"} | more


def written_project(folder, **study):
    """Make a study in which a writer rewords a split, and then shortens what it reworded."""
    project = make_project(folder)
    catalogue = json.loads(json.dumps(CATALOGUE))
    for name in ("writing", "asked"):
        catalogue["engines"][name] = {"kind": "scripted", "served": name, "folder": str(project.folder)}
    sampling = {"max_tokens": 300}
    catalogue["models"] = {
        "writer": {"engine": "writing", "sampling": sampling | {"temperature": 0}},
        "plain": {"engine": "asked", "sampling": sampling},
        "reworded": {"engine": "asked", "sampling": sampling, "transform": {"kind": "written", "split": "anew"}},
    }
    catalogue["datasets"]["own"]["splits"] |= {
        "anew": written("one", "ask.md"),
        "short": written(
            "anew", "shorten.md", source={"parse": {"after": "RESULT:"}}, columns={"keep": ["parent_text"]}
        ),
    }
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    (project.folder / "ask.md").write_text(ASK)
    (project.folder / "shorten.md").write_text(SHORTEN)
    (project.folder / "script.json").write_text(json.dumps(SCRIPT))
    usual = {"models": ["plain", "reworded"], "splits": ["one", "short"], "samples": 2, "judges": ["words"]}
    project.study(**(usual | {"gold": [], "plugins": [str(PLUGIN)]} | study))
    return project


def loaded(project):
    file = str(project.folder / "study.yaml")
    with contextlib.chdir(project.folder):  # entries name files relative to it
        return Study(load_study(study_values(file), file, str(ROOT)))


def lines(path):
    return list(read_jsonl(path))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The study, run again after each kill of its engine."""
    project = written_project(tmp_path_factory.mktemp("written") / "project")
    (project.folder / "kills.txt").write_text("\n".join(map(str, KILLS)))
    codes = [project.snakemake(check=False).returncode]
    while codes[-1] and len(codes) <= len(KILLS):
        codes.append(project.snakemake(check=False).returncode)
    # Of two loads that run at a time both may be killed.
    assert len(codes) > 2 and codes[-1] == 0 and not (project.folder / "kills.txt").read_text()
    return project


def test_no_request_is_asked_twice_whenever_the_engine_is_killed(killed):
    asked = Counter((row["served"], row["asked"], row["seed"]) for row in lines(killed.folder / "asked.jsonl"))
    # Six prompts are reworded, the two that come of it shortened. Two samples of six prompts, of two rewordings in
    # their place, and of the one that was shortened.
    assert set(asked.values()) == {1} and len(asked) == 6 + 2 + 2 * (6 + 2 + 1)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_fifty_kills_of_a_chain_leave_the_same_rows_and_repeat_only_what_was_in_flight(tmp_path):
    """The engine is killed 26 times between two requests, and 26 times while one is sent and not answered."""
    unkilled, killed = (written_project(tmp_path / name) for name in ("unkilled", "killed"))
    cells = [f"results/small/answers/{model}/{split}.jsonl" for model in ("plain", "reworded") for split in SPLITS]
    unkilled.snakemake("--cores", "1", "--", *cells)
    wanted = [(row["served"], row["asked"], row["seed"]) for row in lines(unkilled.folder / "asked.jsonl")]
    assert len(set(wanted)) == len(wanted) == 26

    # Between two answers the engine is killed once of each kind: what was in flight is a line of the log as well.
    points = [f"{2 * request}{end}" for request in range(26) for end in ("", "!")]
    (killed.folder / "kills.txt").write_text("\n".join(points))
    # Half of the kills end a job that the same run starts again, the others end the run.
    arguments = ("--cores", "1", "--retries", "1", "--", *cells)
    codes = [killed.snakemake(*arguments, check=False).returncode]
    while codes[-1] and len(codes) <= len(points):
        codes.append(killed.snakemake(*arguments, check=False).returncode)
    assert codes[-1] == 0 and len(codes) > 10 and not (killed.folder / "kills.txt").read_text()

    sent = lines(killed.folder / "asked.jsonl")
    answered = [(row["served"], row["asked"], row["seed"]) for row in sent if "killed" not in row]
    assert sorted(answered, key=str) == sorted(wanted, key=str)  # so only what was in flight was sent again
    assert len(sent) - len(answered) == 26

    for folder in ("prompts", "answers", "transformed"):
        made = {file.relative_to(unkilled.results): file for file in (unkilled.results / folder).rglob("*.jsonl")}
        again = {file.relative_to(killed.results) for file in (killed.results / folder).rglob("*.jsonl")}
        assert again == set(made) and made
        for name, file in made.items():
            assert (killed.results / name).read_bytes() == file.read_bytes(), name


def test_shards_share_the_requests_of_each_level_and_a_judge_of_no_table_says_what_the_writer_refused(tmp_path):
    project = written_project(tmp_path / "project", shards=3, figures=[])
    (project.folder / "severe.yaml").write_text("refusal_openings: ['which thing is the fifth', 'i cannot']\n")

    def change(data):
        data["datasets"]["own"]["splits"]["anew"]["source"]["judge"] = "severe"
        return data | {"judges": data["judges"] | {"severe": {"kind": "keyword", "lists": ["severe.yaml"]}}}

    change_yaml(project.folder / "catalogue.yaml", change)
    project.snakemake()
    # The fifth is refused by this judge alone, so that nothing but the zeroth is left to shorten.
    rows = {name: lines(project.results / "prompts" / f"{name}.jsonl") for name in ("anew", "short")}
    assert [row["messages"][0]["content"] for row in rows["anew"]] == ["Which thing is the zeroth?"]
    assert [row["messages"][0]["content"] for row in rows["short"]] == ["Zeroth?"]
    asked = Counter((row["served"], row["asked"], row["seed"]) for row in lines(project.folder / "asked.jsonl"))
    assert set(asked.values()) == {1} and len(asked) == 6 + 1 + 2 * (6 + 1 + 1)
    receipts = Counter(str(path.parent.relative_to(project.results)) for path in project.results.rglob("*-of-3.json"))
    folder = "receipts/generate/engine"
    assert receipts == {
        f"{folder}/{name}": 3 for name in ("writing", "writing/_level1", "asked", "asked/_level1", "asked/_level2")
    }
    results = (project.results / "results_table" / "results.csv").read_text()
    assert ",words," in results and ",severe," not in results
    assert not (project.results / "scores" / "severe").exists()


def test_rows_are_what_the_writer_wrote_and_a_refusal_or_a_copy_never_passes(killed):
    one, anew, short = (lines(killed.results / "prompts" / f"{name}.jsonl") for name in ("one", "anew", "short"))
    assert [(row["messages"][0]["content"], row["source"]["parent"]) for row in anew] == [
        ("Which thing is the zeroth?", one[0]["id"]),
        ("Which thing is the fifth?", one[5]["id"]),
    ]
    assert [row["messages"][0]["content"] for row in short] == ["Zeroth?"]
    assert short[0]["source"]["parent"] == anew[0]["id"] and short[0]["cluster"] == one[0]["cluster"]
    assert short[0]["source"]["kept"]["parent_text"] == "Which thing is the zeroth?"


def test_the_table_says_what_became_of_every_row(killed):
    with (killed.results / "tables" / "written.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["split"]: row for row in csv.DictReader(file)}
    sixth = {state: pytest.approx(1 / 6, abs=1e-5) for state in ("refused", "same", "blocked", "truncated")}
    for name, total, wanted in (
        ("anew", 6, sixth | {"written": pytest.approx(2 / 6, abs=1e-5)}),
        ("short", 2, {"written": 0.5, "unparsable": 0.5}),
    ):
        shares = {state: float(rows[name][state]) for state in rows[name] if state not in ("split", "writer", "n_rows")}
        assert int(rows[name]["n_rows"]) == total and sum(shares.values()) == pytest.approx(1, abs=1e-5)
        assert {state: share for state, share in shares.items() if share} == wanted
    assert "asked to write 6 prompts" in " ".join((killed.results / "methods.md").read_text().split())


def test_a_transform_asks_the_rewordings_and_counts_the_rest(killed):
    asked = lines(killed.results / "transformed" / "reworded" / "one.jsonl")
    texts = [row["messages"][0]["content"] for row in asked]
    assert texts[0] == "Which thing is the zeroth?" and texts[5] == "Which thing is the fifth?"
    assert [row.get("untransformed") for row in asked[1:5]] == ["not_written"] * 4
    with (killed.results / "tables" / "transforms.csv").open(encoding="utf-8", newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["split"] == "one")
    assert float(row["untransformed"]) == pytest.approx(4 / 6)


def test_writers_and_what_they_are_asked_are_in_no_number(killed):
    results = (killed.results / "results_table" / "results.csv").read_text()
    assert "anew.asked" not in results
    assert not list((killed.results / "scores").rglob("writer/*"))


def test_another_last_template_plans_the_last_step_only(killed, tmp_path):
    project = copy_of(killed, tmp_path / "project")
    (project.folder / "shorten.md").write_text(SHORTEN + "\nBe brief.")
    _, said = project.planned_and_said()
    assert [one for one in said if one.startswith("Making the prompts")] == [
        "Making the prompts of short",
        "Making the prompts of short.asked",
    ]
    assert [one for one in said if one.startswith("Generating")] == [
        "Generating answers: engine/asked/_level2, load 0-of-1",
        "Generating answers: engine/writing/_level1, load 0-of-1",
    ]


def test_the_plan_counts_the_writers(killed, monkeypatch):
    from refusal_eval.tools.plan.workload import COUNTED
    from refusal_eval.tools.plan.workload_files import StudyNow, whole_work

    monkeypatch.chdir(killed.folder)  # where a plan looks for what there is already
    study = loaded(killed)
    guessed = whole_work(study, ROOT, StudyNow())
    assert guessed[Cell("writer", "anew.asked")].requests == 6 and guessed[Cell("writer", "short.asked")].requests == 6
    made = {str(path) for path in Path(study.paths.results).rglob("*.jsonl")}
    counted = whole_work(study, ROOT, StudyNow(made, 2))
    assert [counted[Cell("writer", f"{name}.asked")].requests for name in ("anew", "short")] == [6, 2]
    assert counted[Cell("plain", "short")].known == COUNTED and counted[Cell("plain", "short")].requests == 2


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ({"where": None}, "short.where: the study evaluates it, and rows that were refused or failed hold no prompt"),
        ({"source": {"by": "righter"}}, "short.source.by: there is no model `righter` in the catalogue; did you mean"),
        ({"source": {"samples": 2}}, "short.source.samples: temperature 0 of `writer` gives the same answer every"),
        ({"source": {"template": "none.md"}}, "short.source.template: there is no file none.md"),
        ({"source": {"template": "open.md"}}, "short.source.template: template open.md lets `prompt` close its own"),
        ({"source": {"template": "more.md"}}, "split `anew` keeps no column `focus` (`columns.keep`)"),
        ({"source": {"split": "short"}}, "short.source.split: the splits are made of each other in a circle"),
        ({"source": {"judge": "wordz"}}, "short.source.judge: there is no judge `wordz` in the catalogue; did"),
        ({"columns": {"keep": ["parent"]}}, "short.columns.keep: split `anew` keeps no column `parent`"),
        ({"source": {"checks": {"without": ["focus"]}}}, "short.source.checks.without: split `anew` keeps no column"),
    ],
)
def test_mistakes_name_the_key(tmp_path, entry, wanted):
    project = written_project(tmp_path / "project")
    (project.folder / "open.md").write_text("Reword {{ prompt }}")
    (project.folder / "more.md").write_text(ASK + "{{ focus }}")
    catalogue = yaml.safe_load((project.folder / "catalogue.yaml").read_text())
    split = catalogue["datasets"]["own"]["splits"]["short"]
    split["source"] |= entry.get("source", {})
    split |= {key: value for key, value in entry.items() if key != "source"}
    if split["where"] is None:
        del split["where"]
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    with pytest.raises(ConfigError) as error:
        loaded(project)
    assert wanted in str(error.value)
