"""Judge answers that exist: read, written as a study, run, and summed up in ten lines."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.log_reader import messages_of, slug
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.config.shapes import SLUG
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.hints import nearest
from refusal_eval.core.states import ANSWER_STATES
from refusal_eval.core.texts import visible
from refusal_eval.features.recorded_logs.answer_set import AnswerSet, put_together, read_files, without_own_systems
from refusal_eval.features.recorded_logs.catalogue_match import Known, known_prompts, of_rows
from refusal_eval.features.recorded_logs.gold_file import gold_rows
from refusal_eval.features.recorded_logs.judged_lines import result_lines
from refusal_eval.features.recorded_logs.judged_study import NOTES, STUDY, JudgedStudy, write_study
from refusal_eval.program.page_lines import many
from refusal_eval.program.snakemake_summary import snakemake_command
from refusal_eval.program.study_file import ROOT
from refusal_eval.study.study import Study

JUDGES = ("keyword", "words-english")  # the second is fitted and shipped: neither needs an engine or a network
CACHE = ".cache"
Names = list[str] | None
Expect = Literal["comply", "refuse", "varies"]


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Logs of inspect (.eval, .json), samples of lm-evaluation-harness, tables, neutral rows; or folders.",
        ),
    ],
    judge: Annotated[
        Names, typer.Option(metavar="A,B", help="Judges; the first gives the headline.", show_default=", ".join(JUDGES))
    ] = None,
    expect: Annotated[
        Expect | None,
        typer.Option(help="What a good model does with all prompts.", show_default="as the files or the catalogue say"),
    ] = None,
    columns: Annotated[
        Names,
        typer.Option(
            metavar="prompt=A,answer=B", help="Which columns of a table hold what. Several `answer` are several models."
        ),
    ] = None,
    gold: Annotated[Path | None, typer.Option(metavar="FILE", help="Table with people's labels of answers.")] = None,
    gold_columns: Annotated[
        Names,
        typer.Option(metavar="label=A", help="Which columns of that table hold what.", show_default="as --columns"),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the study.", show_default="NAME")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the study.", show_default="the first file's")] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Write the study and run nothing.")] = False,
) -> None:
    """Judge answers that you have.

    Reads the answers, writes a study into a folder, runs it, and says what came out. Nothing is drawn: no engine, no
    weights and no network, unless a judge that you name needs them. The study can be changed and run again.
    """
    named, judges = _columns(columns, "--columns"), _listed(judge) or list(JUDGES)
    of_gold = {field: names[:1] for field, names in named.items()} | _columns(gold_columns, "--gold-columns")
    wanted = name or slug(files[0].stem)
    if not re.fullmatch(SLUG, wanted):
        raise typer.BadParameter(f"`{wanted}`: lower-case letters, digits, `.`, `_` and `-`", param_hint="--name")
    folder = (into or Path(wanted)).absolute()
    if folder.exists():
        raise typer.BadParameter(f"{shown_path(folder)} is there already; choose another folder", param_hint="--into")
    catalogue = _catalogue()
    _refuse_unknown(judges, catalogue)
    labelled = gold_rows(gold, of_gold) if gold else []
    again = "snakemake " + ("" if Path.cwd() == ROOT else f"--snakefile {ROOT}/Snakefile ")
    again += f"--cores all --configfile {shown_path(folder / STUDY)}"
    study = _study(files, named, expect, labelled, wanted, judges, catalogue, again)
    config, notes = write_study(study, folder), shown_path(folder / NOTES)
    lines = _read_lines(study, notes)
    if no_run:
        lines += [f"Wrote {shown_path(folder)}/ ({STUDY}, entries.yaml, answers/, prompts/).", f"Next: {again}"]
    needs = [one for one in judges if getattr(catalogue.valid["judges"][one], "engine", None)]
    if needs and not no_run:
        lines.append(
            f"The weights of {', '.join(needs)} are fetched if they are not here yet, and run on this machine."
        )
    _say(lines)
    if not no_run:
        _run(["-m", *snakemake_command(folder / STUDY, ROOT)[2:]], folder)
        _say(result_lines(Study(config), notes, len(lines)))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(visible(line))


def _study(
    files: Sequence[Path],
    columns: Mapping[str, Sequence[str]],
    expect: str | None,
    labelled: Sequence[Mapping[str, Any]],
    name: str,
    judges: Sequence[str],
    catalogue: Catalogue,
    again: str,
) -> JudgedStudy:
    read, systems = without_own_systems(read_files(files, columns))
    prompts = of_rows(messages_of(row) for one in read for row in one.rows)
    known = known_prompts(prompts, catalogue, CACHE, ROOT)
    taken = {"models": {"gold", *catalogue.written["models"]}, "splits": set(catalogue.written["splits"])}
    answers = put_together(read, systems, known, expect, taken)
    if labelled and answers.scorers:
        answers.lost.append(
            f"labels of {', '.join(answers.scorers)} came with the answers; with `--gold` they are left out, as they "
            "say nothing of the answers in it"
        )
    return JudgedStudy(
        name, answers, judges, labelled, [one.file.name for one in read], _known_line(prompts, known, expect), again
    )


def _known_line(prompts: Mapping[str, Any], known: Mapping[str, Known], expect: str | None) -> str:
    if not known:
        said = (
            f"a good model does what `--expect {expect}` says"
            if expect
            else "what a good model does is as the files say, or varies"
        )
        return f"None of the {many(len(prompts), 'prompt')} is in a split of the catalogue that is here: {said}."
    splits = Counter(one.split for one in known.values())
    named = ", ".join(f"{split} ({count})" for split, count in splits.most_common())
    kept = "categories and clusters" if expect else "categories, clusters and expectation"
    share = f"{len(known)} of {many(len(prompts), 'prompt')} ({100 * len(known) / len(prompts):.0f} %)"
    return f"{share} are in splits of the catalogue, by their text: {named}. They take {kept} from there."


def _read_lines(study: JudgedStudy, notes: str) -> list[str]:
    """Say what was read, and how much was lost; the notes say what."""
    answers: AnswerSet = study.answers
    total, always = sum(map(len, answers.models.values())), ("blocked", "failed")
    counts = [(state, answers.states[state]) for state in ANSWER_STATES]
    states = ", ".join(f"{count} {state}" for state, count in counts if count or state in always)
    sizes = {"model": len(answers.models), "prompt": answers.prompts, "split": len(answers.splits)}
    size = ", ".join([*(many(count, noun) for noun, count in sizes.items()), f"K = {answers.samples}"])
    lost = f"{many(len(answers.lost), 'thing')}, listed in {notes}" if answers.lost else "nothing that the readers know"
    return [
        f"Read {many(total, 'answer')} ({size}): {states}.",
        f"Lost: {lost}. {study.known.split('. ')[0].rstrip('.')}.",
    ]


def _run(arguments: Sequence[str], folder: Path) -> None:
    """Run the study; what Snakemake says is kept, and shown if it fails.

    Raises:
        UserError: if it failed.
    """
    options = ["--cores", "all", "--quiet", "all", "--workflow-profile", str(ROOT / "profiles" / "default")]
    log = folder / "run.log"
    with open(log, "w", encoding="utf-8") as handle:
        run = subprocess.run([sys.executable, *arguments, *options], stdout=handle, stderr=subprocess.STDOUT)
    if run.returncode:
        text = log.read_text(encoding="utf-8", errors="replace")
        said = next((line.strip() for line in text.splitlines() if "Error: " in line), "")
        raise UserError(
            f"the study was written to {shown_path(folder)} and did not run: {said[:500]} (see {shown_path(log)})"
        )


def _catalogue() -> Catalogue:
    problems: list[Problem] = []
    shipped = shipped_files(str(ROOT))
    catalogue = Catalogue(shipped, len(shipped), problems)
    if problems:
        raise ConfigError(problems)
    return catalogue


def _refuse_unknown(judges: Sequence[str], catalogue: Catalogue) -> None:
    for judge in judges:
        if judge not in catalogue.valid["judges"]:
            known = nearest(judge, catalogue.valid["judges"])
            raise typer.BadParameter(f"there is no judge `{judge}` in the catalogue{known}", param_hint="--judge")


def _columns(said: Names, option: str) -> dict[str, list[str]]:
    """Return which columns hold what: `prompt=question,answer=gpt,answer=qwen`."""
    found: dict[str, list[str]] = {}
    for part in (part for text in said or () for part in text.split(",")):
        field, equals, column = part.partition("=")
        if not (equals and field.strip() and column.strip()):
            raise typer.BadParameter(f"`{part}` is not FIELD=COLUMN, such as prompt=question", param_hint=option)
        found.setdefault(field.strip(), []).append(column.strip())
    return found


def _listed(words: Names) -> list[str]:
    return [name for word in words or () for name in word.replace(",", " ").split()]
