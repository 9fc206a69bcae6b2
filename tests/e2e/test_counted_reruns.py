"""What is executed after each change, counted by the server's own request metrics."""

import json
from pathlib import Path

import pytest
from project import ROOT, Project
from real import SHORT, real_project

from refusal_eval.ask.requests import RequestFile
from refusal_eval.core.files import read_json

pytestmark = pytest.mark.full


def executed(project: Project) -> dict[str, int]:
    """Run the study to its verdicts; return the requests that the servers finished, by stage, and check our count."""
    folder = project.results / "receipts"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    project.snakemake("--until", "llm_verdicts")
    counts = {"generate": 0, "judge": 0}
    for path in folder.rglob("*.json"):
        receipt = read_json(path)
        if before.get(path) != path.stat().st_mtime_ns and "engine" in receipt:
            assert receipt["engine"]["counters"]["requests"] == receipt["executed"]
            counts[path.relative_to(folder).parts[0]] += int(receipt["engine"]["counters"]["requests"])
    return counts


def answers_of(project: Project, *cells: tuple[str, str]) -> set[str]:
    """Return the distinct (prompt, answer) pairs of cells: each is one verdict request."""
    rows = [
        json.loads(line)
        for model, split in cells
        for line in (project.results / "answers" / model / f"{split}.jsonl").read_text().splitlines()
    ]
    return {f"{row['prompt_id']} {row['answer']}" for row in rows if row["state"] in ("complete", "truncated")}


def shared_tokens(files: list[RequestFile], block: int) -> int:
    """Return how many prompt tokens a prefix cache of whole blocks can save at best: each prefix is computed once.

    The last token of a prompt is always computed.
    """
    seen: set[tuple[int, ...]] = set()
    shared = 0
    requests = {request.key: request.token_ids for file in files for request in file.requests() if request.key}
    for token_ids in requests.values():
        prefixes = [tuple(token_ids[:end]) for end in range(block, len(token_ids), block)]
        shared += block * sum(prefix in seen for prefix in prefixes)
        seen.update(prefixes)
    return shared


def prefix_hits(project: Project, stage: str) -> int:
    """Return how many prompt tokens of a stage came from the engine's cache, by its own count."""
    receipts = (read_json(path) for path in (project.results / "receipts" / stage).rglob("*.json"))
    return sum(int(receipt["engine"]["counters"]["prefix_cache_hits"]) for receipt in receipts)


def test_samples_of_a_prompt_and_verdicts_of_a_rubric_cost_one_prefill(tmp_path: Path) -> None:
    """All requests of a batch come at once, and still nothing that they share is computed twice."""
    project = real_project(tmp_path / "project", determinism="seeded", samples=4)
    project.snakemake("--until", "llm_verdicts")
    for stage, kind in (("generate", "requests"), ("judge", "judge_requests")):
        best = shared_tokens(project.request_files(kind), block=32)
        hits = prefix_hits(project, stage)
        print(f"{stage}: {hits} prompt tokens from the cache, {best} at best")
        assert best > 500
        assert hits >= 0.95 * best


def test_only_what_is_affected_is_executed(tmp_path: Path) -> None:
    project = real_project(tmp_path / "project", determinism="seeded")
    lines = (ROOT / "config" / "prompts" / "alarming_but_safe.jsonl").read_text().splitlines()
    (project.folder / "safe.jsonl").write_text("\n".join(lines[:4]) + "\n")
    source = {"kind": "file", "path": "safe.jsonl"}
    project.catalogue(
        "datasets",
        "four-each",
        splits={
            "safe": {"source": source, "expectation": "comply"},
            "decline": {
                "source": {"kind": "bundled", "file": "should_decline.jsonl"},
                "expectation": "refuse",
                "sample": {"size": 4},
            },
            "sensitive4": {
                "source": {"kind": "bundled", "file": "sensitive.jsonl"},
                "expectation": "varies",
                "sample": {"size": 4},
            },
        },
    )
    assert executed(project)["generate"] == 2 * (4 + 4) * 2

    assert executed(project) == {"generate": 0, "judge": 0}  # nothing -> nothing

    project.catalogue("models", "declining", sampling={**SHORT, "temperature": 0.9})
    counts = executed(project)
    assert counts["generate"] == 8 * 2
    assert counts["judge"] <= len(answers_of(project, ("declining", "safe"), ("declining", "decline")))

    (project.folder / "safe.jsonl").write_text("\n".join(lines[:5]) + "\n")
    assert executed(project)["generate"] == 2 * 1 * 2

    project.study(samples=3)
    rubric = project.folder / "rubric.md"
    rubric.write_text("Think twice. " + (ROOT / "config" / "rubrics" / "refusal_yes_no.md").read_text())
    project.catalogue("judges", "label", rubric="rubric.md")
    cells = [(model, split) for model in ("plain", "declining") for split in ("safe", "decline")]
    # The judge reads all answers with the new rubric, those of the new samples included.
    counts = executed(project)
    assert counts == {"generate": 2 * (5 + 4), "judge": len(answers_of(project, *cells))}

    project.study(scoring={"tau": 0.5, "band": 0.2})
    project.catalogue("models", "plain", label="Another label")
    assert executed(project) == {"generate": 0, "judge": 0}

    project.study(models=["plain", "declining", "third"], splits=["safe", "decline", "sensitive4"])
    assert executed(project)["generate"] == 9 * 3 + 3 * 4 * 3
