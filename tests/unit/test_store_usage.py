"""What the store holds, what no study asks for, and that only this is ever removed."""

import os
import re
import socket
import time
from pathlib import Path

import pytest
import yaml
from project import Project, change_yaml, make_project
from store_files import response

from refusal_eval.__main__ import main
from refusal_eval.ask.store import GATE, NEWEST_READ, StoreReader, StoreWriter
from refusal_eval.ask.store_index import index_path, load_index
from refusal_eval.core.canonical import KEY_VERSION
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import sha256_of, write_json, write_jsonl
from refusal_eval.study.study import Study
from refusal_eval.tools.store import store_command, store_studies
from refusal_eval.tools.store.store_studies import read_asks, read_study, request_files, study_files
from refusal_eval.tools.store.store_usage import (
    DAY,
    HOUR,
    by_engine,
    prune_file,
    still_written,
    store_indexes,
    store_usage,
)

TINY, OTHER = "1111222233334444", "aaaabbbbccccdddd"  # engine ids
IDENTITY = {"weights": {"repo": "people/tiny", "commit": "0123456789abcdef"}, "dtype": "bfloat16"}
KEYS = [sha256_of(i) for i in range(100)]
ROOT = store_command.ROOT


def store(folder: Path, keys, engine=TINY, text="an answer", job="job"):
    """Write responses; return their file."""
    with StoreWriter(folder, engine, job) as writer:
        writer.describe("s1", {"vllm": "x"})
        for key in keys:
            writer.append(key, response(text), "s1")
    return writer.path


def left_by_a_killed_job(path: Path, silent: float, pid: int, host: str | None = None) -> Path:
    """Return a store file as a killed writer leaves it: not closed, its last record torn, silent for some seconds."""
    index_path(path).unlink()
    path.write_bytes(path.read_bytes() + b'{"key":"' + KEYS[0].encode())
    killed = path.with_name(f"20250101T000000.000000-job-{host or socket.gethostname()}-{pid}.jsonl")
    path.rename(killed)
    os.utime(killed, (time.time() - silent,) * 2)
    return killed


def no_process() -> int:
    """Return a number that no process has."""
    return int(Path("/proc/sys/kernel/pid_max").read_text()) + 1


