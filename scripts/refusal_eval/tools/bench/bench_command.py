"""The cards of a study's judges on its gold, made by the workflow, then one page and one table out of them."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, write_text
from refusal_eval.features.judge_cards.gold_pairs import gold_cards
from refusal_eval.features.judge_cards.judge_tasks_table import JudgeTasksTable
from refusal_eval.program.snakemake_summary import snakemake_command
from refusal_eval.program.study_file import DEMO, ROOT, Directory, StudyFile, load_config
from refusal_eval.report.paper.display import Labels
from refusal_eval.report.paper.markup import csv_text
from refusal_eval.stats.agreement.compared import join_verdicts
from refusal_eval.stats.agreement.judge_ranks import judge_ranks
from refusal_eval.stats.calibration.gold_calibration import OUT_OF_FOLD, labels_behind
from refusal_eval.study.batches import GOLD
from refusal_eval.study.study import Study
from refusal_eval.tools.bench.bench_page import READING, Benchmark, frame, page
from refusal_eval.tools.bench.judge_speed import judge_speed
from refusal_eval.workflow.scoring import calibrated_on
from refusal_eval.workflow.whole_study import labels_of

BATCH = "cell"  # a load for each judge and gold set: speeds are a judge's own, and no model answers


def command(
    study: StudyFile = DEMO,
    directory: Directory = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to.", show_default="results/STUDY/bench")
    ] = None,
    cores: Annotated[int, typer.Option(min=1, help="Jobs at one time.", show_default="all")] = os.cpu_count() or 1,
    options: Annotated[
        str, typer.Option("--snakemake", help="More options for Snakemake, as one text: '--resources gpu=8'.")
    ] = "",
) -> None:
    """Measure a study's judges on its gold; write judges.md and judges.csv.

    Snakemake makes the judge cards, as in any run of the study; its models answer nothing, except for a `first_token`
    judge with `refusal: {judge, split}`. The page ranks the judges of each gold set and shows their agreement with
    gold for each answering model, expectation and language, their cost, and how far gold sets with the same answers
    agree. Where gold has labels of harm, parts such as adversarial prompts, or published figures of these judges, the
    table tables/judge_tasks is made too. To add a judge or a gold set, name it in the study file.
    """
    output = output.absolute() if output else None
    config, file = load_config(study, directory)
    asked = Study(config | {"batch": BATCH})
    if not asked.gold:
        raise UserError(f"{file} names no `gold`, on which judges are measured (docs/reference/gold.md lists them)")
    results = Path(asked.paths.results)
    cards = [results / "judge_cards" / judge / f"{gold}.json" for judge in asked.judges for gold in asked.gold]
    tables = [results / "tables" / f"{JudgeTasksTable.name}.md"] if JudgeTasksTable.wanted(asked) else []
    run = [*snakemake_command(file, ROOT, {"batch": BATCH}), "--cores", str(cores), *shlex.split(options)]
    if subprocess.run([*run, "--", *map(str, [*cards, *tables])]).returncode:
        raise UserError("the judge cards could not be made; Snakemake tells why above")
    found, folder = benchmark(asked, cards), output or results / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "judges.md", page(found))
    write_text(folder / "judges.csv", csv_text(frame(found)))
    typer.echo(f"{folder / 'judges.md'} and judges.csv: {len(asked.judges)} judges on {len(asked.gold)} gold sets")
    for path in tables:
        typer.echo(f"{path}: F1 of each task and part of gold, and published figures of these judges")


def benchmark(study: Study, cards: list[Path]) -> Benchmark:
    """Return what the page and the table show."""
    level, results = study.settings.scoring.level, Path(study.paths.results)
    golds = {gold: list(read_jsonl(results / "gold" / f"{gold}.jsonl")) for gold in study.gold}
    ranks: dict[str, list[dict[str, Any]]] = {}
    for gold, rows in golds.items():
        labelled = {judge: _label_rows(study, judge, gold, rows) for judge in study.judges}
        ranks[gold] = judge_ranks(labelled, gold, READING, level)
    return Benchmark(
        study=study.name,
        labels=Labels(**labels_of(study)),
        cards=[read_json(card) for card in cards],
        ranks=ranks,
        speeds={
            (judge, gold): judge_speed(study, judge, gold, len(golds[gold])) for judge in study.judges for gold in golds
        },
        gold_cards=list(gold_cards(golds, level)),
        denied={gold: [row["label"] for row in rows if row.get("denied_premise")] for gold, rows in golds.items()},
    )


def _label_rows(study: Study, judge: str, gold: str, rows: list[Any]) -> Any:
    """Return gold rows joined with the labels that the judge's card counts."""
    results, on = Path(study.paths.results), calibrated_on(study, judge)
    calibrate: Any = OUT_OF_FOLD if on == gold else on and read_json(results / "calibration" / judge / f"{on}.json")
    verdicts = list(read_jsonl(results / "verdicts" / judge / GOLD / f"{gold}.jsonl"))
    return join_verdicts(rows, labels_behind(rows, verdicts, gold, calibrate), gold)
