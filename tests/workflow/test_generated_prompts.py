"""FalseReject's way to prompts on an engine that answers by script: drafts, critiques, and what is judged harmless."""

import contextlib
import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml
from project import CATALOGUE, Project, copy_of, make_project

from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.study.study import Study

pytestmark = pytest.mark.feature("written", "diversity", "generated")

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "tests" / "plugins" / "scripted_engine.py"
STUDIES = ROOT / "config" / "studies"
TEMPLATES = [*(f"falsereject_generator_{name}.md" for name in ("draft", "critique", "revision")), "generator_vet.md"]
# Of eight seeds, 0 to 7: what each role says to what it is shown. The templates are those of the study that ships.
DRAFT, CRITIQUE, REVISION, VET = (rf"^{begin}.*" for begin in ("Below are", "Somebody", "The question", "Could a"))
SCRIPT = [
    [DRAFT + r"seed 0", "Draft zero, may I blast it?"],
    [DRAFT + r"seed 1", "I cannot help with that."],
    [DRAFT + r"seed 2", "Seed 2?"],  # the seed itself
    [DRAFT + r"seed 3", "No question at all."],
    [DRAFT + r"seed 4", "Could you write one question in one line and nothing else?"],  # an echo
    [DRAFT + r"seed ([567])", r"Draft \1, may I shoot it?"],
    [CRITIQUE + r"zero, may", "Too tame. Say why."],
    [CRITIQUE + r"Draft ([67])", r"Critique of \1. Be bolder."],
    [CRITIQUE + r"Draft 5", "<cut>Too"],
    [CRITIQUE + r"Better", "Fine. Say whose."],
    [REVISION + r"Better (\w+)", r"Best \1, whose shot is it?"],
    [REVISION + r"Draft (zero|6)", r"Better \1, who shot it?"],
    [REVISION + r"Draft 7", "Draft 7, may I shoot it?"],  # the draft itself
    [VET + r"Best zero", "Harmless."],
    [VET + r"Best 6", "harmful"],
    [r"Best", "I cannot help with that."],
    [r"", "Sure, here it is."],
]


def generated_project(folder, **study):
    """Make a study with the chain of the study that ships, on eight seeds of two categories."""
    project = make_project(folder)
    catalogue = json.loads(json.dumps(CATALOGUE))
    catalogue["engines"]["writing"] = {"kind": "scripted", "served": "w", "folder": str(project.folder)}
    shipped = yaml.safe_load((STUDIES / "falsereject_generator_entries.yaml").read_text(encoding="utf-8"))
    catalogue["models"] = {
        name: {"engine": "writing", "label": entry.get("label"), "sampling": {"max_tokens": 300}}
        for name, entry in shipped["models"].items()
    }
    splits = shipped["datasets"]["falsereject-generator"]["splits"]
    splits["fr_seeds"] |= {"source": {"kind": "file", "path": "seeds.jsonl"}, "expected_rows": 8, "expected_kept": 8}
    catalogue["datasets"]["generator"] = shipped["datasets"]["falsereject-generator"]
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    for name in TEMPLATES:
        shutil.copy(STUDIES / name, project.folder / name)
    seeds = [
        {"id": str(n), "part": "a", "prompt": f"Is this seed {n}?" if n != 2 else "Seed 2?", "category": "ab"[n % 2]}
        | {"entities": [f"seed {n}", "gun"], "relations": [[f"seed {n}", "holds", "gun"]]}
        for n in range(8)
    ]
    write_jsonl(project.folder / "seeds.jsonl", seeds)
    (project.folder / "script.json").write_text(json.dumps(SCRIPT))
    usual = {"models": ["fr-target"], "splits": ["fr_seeds", "fr_harmless"], "samples": 1, "judges": ["words"]}
    usual |= {"diversity": ["fr_seeds", "fr_harmless"]}
    usual |= {"generated": [{"split": "fr_harmless", "seeds": "fr_seeds"}]}
    project.study(**(usual | {"gold": [], "plugins": [str(PLUGIN)]} | study))
    return project


def loaded(project):
    file = str(project.folder / "study.yaml")
    with contextlib.chdir(project.folder):  # entries name files relative to it
        return Study(load_study(study_values(file), file, str(ROOT)))


def lines(path):
    return list(read_jsonl(path))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = generated_project(tmp_path_factory.mktemp("generated") / "project")
    project.snakemake()
    return project


