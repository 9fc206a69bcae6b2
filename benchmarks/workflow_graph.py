"""How long Snakemake plans a large study, against as many trivial jobs.

The study: 20 models x 30 splits x 3 judges (two keyword lists, one language model). Measured are the dry run with
nothing there and the run with everything there, of our workflow and of a trivial Snakefile with the same jobs and the
same edges between them, in turn. "Everything there" is made without running a script: a stand-in for Snakemake's touch
executor writes empty outputs, and Snakemake itself records its metadata about them. A third workflow is the trivial one
with `script:` in place of `shell:`: Snakemake looks for the script of every job, which is the least that scripts cost.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from measuring import ROOT, print_head, print_limit, print_values, snakemake, timed

LIMITS = {"dry run, nothing there": 1.3, "run, everything there": 1.2}
CPU_JUDGES = ("words0", "words1")
LLM_JUDGE = "label"
TOTAL = re.compile(r"^total +(\d+)$", re.MULTILINE)
NOTHING = "Nothing to be done"

# Writes empty outputs where Snakemake's touch executor would touch those that are there, 0.1 s each.
PRETEND = """
import sys
from pathlib import Path
from snakemake.cli import main
from snakemake.executors.touch import Executor
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

def run_job(self, job):
    for file in job.output:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    self.report_job_submission(SubmittedJobInfo(job=job))
    self.report_job_success(SubmittedJobInfo(job=job))

Executor.run_job = run_job
main(["--touch", *sys.argv[1:]])
"""

TRIVIAL = """
MODELS = [f"m{{i:02d}}" for i in range({models})]
SPLITS = [f"s{{i:02d}}" for i in range({splits})]
JUDGES = ["words0", "words1", "label"]
OF_ONE_JUDGE = "scores/words0/{{model}}/{{split}}.parquet"
TABLES = {{
    "refusal": "results.csv",
    "categories": "results.csv",
    "scores": "results.csv",
    "states": "results.csv",
    "votes": "results.csv",
    "judges": "results.csv",
    "judges_agree": "agreement.json",
    "comparisons": "comparisons.json",
}}
FIGURES = {{
    "refusal_heatmap": "results.csv",
    "c_histograms": [OF_ONE_JUDGE, "results.csv"],
    "tau_sweep": "results.csv",
    "judges_agree": "agreement.json",
}}

wildcard_constraints:
    model="m[0-9]+",
    split="s[0-9]+",
    judge="[a-z0-9]+",

rule all:
    input:
        expand("tables/{{table}}.csv", table=TABLES), expand("figures/{{figure}}.svg", figure=FIGURES),
        "figures/captions_preamble.tex", "manifest.json", "methods.md",
        "agreement.json", "comparisons.json", "results.csv",
    default_target: True

rule prompts:
    output: "prompts/{{split}}.jsonl"
    shell: "touch {{output}}"

rule identify_engine:
    output: "engines/{{model}}.json"
    shell: "touch {{output}}"

rule identify_judge:
    output: "engines/judge.json"
    shell: "touch {{output}}"

rule requests:
    input: "prompts/{{split}}.jsonl", "engines/{{model}}.json"
    output: "requests/{{model}}/{{split}}.jsonl"
    shell: "touch {{output}}"

rule generate:
    input: expand("requests/{{{{model}}}}/{{split}}.jsonl", split=SPLITS), "engines/{{model}}.json"
    output: "receipts/generate/{{model}}.json"
    shell: "touch {{output}}"

rule answers:
    input: "requests/{{model}}/{{split}}.jsonl", "engines/{{model}}.json", "receipts/generate/{{model}}.json"
    output: "answers/{{model}}/{{split}}.jsonl"
    shell: "touch {{output}}"

rule check_judge:
    input: "engines/judge.json"
    output: "judges/label.json"
    shell: "touch {{output}}"

rule judge_requests:
    input: "prompts/{{split}}.jsonl", "answers/{{model}}/{{split}}.jsonl", "engines/judge.json", "judges/label.json"
    output: "judge_requests/label/{{model}}/{{split}}.jsonl"
    shell: "touch {{output}}"

rule judge:
    input: expand("judge_requests/label/{{{{model}}}}/{{split}}.jsonl", split=SPLITS), "engines/judge.json"
    output: "receipts/judge/{{model}}.json"
    shell: "touch {{output}}"

rule llm_verdicts:
    input:
        "answers/{{model}}/{{split}}.jsonl",
        "judge_requests/label/{{model}}/{{split}}.jsonl",
        "judges/label.json",
        "receipts/judge/{{model}}.json",
    output: "verdicts/label/{{model}}/{{split}}.jsonl"
    shell: "touch {{output}}"

