"""A finished study in the layout of the published library, and the check of a folder in that layout."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl
from refusal_eval.core.recorded_files import split_folder
from refusal_eval.features.published.published_layout import (
    ANSWERS,
    JUDGE_SCORES,
    differences,
    files_of,
    read_folder,
    recomputed,
    text_mark,
    write_folder,
)
from refusal_eval.program.snakemake_summary import current_files
from refusal_eval.program.study_file import DEMO, ROOT, StudyFile, load_config
from refusal_eval.recorded.recorded_folder import recorded_votes
from refusal_eval.study.paths import Paths
from refusal_eval.study.study import Study

DIFFERENT = 3


def export(config: Mapping[str, Any], judge: str, output: Path, current: Collection[Path]) -> int:
    """Write all cells of a study under one judge; return how many.

    Args:
        judge: whose verdicts.
        current: the files of the study that its next run would not make again.

    Raises:
        UserError: if the study has not made what is exported, or has changed since, or cannot make it, or if another
            folder than its own has an export already.
    """
    results = Path(Paths(config).results)
    if judge not in config["judges"]:
        raise UserError(f"the study has no judge `{judge}`; it has {', '.join(config['judges'])}")
    study = Study(config)
    for name, model in study.models.items():
        engine = None if model.recorded else study.engines[model.engine_name]
        if engine is not None and "log_probabilities" not in engine.able():
            without = f"its engine of kind `{engine.kind}` gives no log-probabilities, which this layout holds"
            raise UserError(f"model `{name}` cannot be exported: {without}")
    came_along = study.judges[judge].way == "recorded"
    cells = [(model, split) for model in config["models"] for split in config["splits"]]
    for there in sorted(output.glob(f"*/*/{ANSWERS}")):
        own, known = output == own_folder(config), there.parts[-3:-1] in cells
        if known and not own:  # it may be what the published library wrote, or what the study itself reads
            raise UserError(f"{there} is there already; choose another --output or move it away")
        if own and not known:
            old = f"{there.parent} is from an earlier export, and the study no longer has that model or split"
            raise UserError(f"{old}: delete it or move it away")
    for model, split in cells:
        cell = f"{model}/{split}.jsonl"
        places = (f"prompts/{split}.jsonl", f"answers/{cell}", f"verdicts/{judge}/{cell}", f"published/answers/{cell}")
        paths = [results / place for place in (*places, f"published/scores/{judge}/{model}/{split}.json")]
        for path in paths:
            if not path.is_file():
                todo = "give the study `tables: [protocol_effects]` (or `protocol: compat`) and run it"
                raise UserError(f"there is no {path}: {todo}")
            if path not in current:
                raise UserError(
                    f"{path} is not of the study as it is now: run the study again, with `tables: [protocol_effects]` "
                    "(or `protocol: compat`), then export it"
                )
        prompts, answers, verdicts, (_, *published) = (list(read_jsonl(path)) for path in paths[:-1])
        mark, votes = text_mark(config["model_entries"][model]["reasoning"]), None
        if came_along:
            folder = split_folder(config["model_entries"][model]["recorded"], split)
            votes = recorded_votes(prompts, folder / ANSWERS, folder / JUDGE_SCORES)
        files = files_of(prompts, answers, verdicts, published, read_json(paths[-1]), mark, votes)
        write_folder(output / model / split, files)
    return len(cells)


def own_folder(config: Mapping[str, Any]) -> Path:
    """Return the folder of a study's results that exports go to, and may be replaced in."""
    return Path(Paths(config).results, "published", "export")


def check(folder: Path) -> list[str]:
    """Print what follows from every folder below `folder`; return the differences, with the folder before each.

    Raises:
        UserError: if there is none, or one is not of that layout.
    """
    found = sorted(path.parent for path in folder.rglob(ANSWERS))
    if not found:
        raise UserError(f"there is no {ANSWERS} in {folder} or below")
    lines = []
    for one in found:
        read = read_folder(one)
        scores, shares = recomputed(read)
        name = str(one.relative_to(folder)) if one != folder else one.name
        values = "no prompt has a score: the published code writes no metrics here"
        if shares is not None:
            values = ", ".join(f"{key} {value:.2f}" for key, value in shares.items())
        print(f"{name}: {len(scores)} of {len(read.probabilities)} prompts scored; {values}")
        lines += [f"{name}: {difference}" for difference in differences(read)]
    return lines


def command(
    study: StudyFile = DEMO,
    judge: Annotated[str | None, typer.Option(help="Whose verdicts.", show_default="the primary judge")] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to.", show_default="results/STUDY/published/export"),
    ] = None,
    check_folder: Annotated[
        Path | None,
        typer.Option("--check", metavar="FOLDER", help="Check a folder in that layout instead; exports nothing."),
    ] = None,
) -> None:
    """Write a finished study in the layout of the published library, or check a folder in that layout.

    An export is FOLDER/MODEL/SPLIT/ with answers.json, judge_scores.json, censor_scores.json and
    censor_scores_metrics.json. It holds prompts and answers: do not publish it.

    A check reads every folder below FOLDER with an answers.json, computes its scores and metrics again from answers and
    judge scores, prints them, and says where the folder has others (exit code 3).
    """
    if check_folder is not None:
        if judge or output:
            raise typer.BadParameter("--check exports nothing: leave out --judge and --output")
        found = check(check_folder)
        typer.echo("\n".join(["Differences:", *found]) if found else "What the folders say follows from their answers.")
        if found:
            raise typer.Exit(DIFFERENT)
        return
    config, file = load_config(study)
    folder = output or own_folder(config)
    count = export(config, judge or config["primary_judge"], folder, current_files(file, ROOT))
    typer.echo(f"{count} cells in {folder}. They hold prompts and answers: do not publish them.")