def content(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with what it holds."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    """Return a study of nine cells that ask for keys 0 to 17, two each, and are up to date in Snakemake's eyes."""
    project = make_project(tmp_path / "project")
    monkeypatch.chdir(project.folder)
    monkeypatch.setattr(store_studies, "planned_rendering", lambda file, root: 0)
    for number, path in enumerate(files_of(project)):
        render(path, KEYS[2 * number : 2 * number + 2])
    write_json(project.results / "engines" / "tiny.json", {"engine": "tiny", "engine_id": TINY, "identity": IDENTITY})
    return project


def files_of(project: Project, name: str = "study.yaml") -> list[str]:
    config = read_study(str(project.folder / name), ROOT).config
    assert config is not None
    return request_files(Study(config))


def render(path, keys, engine=TINY, dialogue=None) -> None:
    """Write a request file by hand."""
    header = {"key_version": KEY_VERSION, "engine_id": engine, "identity": IDENTITY, "prefix": []}
    header |= {"sampling": {}, "determinism": "seeded"}
    samples = [{"sample": place, "seed": place, "key": key} for place, key in enumerate([*keys, None])]
    rows = [{"prompt_id": "p", "turn": 0, "token_ids": [1], "samples": samples}]
    write_jsonl(path, [header | ({"dialogue": dialogue} if dialogue else {}), *rows])


def second_study(project: Project) -> None:
    """Write another study file of one cell beside the first, and what its one cell asks for: keys 50 and 51."""
    data = yaml.safe_load((project.folder / "study.yaml").read_text())
    data |= {"study": "second", "models": ["plain"], "splits": ["one"], "judges": ["words"], "gold": []}
    (project.folder / "second.yaml").write_text(yaml.safe_dump(data))
    for path in files_of(project, "second.yaml"):
        render(path, KEYS[50:52])


PLUGIN = """
from typing import Literal

from refusal_eval.config.kinds import JUDGES
from refusal_eval.judges.judge_base import AnswerJudge


@JUDGES.add
class Shortest(AnswerJudge):
    kind: Literal["shortest"]
"""


@pytest.fixture
def reported(capsys):
    """Return a function that runs the tool and returns its exit code and everything that it says."""

    def run(*arguments):
        code = main(["store", *([] if any(one.endswith(".yaml") for one in arguments) else ["study.yaml"]), *arguments])
        output = capsys.readouterr()
        assert all(len(line) <= 120 for line in output.out.splitlines())
        return code, output.out + output.err

    return run


# --- What is there -------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_files(tmp_path):
    first, second = store(tmp_path, KEYS[:10]), store(tmp_path, KEYS[5:12], text="a longer answer")
    store(tmp_path, KEYS[:1], engine=OTHER)
    usage = store_usage(store_indexes(tmp_path), {TINY: set(KEYS[:8]), "another": set(KEYS)})
    tiny, other = by_engine(usage).itertuples()
    assert (tiny.Index, tiny.responses, tiny.distinct, tiny.files) == (TINY, 17, 12, 2)
    assert tiny.bytes == first.stat().st_size + second.stat().st_size
    assert tiny.unasked == 2 + 4
    lines = first.read_bytes().splitlines(keepends=True)[-2:] + second.read_bytes().splitlines(keepends=True)[-4:]
    assert tiny.unasked_bytes == sum(map(len, lines))
    times = [record["time"] for record in StoreReader(tmp_path, TINY).lookup(KEYS).values()]
    assert tiny.first == min(times) and tiny.last > tiny.first
    assert (other.responses, other.unasked) == (1, 1)


def test_a_study_with_plugins_is_looked_at_beside_others(project, reported):
    store(project.store, KEYS)
    second_study(project)
    (project.folder / "kinds.py").write_text(PLUGIN)
    (project.folder / "kinds.yaml").write_text(yaml.safe_dump({"judges": {"mine": {"kind": "shortest"}}}))
    study = yaml.safe_load((project.folder / "study.yaml").read_text())
    own = {"plugins": ["kinds.py"], "catalogue": [*study["catalogue"], "kinds.yaml"]}
    change_yaml(project.folder / "study.yaml", lambda study: study | own | {"judges": [*study["judges"], "mine"]})
    for files in (["study.yaml", "second.yaml"], ["second.yaml", "study.yaml"]):
        code, text = reported(*files)
        assert code == 0 and "study.yaml: 9 of 9 cells rendered" in text, text
        assert "second.yaml: 1 of 1 cells rendered" in text, text


def test_a_store_is_only_looked_at(project, reported):
    store(project.store, KEYS)
    killed = left_by_a_killed_job(store(project.store, KEYS[:50], text="x" * 30_000), 2 * HOUR, no_process())
    assert killed.stat().st_size > 1_000_000  # a reader would save an index of it
    before = content(project.folder)
    assert reported()[0] == reported("--prune")[0] == 0
    assert content(project.folder) == before


def test_what_is_shown_of_engines_and_of_a_study(project, reported):
    store(project.store, [*KEYS[:20], KEYS[0]])
    code, text = reported()
    assert code == 0 and "\nall " not in text
    assert re.search(rf"^{TINY} +21 +20 +1 +[\d,]+ +1 +20..-..-.. ..:.. +20..-..-.. ..:..$", text, re.MULTILINE)
    assert "tiny: commit 01234567, repo people/tiny, dtype bfloat16" in text
    assert "study.yaml: 9 of 9 cells rendered, 18 different requests" in text
    assert f"{TINY}: 2 of 21, " in text
    store(project.store, [sha256_of(f"more {i}") for i in range(1200)], engine=OTHER)
    text = reported()[1]
    assert f"{OTHER}: 1,200 of 1,200" in text and "of no study that was looked at" in text
    assert re.search(r"^all +1,221 +1,220 +1 ", text, re.MULTILINE)


def test_activations_and_directions_are_shown_and_stay(project, reported):
    store(project.store, KEYS)
    assert "activations" not in reported()[1]
    for name, size in ((f"activations/{TINY}/a", 1200), (f"activations/{OTHER}/b", 800), ("directions/c", 70)):
        (project.store / name).parent.mkdir(parents=True, exist_ok=True)
        (project.store / f"{name}.safetensors").write_bytes(b"x" * size)
    text = reported("--prune", "--yes")[1]
    assert "activations: 2 files, 2,000 bytes, which `--prune` leaves" in text
    assert "directions: 1 files, 70 bytes" in text
    assert len(list(project.store.rglob("*.safetensors"))) == 3


def test_a_store_that_is_not_there_yet_or_empty(project, reported):
    assert reported() == (0, "There is no store at results/store yet: nothing was generated.\n")
    assert reported("--store", "elsewhere")[0] == 1
    (project.store / TINY).mkdir(parents=True)
    assert reported("--prune", "--yes")[0] == 0


def test_cells_that_are_not_rendered_are_reported(project, reported):
    store(project.store, KEYS)
    for path in files_of(project)[:2]:
        os.unlink(path)
    Path(files_of(project)[2]).write_text("{}\n")
    text = reported()[1]
    assert "study.yaml: 6 of 9 cells rendered, 12 different requests; what the others ask for is not known" in text
    assert "none of these studies asks for, as far as that is known" in text


@pytest.mark.parametrize(
    ("changes", "arguments", "code", "reported_of"),
    [
        ({}, (), 0, f"{TINY}: 80 of 100"),
        (
            {"store_dir": "elsewhere"},
            ("--store", "results/store"),
            0,
            "second.yaml: skipped, its store is another one (elsewhere)",
        ),
        ({"store_dir": "elsewhere"}, (), 1, "different stores (results/store, elsewhere); choose one with --store"),
        ({"models": ["plian"]}, (), 0, "second.yaml: not valid, what it asks for is not known"),
        ({"models": ["plian"]}, (), 0, "did you mean `plain`"),
    ],
)
def test_a_second_study_asks_for_more_or_is_reported_with_what_is_wrong(
    project, reported, changes, arguments, code, reported_of
):
    second_study(project)
    change_yaml(project.folder / "second.yaml", lambda study: study | changes)
    store(project.store, KEYS)
    assert f"{TINY}: 82 of 100" in reported()[1]
    found, text = reported("study.yaml", "second.yaml", *arguments)
    assert found == code and reported_of in " ".join(text.split())


def test_study_files_are_those_with_a_study(tmp_path):
    (tmp_path / "a.yaml").write_text("study: a\n")
    (tmp_path / "b.yml").write_text("study: b\n")
    (tmp_path / "profile.yaml").write_text("cores: 1\n")
    (tmp_path / "list.yaml").write_text("- study\n")
    (tmp_path / "broken.yaml").write_text("study: [\n")
    assert [Path(path).name for path in study_files(tmp_path)] == ["a.yaml", "b.yml"]


def test_the_studies_of_config_are_the_default(monkeypatch, tmp_path, capsys, repository):
    monkeypatch.chdir(tmp_path)
    assert main(["store"]) == 0
    assert "There is no store at results/store yet" in capsys.readouterr().out
    asks = read_asks(read_study(str(repository / "config" / "config.yaml"), repository).config)
    assert (asks.cells, asks.rendered) == (6, 0)


def test_studies_that_ran_beside_those_of_config_are_found(project, monkeypatch, capsys):
    second_study(project)
    store(project.store, KEYS)
    config = project.folder / "config"
    config.mkdir()
    (project.folder / "second.yaml").rename(project.folder / "config" / "second.yaml")
    # The study names its catalogue relative to itself.
    (config / "second.yaml").write_text((config / "second.yaml").read_text().replace("catalogue.y", "../catalogue.y"))
    write_json(project.results / "study.json", {"file": str(project.folder / "study.yaml"), "study": "small"})
    monkeypatch.setattr(store_command, "ROOT", project.folder)
    (config / "catalogue").symlink_to(ROOT / "config" / "catalogue")
    (config / "prompts").symlink_to(ROOT / "config" / "prompts")
    assert main(["store"]) == 0
    text = capsys.readouterr().out
    assert "config/second.yaml: 1 of 1 cells" in text and "study.yaml: 9 of 9 cells" in text


def test_what_a_store_notes_of_other_folders_is_looked_at_or_a_reason_to_remove_nothing(project, reported, tmp_path):
    """Of results that are gone it is none; where the folder that held them is not there, they may be elsewhere."""

    def told(*arguments):
        code, said = reported(*arguments)
        return code, " ".join(said.split())

    write_json(project.results / "study.json", {"file": str(project.folder / "study.yaml"), "study": "small"})
    far = tmp_path / "far" / "results" / "mine"
    note = project.store / "studies" / "1234.json"
    write_json(note, {"file": str(tmp_path / "far" / "mine.yaml"), "folder": str(far), "study": "mine"})
    store(project.store, KEYS)
    before = content(project.store)
    code, said = told("--prune", "--yes")
    assert code == 1 and content(project.store) == before
    assert f"{far} holds results of a study, as results/store/studies/1234.json says, and cannot be seen" in said
    far.parent.mkdir(parents=True)
    assert told("--prune")[0] == 0, "its results are gone"
    far.mkdir(parents=True)
    code, said = told("--prune")
    assert code == 1 and f"{far} holds results of {tmp_path}/far/mine.yaml, which is gone" in said
    study = yaml.safe_load((project.folder / "study.yaml").read_text())
    catalogue = str(project.folder / "catalogue.yaml")
    Path(tmp_path, "far", "mine.yaml").write_text(yaml.safe_dump(study | {"catalogue": [catalogue], "study": "mine"}))
    code, said = told("--prune")
    assert code == 1 and f"{far} holds results of ../far/mine.yaml, which was not looked at" in said
    code, said = told("study.yaml", "../far/mine.yaml", "--prune")
    assert code == 1 and "mine.yaml, which has its results elsewhere when it is read from here" in said
    note.write_text("{}")
    code, said = told("--prune")
    assert code == 1 and "studies/1234.json is damaged" in said


def test_results_of_a_study_in_config_that_cannot_be_seen_are_a_reason_too(project, monkeypatch, capsys, tmp_path):
    store(project.store, KEYS)
    away, config = tmp_path / "away" / "results", project.folder / "config"
    config.mkdir()
    for name in ("catalogue", "prompts"):
        (config / name).symlink_to(ROOT / "config" / name)
    data = yaml.safe_load((project.folder / "study.yaml").read_text()) | {"catalogue": ["../catalogue.yaml"]}
    (config / "study.yaml").write_text(yaml.safe_dump(data))
    data |= {"study": "second", "results_dir": str(away), "store_dir": str(project.store)}
    (config / "second.yaml").write_text(yaml.safe_dump(data))
    write_json(project.results / "study.json", {"file": str(config / "study.yaml"), "study": "small"})
    note = {"file": str(config / "second.yaml"), "folder": str(away / "second"), "study": "second"}
    write_json(project.store / "studies" / "1234.json", note)
    monkeypatch.setattr(store_command, "ROOT", project.folder)
    before = content(project.store)
    code = main(["store", "--prune", "--yes"])
    said = " ".join("".join(capsys.readouterr()).split())
    assert code == 1 and content(project.store) == before
    assert f"{away}/second holds results of a study, as " in said and "cannot be seen from here" in said


def test_links_are_not_followed(project, reported, tmp_path):
    store(project.store, KEYS[:20])
    store(tmp_path / "outside", KEYS[20:30])
    outside = store(tmp_path / "outside", KEYS[30:40], engine=OTHER)
    (project.store / OTHER).symlink_to(tmp_path / "outside" / OTHER)
    (project.store / TINY / "linked.jsonl").symlink_to(outside)
    before = content(tmp_path / "outside")
    text = reported()[1]
    assert f"results/store/{OTHER} is a link: it is not followed" in text and f"{TINY}: 2 of 20" in text
    assert reported("--prune", "--yes")[0] == 0
    assert content(tmp_path / "outside") == before
    assert (project.store / OTHER).is_symlink()


# --- Pruning -------------------------------------------------------------------------------------------------------


def test_pruning_shows_what_would_go_and_removes_it_with_yes(project, reported):
    untouched, mixed = store(project.store, KEYS[:10]), store(project.store, KEYS[5:30], job="mixed")
    useless, state = store(project.store, KEYS[30:40], engine=OTHER), untouched.stat()
    for path in (mixed, useless):
        write_json(path.with_suffix(GATE), {})
    kept = StoreReader(project.store, TINY).lookup(KEYS[:18])
    code, text = reported("--prune")
    assert code == 0 and "Nothing was removed yet: --yes does it" in text
    assert f"{TINY}: 12 responses in 1 files, " in text and f"{OTHER}: 10 responses in 1 files, " in text
    code, text = reported("--prune", "--yes")
    assert code == 0 and "Removed 22 responses." in text
    assert StoreReader(project.store, TINY).lookup(KEYS) == kept
    assert StoreReader(project.store, TINY).serving() == {"s1": {"vllm": "x"}}
    assert mixed.exists() and list(useless.parent.iterdir()) == []
    # Only what changed was written, with an index.
    assert (untouched.stat().st_ino, untouched.stat().st_mtime_ns) == (state.st_ino, state.st_mtime_ns)
    index = load_index(mixed)
    assert index.closed and len(index.entries) == 13 and index.covered == mixed.stat().st_size
    names = {path.name for file in (untouched, mixed) for path in (file, index_path(file))}
    names.add(mixed.with_suffix(GATE).name)
    assert {path.name for path in mixed.parent.iterdir()} - {NEWEST_READ} == names
    assert "To be removed\n  nothing\n" in reported("--prune", "--yes")[1]


@pytest.mark.parametrize(
    ("change", "reported_of"),
    [
        (
            lambda project, patch: os.unlink(files_of(project)[0]),
            "study.yaml: only 8 of 9 cells are rendered; run `snakemake --cores all --configfile study.yaml`",
        ),
        (
            lambda project, patch: patch.setattr(store_studies, "planned_rendering", lambda file, root: 3),
            "study.yaml: 3 request files would be written again",
        ),
    ],
)
def test_every_cell_needs_its_requests_and_they_up_to_date(project, reported, monkeypatch, change, reported_of):
    store(project.store, KEYS)
    change(project, monkeypatch)
    before = content(project.store)
    code, text = reported("--prune", "--yes")
    assert code == 1 and content(project.store) == before
    assert "nothing is removed" in text and reported_of in " ".join(text.split())


def test_no_study_may_be_invalid_or_have_run_and_not_be_named(project, reported):
    second_study(project)
    store(project.store, KEYS)
    before = content(project.store)
    record = project.folder / "results" / "second" / "study.json"
    write_json(record, {"file": str(project.folder / "second.yaml"), "study": "second"})
    code, text = reported("--prune", "--yes")
    assert code == 1
    assert "results/second holds results of second.yaml, which was not looked at" in " ".join(text.split())
    (project.folder / "second.yaml").rename(project.folder / "gone.yaml")
    code, text = reported("--prune", "--yes")
    assert code == 1 and "second.yaml, which is gone: what they ask for is not known" in " ".join(text.split())
    # What ran with another store does not matter.
    (record.parent / "config.yaml").write_text("store_dir: elsewhere\n")
    assert reported("--prune")[0] == 0
    (project.folder / "gone.yaml").write_text("study: [\n")
    code, text = reported("--prune", "--yes", "study.yaml", "gone.yaml")
    assert code == 1 and "gone.yaml is not valid" in text
    assert content(project.store) == before


def test_a_store_of_none_of_the_studies_is_not_emptied(project, reported, tmp_path):
    path = store(tmp_path / "shared", KEYS)
    code, text = reported("--store", str(tmp_path / "shared"), "--prune", "--yes")
    assert code == 1 and "none of the studies has this store" in text
    assert len(load_index(path).entries) == 100


def test_nothing_is_removed_of_an_engine_whose_dialogues_cannot_be_followed(project, reported):
    store(project.store, KEYS)
    store(project.store, KEYS, engine=OTHER)
    render(files_of(project)[0], KEYS[:2], engine=OTHER, dialogue={"seed": 0})
    code, text = reported("--prune", "--yes")
    assert code == 0 and f"{OTHER}: cannot tell: it was asked turn by turn" in text
    assert len(StoreReader(project.store, OTHER).lookup(KEYS)) == 100
    assert len(StoreReader(project.store, TINY).lookup(KEYS)) == 16


def test_responses_that_come_while_the_studies_are_read_are_kept(project, reported, monkeypatch):
    """Later turns of dialogues are asked for by what is stored: those of a job that goes on meanwhile are not known."""
    writer = StoreWriter(project.store, TINY, "job")
    writer.describe("s1", {"vllm": "x"})
    for key in KEYS[:18]:
        writer.append(key, response("an answer"), "s1")

    def while_a_job_ends(config):
        monkeypatch.setattr(store_studies, "read_asks", read_asks)
        asks = read_asks(config)
        for key in KEYS[60:65]:
            writer.append(key, response("a later turn"), "s1")
        writer.close()
        store(project.store, KEYS[65:70])
        return asks

    monkeypatch.setattr(store_studies, "read_asks", while_a_job_ends)
    reported("--prune", "--yes")
    assert len(StoreReader(project.store, TINY).lookup(KEYS)) == 18 + 10


@pytest.mark.parametrize("which", ["the same", "another"])
def test_nothing_is_removed_if_a_study_asks_for_more_while_the_command_runs(project, reported, monkeypatch, which):
    second_study(project)
    store(project.store, KEYS)
    before = content(project.store)

    def while_a_study_begins(file, root):
        if which == "the same":
            render(files_of(project)[0], KEYS[60:65])
        else:
            record = {"file": str(project.folder / "second.yaml"), "study": "second"}
            write_json(project.folder / "results" / "second" / "study.json", record)
        return 0

    (project.folder / "results" / "second").rename(project.folder / "not yet")
    monkeypatch.setattr(store_studies, "planned_rendering", while_a_study_begins)
    code, text = reported("--prune", "--yes")
    assert code == 1 and "a study changed or began to run meanwhile" in " ".join(text.split())
    assert content(project.store) == before


@pytest.mark.parametrize(
    ("silent", "process", "why"),
    [
        (60, "none", "written to 1 minutes ago, and not closed by its job"),
        (60, "of another host", "written to 1 minutes ago, and not closed by its job"),
        (2 * HOUR, "alive", "process {pid} of this host writes it"),
        (2 * HOUR, "none", ""),
        (2 * HOUR, "of another host", ""),
        (2 * DAY, "alive", ""),  # another process of the same number
    ],
)
def test_a_file_that_may_still_be_written_is_left_alone(project, reported, silent, process, why):
    pid = no_process() if process == "none" else os.getpid()
    host = "elsewhere" if process == "of another host" else None
    path = left_by_a_killed_job(store(project.store, KEYS[10:30]), silent, pid, host)
    assert still_written(load_index(path, save=False), time.time()) == why.format(pid=pid)
    before = path.read_bytes()
    code, text = reported("--prune", "--yes")
    assert code == 0
    if why:
        assert f"{path.name} is left alone: {why.format(pid=pid)}" in " ".join(text.split())
        assert path.read_bytes() == before
    else:
        assert "Removed 12 responses" in text
        assert path.read_bytes().endswith(b"}\n") and len(load_index(path).entries) == 8
    assert still_written(load_index(store(project.store, KEYS[10:30])), time.time()) == "", "its job has closed it"


def test_a_job_at_work_loses_nothing(project, reported):
    with StoreWriter(project.store, TINY, "job") as writer:
        writer.append(KEYS[0], response("a"), "s1")
        writer.append(KEYS[40], response("b"), "s1")
        assert "is left alone" in reported("--prune", "--yes")[1]
        writer.append(KEYS[1], response("c"), "s1")
    assert len(StoreReader(project.store, TINY).lookup(KEYS)) == 3


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    path = store(tmp_path, KEYS)
    index = load_index(path)
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(UserError, match="has changed meanwhile and was left alone"):
        prune_file(index, set())
    assert path.exists()


def test_a_file_that_cannot_be_written_anew_stays_as_it_was(project, reported, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    store(project.store, KEYS)
    before = content(project.store)
    monkeypatch.setattr(os, "fsync", full)
    code, text = reported("--prune", "--yes")
    assert code == 1 and "nothing of it was removed" in " ".join(text.split()) and "Removed 0 responses" in text
    monkeypatch.undo()
    assert content(project.store) == before


def test_keys_are_compared_whole_before_a_record_is_removed(tmp_path):
    twin = KEYS[0][:32] + KEYS[1][32:]
    path = store(tmp_path, [KEYS[0], twin])
    assert prune_file(load_index(path), {KEYS[0]}) == 1
    assert list(StoreReader(tmp_path, TINY).lookup([KEYS[0], twin])) == [KEYS[0]]


def test_yes_alone_is_a_mistake(capsys):
    assert main(["store", "--yes"]) == 2
    assert "--yes goes with --prune" in capsys.readouterr().err