rule cpu_verdicts:
    input: "prompts/{{split}}.jsonl", "answers/{{model}}/{{split}}.jsonl"
    output: "verdicts/{{judge}}/{{model}}/{{split}}.jsonl"
    wildcard_constraints: judge="words[0-9]"
    shell: "touch {{output}}"

rule score:
    input:
        "prompts/{{split}}.jsonl",
        "answers/{{model}}/{{split}}.jsonl",
        "verdicts/{{judge}}/{{model}}/{{split}}.jsonl",
    output: "scores/{{judge}}/{{model}}/{{split}}.parquet"
    shell: "touch {{output}}"

rule near_duplicates:
    input: expand("prompts/{{split}}.jsonl", split=SPLITS)
    output: "duplicates.json", "duplicates.csv"
    shell: "touch {{output}}"

rule estimates:
    input:
        expand("scores/{{{{judge}}}}/{{{{model}}}}/{{split}}.parquet", split=SPLITS),
        "duplicates.json",
    output: "estimates/{{judge}}/{{model}}.json"
    shell: "touch {{output}}"

rule variance:
    input: expand("scores/{{judge}}/{{model}}/{{split}}.parquet", judge=JUDGES, model=MODELS, split=SPLITS)
    output: "variance.json"
    shell: "touch {{output}}"

rule compare:
    input:
        expand("scores/{{judge}}/{{model}}/{{split}}.parquet", judge=JUDGES, model=MODELS, split=SPLITS),
        "duplicates.json",
    output: "comparisons.json"
    shell: "touch {{output}}"

rule judge_agreement:
    input:
        expand("scores/{{judge}}/{{model}}/{{split}}.parquet", judge=JUDGES, model=MODELS, split=SPLITS),
    output: "agreement.json"
    shell: "touch {{output}}"

rule results_table:
    input:
        expand("estimates/{{judge}}/{{model}}.json", judge=JUDGES, model=MODELS),
        "variance.json", "comparisons.json",
    output: "results.csv"
    shell: "touch {{output}}"

rule methods:
    input:
        "results.csv", "manifest.json",
    output: "methods.md"
    shell: "touch {{output}}"

rule table:
    input:
        lambda wildcards: expand(TABLES[wildcards.table], judge=JUDGES, model=MODELS, split=SPLITS)
    output: "tables/{{table}}.csv", "tables/{{table}}.md", "tables/{{table}}.tex"
    shell: "touch {{output}}"

rule figure:
    input:
        lambda wildcards: expand(FIGURES[wildcards.figure], judge=JUDGES, model=MODELS, split=SPLITS)
    output: "figures/{{figure}}.svg", "figures/{{figure}}.csv"
    shell: "touch {{output}}"

rule captions_preamble:
    output: "figures/captions_preamble.tex"
    shell: "touch {{output}}"

rule manifest:
    input:
        expand("engines/{{model}}.json", model=MODELS), "engines/judge.json",
        expand("prompts/{{split}}.jsonl", split=SPLITS),
        expand("answers/{{model}}/{{split}}.jsonl", model=MODELS, split=SPLITS),
        expand("verdicts/{{judge}}/{{model}}/{{split}}.jsonl", judge=JUDGES, model=MODELS, split=SPLITS),
        expand("tables/{{table}}.csv", table=["refusal", "categories", "scores", "states", "votes", "judges"]),
    output: "manifest.json"
    shell: "touch {{output}}"
