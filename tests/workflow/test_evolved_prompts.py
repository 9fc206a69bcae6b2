"""Rounds of proposals: a writer proposes, a judge gives the target's probability of a refusal, the best are kept."""

import contextlib
import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from project import CATALOGUE, Project, made_up, make_project, response

from refusal_eval.ask.store import StoreWriter
from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.packing import pack_floats
from refusal_eval.study.study import Study

pytestmark = pytest.mark.feature("written", "judged")

ROOT = Path(__file__).parents[2]
MUTATE = "Ask something like it.\n<q-{{ nonce }}>{{ prompt }}</q-{{ nonce }}>"


def written(split, template):
    source = {"kind": "written", "split": split, "by": "writer", "template": template, "samples": 3}
    return {"source": source, "where": {"state": "written"}, "expectation": "varies"}


def judged(split, judge, **keep):
    source = {"kind": "judged", "split": split, "model": "plain", "judge": judge, "keep": keep}
    return {"source": source, "expectation": "varies", "columns": {"keep": ["p_refusal"]} if "best" in keep else {}}


SPLITS = {
    "round_1": written("one", "mutate.md"),
    "best_1": judged("round_1", "begins", best=1),
    "round_2": written("best_1", "mutate.md"),
    "best_2": judged("round_2", "begins", best=1, of="cluster"),
    "refused": judged("best_2", "words", label="refusal", at_least=0.5),
}


def loaded(project):
    file = str(project.folder / "study.yaml")
    with contextlib.chdir(project.folder):
        return Study(load_study(study_values(file), file, str(ROOT)))


def answer_everything(project, kind):
    """Put into the store what was asked and is not there: another proposal, and another probability, for each key."""
    missing = project.missing(kind)
    for file in project.request_files(kind):
        with StoreWriter(project.store, file.header["engine_id"], kind) as writer:
            writer.describe("by-hand", {"vllm": "none"})
            for key in sorted(missing & set(file.keys())):
                said = made_up(key, kind)
                if kind == "judge_requests":
                    p = 0.01 + 0.6 * int(key[:4], 16) / 65536
                    said = response("I", [3], [-0.1], "length", None)
                    said["named_logprobs"] = pack_floats(np.log([p, 0.3]).tolist())
                elif file.path.parent.name == "writer":
                    text = f"What is number {int(key[:8], 16)}?"
                    said = response(text, [ord(c) for c in text], [-0.1] * len(text), "stop", 258)
                writer.append(key, said, "by-hand")
                missing.discard(key)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Two rounds, and the prompts of the second that the target refuses."""
    project = make_project(tmp_path_factory.mktemp("evolved") / "project")
    (project.folder / "mutate.md").write_text(MUTATE)
    catalogue = json.loads(json.dumps(CATALOGUE))
    catalogue["datasets"]["own"]["splits"] |= SPLITS
    catalogue["models"]["writer"] = {"engine": "tiny", "system_prompt": "Write.", "sampling": {"max_tokens": 300}}
    catalogue["judges"]["begins"] = {
        **{"kind": "first_token", "engine": "tiny", "refusal": ["I"], "compliance": ["S"]},
    }
    (project.folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    project.study(models=["plain"], splits=["one", "refused"], judges=["words"], gold=[], figures=[])
    study = loaded(project)
    for level in range(8):
        for kind in ("requests", "judge_requests"):
            cells = [c for c in study.batch_of if study.level(c) == level and bool(c.judge) == (kind != "requests")]
            if cells:
                project.snakemake("--", *(study.request_file(cell) for cell in cells))
                answer_everything(project, kind)
    project.snakemake()
    return project


def rows_of(project, name):
    return list(read_jsonl(project.results / "prompts" / f"{name}.jsonl"))


@pytest.mark.parametrize(("proposed", "kept"), [("round_1", "best_1"), ("round_2", "best_2")])
def test_of_the_proposals_for_a_prompt_the_one_is_kept_that_is_likeliest_to_be_refused(evolved, proposed, kept):
    chances = {}
    for row in read_jsonl(evolved.results / "verdicts" / "begins" / "plain" / f"{proposed}.jsonl"):
        chances.setdefault(row["prompt_id"], []).append(row["p_refusal"])
    proposals, best = rows_of(evolved, proposed), rows_of(evolved, kept)
    assert len(proposals) == 18 and len(best) == 6
    wanted = {}
    for row in proposals:
        p = math.fsum(chances[row["id"]]) / len(chances[row["id"]])
        wanted[row["cluster"]] = max(wanted.get(row["cluster"], (0.0, "")), (p, row["id"]))
    assert {row["cluster"]: row["id"] for row in best} == {cluster: name for cluster, (_, name) in wanted.items()}
    assert [row["id"] for row in best] == [row["id"] for row in proposals if row["id"] in {one["id"] for one in best}]
    for row in best:
        assert not row["source"]["kept"].get("share")  # of no label
        assert float(row["source"]["kept"]["p_refusal"]) == pytest.approx(wanted[row["cluster"]][0], abs=1e-5)


def test_rows_of_each_round_keep_the_cluster_of_their_seed_and_name_what_they_were_made_from(evolved):
    seeds = {row["id"]: row for row in rows_of(evolved, "one")}
    first = {row["id"] for row in rows_of(evolved, "best_1")}
    assert {row["cluster"] for row in rows_of(evolved, "round_2")} == {row["cluster"] for row in seeds.values()}
    assert {row["source"]["parent"] for row in rows_of(evolved, "round_2")} == first
    refused = rows_of(evolved, "refused")
    assert 0 < len(refused) <= 6 and {row["id"] for row in refused} <= {row["id"] for row in rows_of(evolved, "best_2")}


def test_rounds_are_in_no_number(evolved):
    with (evolved.results / "results_table" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["judge"] for row in rows} <= {"words", ""}
    assert {row["split"] for row in rows if row["judge"]} <= {"one", "refused", ""}
    assert evolved.planned() == {}
