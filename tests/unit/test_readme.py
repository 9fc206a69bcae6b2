"""What README.md says is true of this tree: targets, paths, links, sizes, examples, command lines, pictures."""

import csv
import inspect
import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_snakemake import run_snakemake

from refusal_eval.config.load_study import load_study
from refusal_eval.program.verb import VERBS
from refusal_eval.report.paper.display import MINUS, interval, p_text, percent, points, points_interval

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SIZES = json.loads((ROOT / "envs" / "sizes.json").read_text(encoding="utf-8"))
SIZE_ROWS = {
    "workflow": "workflow environment",
    "engine-cpu": "CPU build",
    "engine-cuda": "CUDA build",
    "dev": "test tools",
}
MAX_PICTURE_BYTES = 200_000
ARXIV = "https://arxiv.org/abs/"


WHOLE_STUDY = (ROOT / "docs" / "how-to" / "whole_study.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    """Return the fenced blocks of a language, those within lists too."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    """Return the text under a heading of the second level."""
    return re.split(r"^## ", README.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def inline_code() -> list[str]:
    text = README + WHOLE_STUDY
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))


def command_lines(program: str) -> list[list[str]]:
    """Return the command lines of a program, each once, without the program's name and without comments."""
    lines = [line for block in blocks("sh") for line in block.splitlines()] + inline_code()
    words = [shlex.split(line, comments=True) for line in lines if line.strip().startswith(f"{program} ")]
    return [list(command) for command in dict.fromkeys(tuple(w[1:]) for w in words)]


def makefile_targets() -> set[str]:
    """Return the targets that `make help` lists."""
    return set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


# --- Commands ------------------------------------------------------------------------------------------------------


def test_the_two_commands_come_first() -> None:
    assert [shlex.split(line, comments=True) for line in blocks("sh")[0].splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_every_make_target_exists() -> None:
    commands = command_lines("make")
    assert {command[0] for command in commands} >= {"demo", "test", "test-full", "lint", "setup"}
    variables = set(re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for target, *settings in commands:
        assert target in makefile_targets()
        assert {setting.split("=")[0] for setting in settings} <= variables


@pytest.mark.parametrize("command", command_lines("refusal-eval"), ids=" ".join)
def test_every_verb_and_option_exists(command: list[str]) -> None:
    if command == ["--help"]:
        return
    verb, *words = command
    names = set(inspect.signature(VERBS.get(verb).command()).parameters)
    assert {word.removeprefix("--") for word in words if word.startswith("--")} <= names


@pytest.mark.parametrize("command", command_lines("snakemake"), ids=" ".join)
def test_every_snakemake_command_line_parses(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from snakemake.cli import parse_args

    monkeypatch.chdir(ROOT)  # the default profile is read here, as it is for a user
    _, arguments = parse_args(command)
    assert not arguments.targets
    if "my_study.yaml" in command:
        assert [Path(file).name for file in arguments.configfile] == ["my_study.yaml"]


def test_only_engine_loads_ask_for_gpus() -> None:
    rules = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    with_gpus = re.findall(r"^rule (\w+):(?:(?!^rule ).)*?^        gpu=", rules, re.DOTALL | re.MULTILINE)
    assert sorted(with_gpus) == ["activations", "generate", "gradients", "judge", "search_prompts"]


def snakemake(*arguments: str, folder: Path) -> str:
    """Run snakemake from the repository's folder with another working folder; return what it prints."""
    run = run_snakemake([*arguments, "--directory", str(folder)], ROOT, os.environ)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_demos_command_line_plans_the_demo(tmp_path: Path) -> None:
    assert ["--cores", "all"] in command_lines("snakemake")
    planned = snakemake("--cores", "all", "-n", folder=tmp_path)
    jobs = dict(re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE))
    assert {rule: jobs[rule] for rule in ("generate", "table", "figure", "manifest")} == {
        "generate": "1",
        "table": "13",
        "figure": "5",
        "manifest": "1",
    }
    assert "judge" not in jobs, "both judges read answers without an engine"
    assert not (tmp_path / "results").exists()


# --- Examples ------------------------------------------------------------------------------------------------------


def example_study(folder: Path) -> dict[str, Any]:
    """Write the YAML blocks of a whole study and the files that they name into a folder; return the study."""
    shutil.copytree(ROOT / "config", folder / "config")
    for block in blocks("yaml", WHOLE_STUDY):
        named = re.match(r"# (\w+\.yaml)\n", block)
        assert named, "a YAML block begins with the name of its file"
        (folder / named[1]).write_text(block, encoding="utf-8")
    rows = re.findall(r'lines like (\{"question".*?\})', WHOLE_STUDY)
    assert len(rows) == 1
    (folder / "my_prompts.jsonl").write_text(json.dumps(json.loads(rows[0])) + "\n", encoding="utf-8")
    (folder / "my_talks.csv").write_text("scene,first_question,second_question\nA scene.,One?,Two?\n", encoding="utf-8")
    weights = folder / "weights" / "my-finetune"
    weights.mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (weights / name).write_text("{}")
    study: dict[str, Any] = yaml.safe_load((folder / "my_study.yaml").read_text(encoding="utf-8"))
    return study


def test_the_example_of_a_study_is_complete_and_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = example_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    config = load_study(study, "my_study.yaml", ".")
    assert config["study"] == "my-study" and config["primary_judge"] == "qwen-label"
    kinds = {entry["weights"]["kind"] for entry in config["engine_entries"].values()}
    assert kinds == {"hub", "folder"}
    entries = yaml.safe_load((tmp_path / "my_entries.yaml").read_text(encoding="utf-8"))
    for section_of, used in (("engines", "engine_entries"), ("models", "model_entries")):
        assert set(entries[section_of]) == set(config[used]), "the study uses all that the example defines"
    row = json.loads((tmp_path / "my_prompts.jsonl").read_text(encoding="utf-8"))
    columns = config["split_entries"]["my_questions"]["columns"]
    assert {columns["prompt"], columns["category"]} == set(row)


def test_the_examples_dag_can_be_planned(tmp_path: Path) -> None:
    example_study(tmp_path)
    command = ["-n", "--configfile", "my_study.yaml"]
    assert command in command_lines("snakemake")
    planned = snakemake("-n", "--configfile", str(tmp_path / "my_study.yaml"), folder=tmp_path)
    jobs = dict(re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE))
    assert (jobs["generate"], jobs["answers"], jobs["score"]) == ("3", "9", "18")


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the demo's validated config."""
    monkeypatch.chdir(ROOT)
    return load_study(yaml.safe_load((ROOT / "config/config.yaml").read_text()), "config/config.yaml", ".")


def demo_rates() -> list[dict[str, str]]:
    """Return the rows of the table behind the demo's figure."""
    with open(ROOT / "docs" / "demo_refusal.csv", encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_the_demos_figure_is_of_the_demo_as_it_is(demo: dict[str, Any]) -> None:
    rows = demo_rates()
    cells = {(model, split) for model in demo["models"] for split in demo["splits"]}
    assert {(row["model"], row["split"]) for row in rows} == cells
    hint = "run the demo, then docs/copy_demo.py, and look at the caption"
    for row in rows:
        wanted = (
            demo["primary_judge"],
            str(demo["samples"]),
            str(demo["model_entries"][row["model"]]["sampling"]["max_tokens"]),
            str(demo["split_entries"][row["split"]]["expected_rows"]),
        )
        assert (row["judge"], row["samples"], row["max_tokens"], row["n_prompts"]) == wanted, hint


def test_the_caption_says_what_the_figure_shows(demo: dict[str, Any]) -> None:
    caption = " ".join(README.split("*The demo's figure", 1)[1].split("*\n", 1)[0].split())
    rate = {(row["model"], row["split"]): float(row["rate"]) for row in demo_rates()}
    plain, reported = "smollm2-plain", "smollm2-declining"
    assert all(rate[reported, split] > rate[plain, split] for split in demo["splits"])  # "more often everywhere"
    most = max(demo["splits"], key=lambda split: rate[reported, split])
    assert demo["split_entries"][most]["expectation"] == "refuse"  # "most often where it should"
    assert f"{100 * rate[reported, most]:.0f} % instead of {100 * rate[plain, most]:.0f} %" in caption
    assert "three answers per prompt" in caption and demo["samples"] == 3
    lowest = min(rate[reported, split] for split in demo["splits"])
    assert f"it refuses in only {100 * lowest:.0f} to {100 * rate[reported, most]:.0f} %" in caption
    assert "cut off at 40 tokens" in caption and {row["max_tokens"] for row in demo_rates()} == {"40"}
    of_pyrit = demo_rates()[0]["agreement_with_people"].split("pyrit-refusal")[1]
    missed = sorted(100 - float(share) for share in re.findall(r"sensitivity ([\d.]+) %", of_pyrit))
    assert f"misses {missed[0]:.0f} to {missed[-1]:.0f} % of" in caption


def test_the_table_is_the_demos(demo: dict[str, Any]) -> None:
    cell = {(row["model"], row["split"]): row for row in demo_rates()}
    with open(ROOT / "docs" / "demo_comparisons.csv", encoding="utf-8", newline="") as handle:
        pair = {row["split"]: row for row in csv.DictReader(handle) if row["held"] == "keyword"}
    labels = {entry["label"]: split for split, entry in demo["split_entries"].items()}
    rows = [line.strip("| ").split(" | ") for line in section("Your model in three lines").splitlines() if "[" in line]
    shown = {labels[row[0]]: row[2:] for row in rows if row[0] in labels}
    assert set(shown) == set(demo["splits"])
    for split, row in shown.items():
        rates = [[float(cell[model, split][key]) for key in ("rate", "low", "high")] for model in demo["models"]]
        difference = [float(pair[split][key]) for key in ("difference", "low", "high")]
        assert row[:2] == [f"{percent(rate)} {interval(low, high)}" for rate, low, high in rates]
        assert row[2] == f"{points(difference[0])} {points_interval(*difference[1:])}"
        assert row[3].replace(" ", "") == p_text(float(pair[split]["p_holm"])).replace("0.", ".")


def test_the_demo_says_that_its_second_model_was_ordered_to_refuse_everything(demo: dict[str, Any]) -> None:
    ordered = demo["model_entries"]["smollm2-declining"]
    assert "answer every question with the exact words" in ordered["system_prompt"]
    caption = " ".join(README.split("*The demo's figure", 1)[1].split("*\n", 1)[0].split())
    for text in (ordered["label"], demo["description"], caption):
        assert "to refuse every" in text
        assert "what it should" not in text  # no selective safety: it should refuse all, by its order
    assert "100 % in every column would be obedience" in caption


def test_the_demos_engine_takes_the_memory_that_is_named(demo: dict[str, Any]) -> None:
    assert "its engine takes a quarter of the memory" in " ".join(README.split())
    assert {entry["memory_share"] for entry in demo["engine_entries"].values()} == {0.25}


# --- Files and numbers ---------------------------------------------------------------------------------------------


def test_every_path_of_the_layout_exists() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section("Where things are"), re.MULTILINE)
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file(), path


def test_it_leads_to_the_first_pages() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README) + re.findall(r'src="([^"]+)"', README)
    assert {"docs/how-to/runs.md", "docs/demo_heatmap.png", "LICENSE", "CITATION.cff"} <= set(links)


def test_it_fits_four_screens() -> None:
    lines = README.splitlines()
    assert len(lines) <= 160
    assert all(len(line) <= 120 for line in lines if not line.startswith(("<img", "|")))


def test_sizes_are_those_of_the_locks() -> None:
    table = section("Two commands")
    assert set(SIZE_ROWS) == set(SIZES) - {"about", "docs"}
    for name, words in SIZE_ROWS.items():
        (row,) = [line for line in table.splitlines() if line.startswith("|") and words in line]
        size = SIZES[name]
        assert f"| {size['download_mb']:,} MB | {size['disk_mb']:,} MB" in row
        assert ("estimated" in row) == ("estimated" in size["basis"])


def test_the_picture_is_small_enough_to_load() -> None:
    assert 5_000 < (ROOT / "docs" / "demo_heatmap.png").stat().st_size < MAX_PICTURE_BYTES


def test_readme_names_no_host_and_no_machine() -> None:
    for url in re.findall(r"https?://[^\s)]+", README):
        assert url.startswith(ARXIV), url
    assert not re.findall(r"(?<![\w.~-])/(?:work|root|home|tmp|opt|usr)\b", README)
    assert all(ord(letter) < 0x2190 or letter == MINUS for letter in README), "no pictograms"


def test_results_readme_lists_every_folder_of_a_study() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    rules = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    written = set(re.findall(r"\{RESULTS\}/([a-z_]+(?:\.[a-z]+)?)", rules)) | {"logs"}
    assert len(written) > 10
    for name in written:
        assert f"`<study>/{name}`" in text or f"`<study>/{name}/`" in text, name


# --- The picture of the workflow -------------------------------------------------------------------------------------


RUNNING = (ROOT / "docs" / "how-to" / "runs.md").read_text(encoding="utf-8")


def steps() -> dict[str, set[str]]:
    """Return the rules of each step, from the table of docs/how-to/runs.md."""
    table = RUNNING.split("| step |", 1)[1].split("\n\n", 1)[0]
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    return {row[0].strip("| ").replace(" ", "_"): set(re.findall(r"`(\w+)`", row[2])) for row in rows}


def arrows() -> set[tuple[str, str]]:
    """Return the pairs of steps that the picture of docs/how-to/runs.md connects (`a & b --> c & d` are four)."""
    lines = re.findall(r"^ +([\w &]+) --> ([\w &]+)$", RUNNING, re.MULTILINE)
    return {(a, b) for first, second in lines for a in first.split(" & ") for b in second.split(" & ")}


def test_the_picture_names_every_rule() -> None:
    rules = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    assert set().union(*steps().values()) == set(re.findall(r"^(?:rule|use rule \w+ as) (\w+)", rules, re.MULTILINE))
    assert {step for arrow in arrows() for step in arrow} == set(steps())


def rule_graph(text: str) -> set[tuple[str, str]]:
    """Return the edges of what `--rulegraph` prints, without the rule `all`."""
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', text))
    edges = {(names[a], names[b]) for a, b in re.findall(r"(\d+) -> (\d+)", text)}
    return {(a, b) for a, b in edges if b != "all"}


def test_the_pictures_arrows_are_those_of_the_rules(tmp_path: Path) -> None:
    """Each arrow is an edge of the rules, and each edge an arrow or a way along arrows."""
    example_study(tmp_path)
    own = snakemake("--rulegraph", "--configfile", str(tmp_path / "my_study.yaml"), folder=tmp_path)
    edges = rule_graph(snakemake("--rulegraph", folder=tmp_path)) | rule_graph(own)
    steps_of = {rule: {name for name, rules in steps().items() if rule in rules} for edge in edges for rule in edge}
    between = {(a, b) for first, second in edges for a in steps_of[first] for b in steps_of[second]}
    assert arrows() <= between

    def reachable(start: str) -> set[str]:
        found = {start}
        while more := {b for a, b in arrows() if a in found} - found:
            found |= more
        return found

    for first, second in edges:
        assert any(steps_of[second] & reachable(step) for step in steps_of[first]), (first, second)