"""


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    print_head(f"Planning {arguments.models} models x {arguments.splits} splits x 3 judges")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-graph-") as temporary:
        folder = Path(temporary)
        commands = {
            "workflow": write_study(folder / "workflow", arguments.models, arguments.splits, arguments.device),
            "trivial": write_trivial(folder / "trivial", arguments.models, arguments.splits),
            "trivial with scripts": write_trivial(folder / "scripts", arguments.models, arguments.splits, scripts=True),
        }
        counts: dict[str, int] = {}
        dry = measured(folder, commands, ["-n"], arguments.runs)
        for name, command in commands.items():
            pretend = [sys.executable, "-c", PRETEND, *command[3:]]
            count = TOTAL.search(timed(pretend, folder).output)
            counts[name] = int(count.group(1)) if count else 0
            print(f"{name}: {counts[name]} jobs", flush=True)
        # Which figures and comparisons a study has by itself depends on how many models it has.
        if abs(counts["workflow"] - counts["trivial"]) > max(counts.values()) / 500:
            raise SystemExit("these are not as many jobs: bring TRIVIAL up to date with the workflow's rules")
        noop = measured(folder, commands, [], arguments.runs, wanted=NOTHING)
        for label, values in (("dry run, nothing there", dry), ("run, everything there", noop)):
            medians = {name: print_values(f"{label}: {name}", values[name]) for name in commands}
            print_limit(f"{label}: workflow / trivial", medians["workflow"] / medians["trivial"], LIMITS[label])
            for one, other in (("trivial with scripts", "trivial"), ("workflow", "trivial with scripts")):
                print(f"{label}: {one} / {other}: {medians[one] / medians[other]:.2f}")
        if arguments.keep:
            shutil.copytree(folder, arguments.keep, symlinks=True)


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device of the study's engines")
    parser.add_argument("--keep", type=Path, help="copy both folders here at the end")
    return parser.parse_args()


def measured(
    folder: Path, commands: dict[str, list[str]], arguments: list[str], runs: int, wanted: str = ""
) -> dict[str, list[float]]:
    """Return the seconds of all runs of each command, made in turn so that a slow moment meets both.

    Raises:
        SystemExit: if a run does not print what is wanted, for example because the code was edited meanwhile.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            run = timed([*command, *arguments], folder)
            if wanted not in run.output:
                raise SystemExit(f"{name}: `{wanted}` was expected:\n{run.output[-3000:]}")
            seconds[name].append(run.seconds)
    return seconds


def write_study(folder: Path, models: int, splits: int, device: str) -> list[str]:
    """Write a study of these numbers, with an engine for each model and one for the judge; return its command."""
    names = [f"m{number:02d}" for number in range(models)]
    for engine in [*names, "judge"]:
        weights = folder / "weights" / engine
        weights.mkdir(parents=True)
        for file in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
            (weights / file).write_text("{}")
    (folder / "prompts.jsonl").write_text('{"prompt": "Hello?"}\n')
    (folder / "rubric.md").write_text("Judge.\n<a-{{ nonce }}>{{ prompt }}\n{{ answer }}</a-{{ nonce }}>\nLabel:")
    (folder / "words.yaml").write_text("refusal_openings: ['i cannot help']\n")
    split_names = [f"s{number:02d}" for number in range(splits)]
    source = {"kind": "file", "path": "prompts.jsonl"}
    labels = {"refusal": "A", "partial": "B", "compliance": "C"}
    catalogue: dict[str, Any] = {
        "engines": {
            name: {
                "weights": {"kind": "folder", "path": f"weights/{name}"},
                "max_model_len": 4096,
                "device": device,
                "memory_share": 0.1,
            }
            for name in [*names, "judge"]
        },
        "models": {name: {"engine": name, "sampling": {"max_tokens": 300}} for name in names},
        "datasets": {"made": {"splits": {name: {"source": source, "expectation": "comply"} for name in split_names}}},
        "judges": {
            **{name: {"kind": "keyword", "lists": ["words.yaml"]} for name in CPU_JUDGES},
            LLM_JUDGE: {"kind": "llm", "engine": "judge", "rubric": "rubric.md", "labels": labels},
        },
    }
    study = {
        "study": "large",
        "models": names,
        "splits": split_names,
        "samples": 5,
        "judges": [*CPU_JUDGES, LLM_JUDGE],
        "catalogue": ["catalogue.yaml"],
    }
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    (folder / "catalogue.yaml").write_text(yaml.safe_dump(catalogue))
    return [*command_of(ROOT / "Snakefile", folder), "--configfile", str(folder / "study.yaml")]


def write_trivial(folder: Path, models: int, splits: int, scripts: bool = False) -> list[str]:
    """Write the trivial Snakefile with as many jobs and the same edges; return its command."""
    folder.mkdir()
    text = TRIVIAL.format(models=models, splits=splits)
    if scripts:
        (folder / "touch.py").touch()
        text = text.replace('shell: "touch {output}"', 'script: "touch.py"')
    (folder / "Snakefile").write_text(text)
    return command_of(folder / "Snakefile", folder)


def command_of(snakefile: Path, folder: Path) -> list[str]:
    """Return the command that runs a Snakefile in a folder, with our profile's settings for both."""
    return snakemake(
        *("-s", str(snakefile), "--directory", str(folder), "--cores", "2"),
        *("--workflow-profile", str(ROOT / "profiles" / "default")),
    )


if __name__ == "__main__":
    main()
