"""Bad input meets one clear message, no traceback, and leaves no half-written output."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import Project, make_project
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.requests import read_requests


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    return make_project(tmp_path / "project")


def refused(project: Project, *arguments: str) -> str:
    """Run the study; return what the user reads."""
    run = project.snakemake(*arguments, check=False)
    reported = run.stdout + run.stderr
    assert run.returncode != 0
    assert "Traceback" not in reported
    assert not list(project.folder.rglob("*.tmp"))
    return reported


def test_two_study_files_at_once_are_not_merged(fresh: Project) -> None:
    run = fresh.snakemake("-n", "--configfile", "study.yaml", "catalogue.yaml", check=False)
    assert run.returncode != 0 and "is complete and is never merged" in run.stdout + run.stderr


def test_another_study_of_the_same_name_from_elsewhere(fresh: Project, tmp_path: Path) -> None:
    fresh.snakemake("--until", "prompts")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("study.yaml", "catalogue.yaml"):
        text = (fresh.folder / name).read_text().replace("samples: 3", "samples: 4")
        (elsewhere / name).write_text(text.replace("path: ", f"path: {fresh.folder}/"))
    catalogue = elsewhere / "catalogue.yaml"
    catalogue.write_text(
        catalogue.read_text()
        .replace("rubric.md", f"{fresh.folder}/rubric.md")
        .replace("- words", f"- {fresh.folder}/words")
    )
    run = fresh.snakemake("-n", "--configfile", str(elsewhere / "study.yaml"), check=False)
    assert run.returncode != 0 and "belong to" in run.stdout + run.stderr


def test_results_where_nothing_can_be_written_are_told_in_a_sentence(fresh: Project) -> None:
    """Not even root makes folders in /sys."""
    study = yaml.safe_load((fresh.folder / "study.yaml").read_text())
    (fresh.folder / "study.yaml").write_text(yaml.safe_dump(study | {"results_dir": "/sys/refusal-eval"}))
    reported = refused(fresh, "--until", "prompts")
    assert re.search(r"/sys/refusal-eval: .*; make it readable and writable and run again\. It is one of", reported)
    assert "study_folder.py" not in reported


BAD_ROWS = {
    "torn": ('{"prompt": "fine"}\n{"prompt": \n', "torn.jsonl, line 2"),
    "nothing": ("", "nothing.jsonl"),
    "blank": ('{"prompt": "fine"}\n{"prompt": "  "}\n', "blank.jsonl, row 2"),
    "number": ('{"prompt": "fine"}\n{"prompt": 5}\n', "number.jsonl, row 2"),
    "fewer": ('{"prompt": "fine"}\n', "fewer.jsonl: has 1 rows, but expected_rows says 7"),
}


def test_bad_rows_name_file_and_row_and_spare_the_other_splits(fresh: Project) -> None:
    splits: dict[str, dict[str, Any]] = {}
    for name in ("one", *BAD_ROWS):
        splits[name] = {"source": {"kind": "file", "path": f"{name}.jsonl"}, "expectation": "comply"}
    splits["fewer"]["expected_rows"] = 7
    for name, (content, _) in BAD_ROWS.items():
        (fresh.folder / f"{name}.jsonl").write_text(content)
    fresh.catalogue("datasets", "own", splits=splits)
    fresh.study(splits=[*splits])
    reported = refused(fresh, "--until", "requests")
    assert [message for _, message in BAD_ROWS.values() if message not in reported] == []
    assert [path.name for path in (fresh.results / "prompts").glob("*.jsonl")] == ["one.jsonl"]
    assert (fresh.results / "requests" / "plain" / "one.jsonl").exists()


def test_a_wrong_column_of_a_local_file_stops_a_dry_run(fresh: Project) -> None:
    (fresh.folder / "renamed.jsonl").write_text('{"question": "fine"}\n')
    split = {"source": {"kind": "file", "path": "renamed.jsonl"}, "expectation": "comply"}
    fresh.catalogue("datasets", "own", splits={"renamed": split})
    fresh.study(splits=["renamed"])
    assert "renamed.jsonl has no column `prompt`" in refused(fresh, "-n")


def test_labels_that_are_not_reachable_tokens_are_reported_before_generation(fresh: Project) -> None:
    fresh.catalogue("judges", "label", labels={"refusal": "refusal", "compliance": "C"})
    assert "is not one token" in refused(fresh, "--until", "check_judge")
    assert not (fresh.results / "receipts").exists()


def test_a_users_judge_that_fails_on_everything_gives_no_verdicts(fresh: Project) -> None:
    (fresh.folder / "mine.py").write_text("def judge(messages, answer):\n    raise RuntimeError('not today')\n")
    data = yaml.safe_load((fresh.folder / "catalogue.yaml").read_text())
    data["judges"]["mine"] = {"kind": "python", "file": "mine.py"}
    (fresh.folder / "catalogue.yaml").write_text(yaml.safe_dump(data))
    fresh.study(judges=["mine"], gold=[])
    fresh.snakemake("--until", "requests")
    fresh.answer_everything("requests")
    reported = refused(fresh)
    assert "the judge failed on every answer" in reported and "not today" in reported
    assert not list((fresh.results / "verdicts").rglob("*.jsonl"))


def test_too_little_memory(fresh: Project) -> None:
    fresh.catalogue("engines", "tiny", memory_share=1.0)
    reported = refused(fresh, "--until", "generate")
    assert "too little memory" in reported and "memory_share" in reported


@pytest.mark.full
def test_a_lost_store_is_noticed(fresh: Project) -> None:
    fresh.complete()
    shutil.rmtree(fresh.results / "answers" / "plain")
    shutil.rmtree(fresh.results / "tables")
    shutil.rmtree(fresh.results / "verdicts")
    shutil.rmtree(fresh.store)
    message = " ".join(refused(fresh).split())
    assert "not in the store" in message
    listed = re.search(r"delete the folders ([\w, ]+) of this study", message)
    assert listed
    for folder in re.split(", | and ", listed.group(1)):
        shutil.rmtree(fresh.results / folder, ignore_errors=True)
    # All answers of the batch, as all of it is executed again: the two models share the engine's load.
    assert fresh.planned("--until", "answers")["answers"] == 4


TEMPLATES = Path(__file__).parents[1] / "odd_inputs" / "05-templates"


def test_a_template_that_renders_what_is_not_meant_is_stopped_before_anything_is_asked(fresh: Project) -> None:
    models = {}
    for name in ("nogen.jinja", "cut.jinja", "bom.jinja", "think.jinja"):
        shutil.copy(TEMPLATES / name, fresh.folder / name)
        models[name.partition(".")[0].replace("_", "-")] = {"like": "plain", "template": name}
    models["think"]["template_options"] = {"enable_thinking": "false"}
    models["continues"] = {"like": "plain", "template": "none"}
    (fresh.folder / "odd.yaml").write_text(yaml.safe_dump({"models": models}))
    byte_tokenizer(fresh.folder / "model", adds_bos=True)
    (fresh.folder / "one.jsonl").write_text('{"prompt": "<bos>How do I kill a Python process?"}\n')
    fresh.study(models=[*models], splits=["one"], comparisons=[], catalogue=["catalogue.yaml", "odd.yaml"])
    reported = refused(fresh, "--until", "requests")
    assert "the template nogen.jinja writes '<|im_end|> <|im_start|>assistant' before a reply in a dialogue" in reported
    assert "the template cut.jinja cuts the middle and the end of a message of role `user`" in reported
    assert not (fresh.results / "receipts").exists()
    made = {name: fresh.results / "requests" / name / "one.jsonl" for name in models}
    assert [name for name, path in made.items() if path.exists()] == ["bom", "think", "continues"]
    assert read_requests(made["bom"]).notes == []
    assert next(read_requests(made["bom"]).requests()).token_ids[0] != ord("\ufeff")
    (note,) = read_requests(made["think"]).notes
    assert note.startswith('`template_options`: `enable_thinking: "false"` changes nothing')
    assert note in reported
    (note,) = read_requests(made["continues"]).notes
    assert note.startswith("prompts begin with `<bos>` twice: the tokenizer adds it, and the prompts hold it")