def table(project, name):
    with (project.results / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_draft_is_criticised_and_written_anew_and_the_last_is_vetted(generated):
    texts = {
        name: [row["messages"][-1]["content"] for row in lines(generated.results / "prompts" / f"fr_{name}.jsonl")]
        for name in ("draft_1", "critique_1", "draft_2", "critique_2", "draft_3", "harmless")
    }
    assert texts == {
        "draft_1": ["Draft zero, may I blast it?", *(f"Draft {n}, may I shoot it?" for n in (5, 6, 7))],
        "critique_1": ["Too tame. Say why.", "Critique of 6. Be bolder.", "Critique of 7. Be bolder."],
        "draft_2": ["Better zero, who shot it?", "Better 6, who shot it?"],
        "critique_2": ["Fine. Say whose."] * 2,
        "draft_3": ["Best zero, whose shot is it?", "Best 6, whose shot is it?"],
        "harmless": ["Best zero, whose shot is it?"],
    }
    (kept,) = lines(generated.results / "prompts" / "fr_harmless.jsonl")
    assert kept["cluster"] == "0" and kept["category"] == "a" and kept["source"]["kept"]["said"] == "Harmless."


def test_each_role_is_shown_what_it_needs(generated):
    asked = [row["asked"] for row in lines(generated.folder / "asked.jsonl")]
    (revision,) = [text for text in asked if text.startswith("The question") and "Draft zero" in text]
    assert "Too tame. Say why." in revision and '"seed 0"' in revision
    (first,) = [text for text in asked if text.startswith("Below are") and "seed 6?" in text]
    assert '["seed 6","gun"]' in first.replace(", ", ",") and '"holds"' in first


def test_what_is_kept_holds_no_words_of_a_template(generated):
    from refusal_eval.core.text_runs import runs_of
    from refusal_eval.features.written.writing_template import WritingTemplate

    said = set().union(*(WritingTemplate(generated.folder / name).runs(6) for name in TEMPLATES))
    for split in ("fr_draft_1", "fr_draft_3", "fr_harmless"):
        for row in lines(generated.results / "prompts" / f"{split}.jsonl"):
            assert not runs_of(row["messages"][-1]["content"], 6) & said
    states = {row["split"]: row for row in table(generated, "written")}["fr_draft_1"]
    assert float(states["echo"]) == pytest.approx(1 / 8)


STEPS = {  # by hand: rows in, lost by what became of them, and left
    "fr_draft_1": (8, {"refused": 1, "same": 1, "no_question": 1, "echo": 1}, 4),
    "fr_critique_1": (4, {"truncated": 1}, 3),
    "fr_draft_2": (3, {"same": 1}, 2),
    "fr_critique_2": (2, {}, 2),
    "fr_draft_3": (2, {}, 2),
    "fr_harmless": (2, {"left_out": 1}, 1),
}


def test_the_rows_of_each_step_add_up(generated):
    rows = [row for row in table(generated, "generated") if row["estimand"].startswith("step_rows_")]
    for step, (rows_in, lost, left) in STEPS.items():
        own = [row for row in rows if row["split"] == step and not row["category"]]
        found = {row["parameter"]: float(row["value"]) for row in own if row["estimand"] == "step_rows_lost"}
        (begun,) = (float(row["value"]) for row in own if row["estimand"] == "step_rows_in")
        (out,) = (float(row["value"]) for row in own if row["estimand"] == "step_rows_out")
        assert (begun, found, out) == (rows_in, lost, left) and begun == sum(found.values()) + out
    by_category = {(row["split"], row["category"]): float(row["value"]) for row in rows if row["category"]}
    assert by_category["fr_seeds", "a"] == 4 and by_category["fr_draft_1", "b"] == 2
    assert by_category["fr_harmless", "a"] == 1 and ("fr_harmless", "b") not in by_category


def test_what_is_kept_is_compared_with_its_own_seed(generated):
    rows = {(row["estimand"], row["category"]): row for row in table(generated, "generated") if row["judge"]}
    # The target refuses "Best zero" and no seed.
    for category in ("", "a"):
        values = [float(rows[f"generated_{name}", category]["value"]) for name in ("rate", "seeds_rate", "difference")]
        assert values == [1, 0, 1]
    assert rows["generated_difference", ""]["n_prompts"] == "1"
    results = (generated.results / "results_table" / "results.csv").read_text()
    assert "generated_difference" in results and "step_rows_lost" in results


def test_tables_and_figure_show_the_steps(generated):
    page = (generated.results / "tables" / "generated.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith("| Draft 1 |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:3] == ["Generator", "8"] and cells[-1] == "4"
    with (generated.results / "figures" / "generated_fr_harmless.csv").open(encoding="utf-8", newline="") as file:
        drawn = {(row["split"], row["state"]): float(row["rows"]) for row in csv.DictReader(file)}
    assert drawn["fr_draft_1", "left"] == 4 and drawn["fr_harmless", "left_out"] == 1 and drawn["fr_seeds", "left"] == 8


def test_a_second_run_makes_nothing(generated):
    said = generated.snakemake("-n")
    assert "Nothing to be done" in said.stdout + said.stderr


def test_what_is_made_again_from_the_same_answers_is_the_same(generated, tmp_path):
    project = copy_of(generated, tmp_path / "project")
    shutil.rmtree(project.results)
    project.snakemake()
    assert lines(project.folder / "asked.jsonl") == lines(generated.folder / "asked.jsonl")  # nothing was asked again
    names = ["prompts/fr_draft_3.jsonl", "prompts/fr_harmless.jsonl", "tables/generated.csv", "tables/diversity.csv"]
    for name in [*names, "figures/generated_fr_harmless.csv"]:
        assert (project.results / name).read_bytes() == (generated.results / name).read_bytes()


def test_the_diversity_of_the_splits_is_in_a_table(generated):
    rows = {(row["estimand"], row["split"], row["category"]): row for row in table(generated, "diversity")}
    # "is this", "this seed" and "seed N" of seven seeds, and "seed 2" of the one of two words.
    assert float(rows["distinct_2", "fr_seeds", ""]["value"]) == pytest.approx(10 / 22, abs=1e-5)
    assert (
        rows["self_bleu", "fr_harmless", ""]["value"] == "" and rows["self_bleu", "fr_seeds", "a"]["n_prompts"] == "4"
    )


def test_another_instruction_to_vet_asks_that_step_alone(generated, tmp_path):
    project = copy_of(generated, tmp_path / "project")
    file = project.folder / TEMPLATES[-1]
    file.write_text(file.read_text(encoding="utf-8") + "\nBe strict.\n", encoding="utf-8")
    _, said = project.planned_and_said()
    assert [one for one in said if one.startswith("Making the prompts")] == [
        "Making the prompts of fr_harmless",
        "Making the prompts of fr_harmless.asked",
    ]


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (
            {"source": {"by": "fr-targe"}},
            "fr_harmless.source.by: there is no model `fr-targe` in the catalogue; did you",
        ),
        ({"source": {"template": "none.md"}}, "fr_harmless.source.template: there is no file none.md"),
        ({"source": {"keep": ["harmful"]}}, "`harmful` is in `keep` and in `leave_out`"),
        ({"source": {"split": "fr_harmless"}}, "the splits are made of each other in a circle"),
        ({"columns": {"keep": ["focus"]}}, "fr_harmless.columns.keep: split `fr_draft_3` keeps no column `focus`"),
        (
            {"study": {"generated": [{"split": "fr_harmless", "seeds": "one"}], "splits": ["fr_harmless", "one"]}},
            "generated[0].seeds: `fr_harmless` is not made of it; name the split at the beginning of its chain",
        ),
        (
            {"study": {"generated": [{"split": "fr_harmless", "seeds": "fr_seed"}]}},
            "generated[0].seeds: `fr_seed` is not one of `splits` of the study; did you mean `fr_seeds`?",
        ),
        (
            {"study": {"generated": [{"split": "fr_seeds", "seeds": "fr_seeds"}]}},
            "`fr_seeds` cannot be its own seeds",
        ),
        (
            {"study": {"diversity": ["fr_harmles"]}},
            "diversity[0]: `fr_harmles` is not one of `splits` of the study; did",
        ),
        ({"study": {"diversity": ["fr_seeds", "fr_seeds"]}}, "diversity: names `fr_seeds` twice"),
    ],
)
def test_mistakes_name_the_key(tmp_path, entry, wanted):
    project = generated_project(tmp_path / "project", **entry.get("study", {}))
    catalogue = yaml.safe_load((project.folder / "catalogue.yaml").read_text())
    split = catalogue["datasets"]["generator"]["splits"]["fr_harmless"]
    split["source"] |= entry.get("source", {})
    split |= {"columns": entry["columns"]} if "columns" in entry else {}
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    with pytest.raises(ConfigError) as error:
        loaded(project)
    assert wanted in str(error.value)
