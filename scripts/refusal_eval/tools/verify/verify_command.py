"""A finished study's numbers, made by the workflow in another folder from its answers and verdicts, and compared."""

import math
import os
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.log_text import error_and_cause, tail
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.program.snakemake_summary import snakemake_command, summary
from refusal_eval.program.study_file import DEMO, ROOT, Directory, StudyFile, load_config
from refusal_eval.report.results.results_files import read_results
from refusal_eval.study.files import file_of, file_table
from refusal_eval.study.study import Study
from refusal_eval.tools.verify.file_differences import differences
from refusal_eval.tools.verify.independent_rate import headline_rate

# Only these may run: no engine, and nothing that fetches.
COMPUTING = {rule for file in file_table().values() if file.from_verdicts for rule in file.rules}
RESULTS = file_of("results").patterns[0]
PICTURES = (".pdf", ".svg", ".png")
STEPS = re.compile(r"(\d+) of (\d+) steps")
# By estimand what it is called, and whether it is of the model alone.
_RATES = {"refusal_rate": ("headline rate", False), "refusal_rate_model_alone": ("rate of the model alone", True)}
_TOLERANCE = 1e-9  # the results table keeps ten digits


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    cores: Annotated[int, typer.Option(min=1, help="Jobs at one time.", show_default="all")] = os.cpu_count() or 1,
) -> None:
    """Recompute a finished study's numbers from its stored answers and verdicts, and compare.

    The workflow makes scores, judge cards, estimates, the results table and all tables in a temporary folder and
    compares them byte by byte with the study's. Separate code computes the headline rate of each cell a second time.
    The study is not changed, and no engine starts. Pictures, the manifest and the methods section are not compared:
    they depend on the machine and the versions that made them.

    Exit code: 0 nothing differs; 1 something differs or is missing, or the study is not valid.
    """
    config, file = load_config(study, directory)
    found = recompute(config, file, ROOT, cores)
    for name, problems in found.items():
        typer.echo("\n".join(f"{name}: {problem}" for problem in problems))
    if found:
        typer.echo(f"{len(found)} of the study's files are not what its answers and verdicts give.", err=True)
        raise typer.Exit(1)
    typer.echo(f"Study {config['study']}: scores and tables are what its answers and verdicts give.")


def recompute(config: Mapping[str, Any], study_file: Path, root: Path, cores: int) -> dict[str, list[str]]:
    """Return in what a finished study differs from what its answers and verdicts give, by file.

    Raises:
        UserError: if the study has no answers or verdicts yet, or not all, or if nothing can be computed of them.
    """
    study = Study(config)
    stored = Path(study.paths.results).absolute()
    cells = [{"model": cell.model, "split": cell.split, "judge": str(cell.judge)} for cell in sorted(study.cells)]
    for needed in (study.paths.of(noun, **cell) for noun in ("answers", "verdicts") for cell in cells):
        if not Path(needed).is_file():
            absolute = Path(needed).absolute()
            raise UserError(f"{absolute} is not there: the study is not finished (`refusal-eval status` says more)")
    with tempfile.TemporaryDirectory(prefix="refusal-eval-verify-") as temporary:
        made = Path(temporary, "results", study.name)
        places = {key: str(Path(config[key]).absolute()) for key in ("store_dir", "cache_dir")}
        places["results_dir"] = str(made.parent)
        rules, others = _plan_files(study_file, root, made, places)
        names = sorted({name for files in rules.values() for name in files if not name.endswith(PICTURES)})
        for name in others:
            if (stored / name).is_file():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).symlink_to((stored / name).resolve())
        command = snakemake_command(study_file, root, places)
        command += ["--no-hooks"]  # or the store would note results that are gone at once
        command += ["--directory", temporary, "--executor", "local", "--cores", str(cores), "--allowed-rules", *rules]
        _run([*command, "--", *(str(made / name) for name in names)], made)
        found = {name: differences(stored / name, made / name) for name in names}
    found.setdefault(RESULTS, []).extend(_other_rates(study, stored))
    return {name: problems for name, problems in found.items() if problems}


def _plan_files(
    study_file: Path, root: Path, made: Path, places: Mapping[str, str]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return what each rule makes in `made` that computes numbers, and what the others make; names within the study.

    Results that were copied from elsewhere can be verified, too: Snakemake's records of them are not needed.
    """
    rules: dict[str, list[str]] = {}
    for file in summary(study_file, root, places):
        path = Path(file.path)
        if path.is_relative_to(made):
            rules.setdefault(file.rule, []).append(path.relative_to(made).as_posix())
    computed = {
        rule: names
        for rule, names in rules.items()
        if rule in COMPUTING and not all(name.endswith(PICTURES) for name in names)
    }
    return computed, [name for rule, names in rules.items() if rule not in computed for name in names]


def _run(command: Sequence[str], made: Path) -> None:
    """Run the workflow and show how far it is.

    Raises:
        UserError: if a rule fails.
    """
    from tqdm import tqdm

    environment = {key: value for key, value in os.environ.items() if key != "SNAKEMAKE_PROFILE"}
    last: deque[str] = deque(maxlen=20)
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process,
        tqdm(desc="computing", unit="job", disable=None) as bar,
    ):
        for line in process.stdout or ():
            last.append(line)
            if steps := STEPS.search(line):
                bar.total, bar.n = int(steps[2]), int(steps[1])
                bar.refresh()
    if process.returncode:
        logs = sorted((made / "logs").rglob("*.log"))
        failed = next(((log, error) for log in logs if (error := error_and_cause(tail(log)))), None)
        if failed is None:
            raise UserError(f"the study cannot be computed again:\n{''.join(last).strip()}")
        name, (message, cause) = failed[0].relative_to(made / "logs").with_suffix(""), failed[1]
        raise UserError(
            "the stored answers and verdicts are not those of the study as it is: "
            f"{name} cannot be computed from them ({cause or message}); run the study again, without --touch"
        )


def _other_rates(study: Study, stored: Path) -> Iterator[str]:
    """Tell of the cells whose stored headline rate is not what a second way makes of the stored files."""
    if not (stored / RESULTS).is_file():
        return
    rates = {
        (row.judge, row.model, row.split, row.reading, row.estimand): row.value
        for row in read_results((stored / RESULTS).read_text(encoding="utf-8"))
        if row.estimand in _RATES and row.category is None
    }
    for cell in sorted(study.cells):
        split = study.splits[cell.split]
        reading = split.headline or HEADLINE_READING[split.expectation]
        answers, verdicts = f"answers/{cell.model}/{cell.split}.jsonl", f"verdicts/{cell}.jsonl"
        for estimand, (words, alone) in _RATES.items():
            place = (cell.judge, cell.model, cell.split, reading, estimand)
            if split.dialogue or place not in rates:
                continue
            rate = headline_rate(stored / answers, stored / verdicts, study.settings.samples, reading, alone)
            known = rates[place]
            if rate != known and (rate is None or known is None or not math.isclose(rate, known, rel_tol=_TOLERANCE)):
                where = f"{cell.judge}, {cell.model}, {cell.split}"
                yield f"the {words} of {where} is {known}, and a second way to compute it gives {rate}"
