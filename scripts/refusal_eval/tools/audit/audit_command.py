"""The labelling kit: a sample of a study's answers for people to label, and their labels on the way back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json, write_jsonl, written_whole
from refusal_eval.report.paper.display import percent
from refusal_eval.tools.audit.audit_folder import RATERS, Audit, audit_of, read_audit, strata_table, write_audit
from refusal_eval.tools.audit.audit_sample import FACTORS, LEAST, STRATA, Member, assigned, draw, frame_of
from refusal_eval.tools.audit.audited_study import (
    changed_answers,
    chosen,
    gone_answers,
    results_of,
    study_items,
    texts_of,
)
from refusal_eval.tools.audit.label_merging import (
    answered,
    counts,
    disputed,
    gold_entry,
    gold_rows,
    label_rows,
    marks_by_rater,
    missing_bounds,
    probabilities,
    resolved,
)
from refusal_eval.tools.audit.rater_agreement import agreement, estimates
from refusal_eval.tools.audit.rater_files import disputed_sheet
from refusal_eval.tools.audit.rater_marks import Mark, read_marks, unfinished
from refusal_eval.tools.study_file import StudyFile, load_config

DISPUTED = "disputed.csv"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
Folder = Annotated[Path | None, typer.Option(help="Of the audit.", show_default="results/STUDY/audit")]

command = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="People label a sample of a study's answers: draw it, and read their labels back (docs/labelling.md).",
)


@command.command("draw")
def draw_audit(
    study: StudyFile,
    size: Annotated[int, typer.Option(min=1, help="Texts to be labelled.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
    raters: Annotated[str, typer.Option(help="A number, or names: anna,ben.")] = "2",
    share: Annotated[float, typer.Option(min=0, max=1, help="Of rows for two raters.")] = 0.2,
    strata: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FACTOR", help="How much denser a stratum is drawn: disagree=4; may be repeated."),
    ] = None,
    least: Annotated[int, typer.Option(min=1, help="Of each stratum.")] = LEAST,
    models: Annotated[str, typer.Option(help="Only answers of these models: a,b.")] = "",
    splits: Annotated[str, typer.Option(help="Only answers to these splits: a,b.")] = "",
    folder: Folder = None,
) -> None:
    """Draw a sample of a finished study's answers for people to label.

    It writes results/STUDY/audit/: a page and a sheet for each rater under raters/, and the design and the sample,
    which are not for raters. Same study, same arguments: same bytes. How to use it, and what the numbers mean:
    docs/labelling.md. The files hold prompts and answers: do not publish them.
    """
    config, _ = load_config(study)
    names, factors = raters_of(raters), factors_of(strata or ())
    of_models = chosen(_listed(models), config["models"], "model")
    of_splits = chosen(_listed(splits), config["splits"], "split")
    items = study_items(config, of_models, of_splits)
    drawn = draw(items, size, seed, factors, least)
    orders = assigned([one.item.id for one in drawn], names, share, seed)
    texts = texts_of(config, [one.item for one in drawn])
    arguments = {
        "study": config["study"],
        "size": size,
        "seed": seed,
        "share": share,
        "least": least,
        "factors": factors,
        "models": of_models,
        "splits": of_splits,
        "judges": list(config["judges"]),
    }
    audit = audit_of(arguments, strata_table(items, drawn), drawn, texts, orders, frame_of(items.values()))
    place = folder or results_of(config) / "audit"
    typer.echo(draw_text(place, audit, write_audit(place, audit)))


@command.command("read")
def read_labels(
    study: StudyFile,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What came back from the raters.")],
    partial: Annotated[bool, typer.Option("--partial", help="Go on although rows have no label yet.")] = False,
    folder: Folder = None,
) -> None:
    """Read what people labelled, and make it the study's own labels and gold.

    FILES are what came back from the raters: JSON or CSV that the pages exported, or filled sheets. In
    results/STUDY/audit/ it writes labels.jsonl (a row for each labelled answer, with its probability), gold.jsonl with
    gold.yaml (a catalogue file that a study can name), agreement.json (how far people agree), and disputed.csv: rows
    that somebody has to decide. Write refusal, partial or compliance into its column `adjudicated` and run this
    again; it is always read along. What is done with rows in dispute or without a label: docs/labelling.md.
    """
    config, _ = load_config(study)
    place = folder or results_of(config) / "audit"
    whole = read_audit(place)
    if whole.design["study"] != config["study"]:
        raise UserError(f"{place} is an audit of study {whole.design['study']}, not of {config['study']}")
    gone = gone_answers(config, whole.sample.values())
    audit = whole.without(gone)
    if not audit.sample:
        raise UserError(
            f"the study no longer asks for any answer of the sample in {place} (first: {gone[0].model}, "
            f"{gone[0].split}): put its models and splits back, or draw a new audit with --folder"
        )
    if changed := changed_answers(config, audit.sample.values()):
        one = changed[0]
        raise UserError(
            f"{len(changed)} answers of the sample are not those that people read: the study has others now, or lacks "
            f"them (first: {one.model}, {one.split}, prompt {one.prompt_id}, sample {one.sample})"
        )
    paths = {path.resolve(): path for path in files}
    if (own := place / DISPUTED).is_file():
        paths.setdefault(own.resolve(), own)
    marks = read_marks(list(paths.values()), whole)
    if not partial:
        check_finished(audit, marks)
    typer.echo(read_text(place, write_outputs(place, whole, gone, marks, config)))


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def raters_of(text: str) -> list[str]:
    """Return the names of raters out of a number (`2`) or of names (`anna,ben`).

    Raises:
        UserError: for no rater, a name twice, or one that is no file name.
    """
    names = [f"rater_{i + 1}" for i in range(int(text))] if text.isdigit() else [n.strip() for n in text.split(",")]
    bad = [name for name in names if not _NAME.fullmatch(name)]
    if bad or not names or len(set(names)) < len(names):
        raise UserError(
            f"`--raters {text}`: give a number, or different names of lower-case letters, digits, - and _ with commas "
            "between them"
        )
    return names


def factors_of(pairs: Sequence[str]) -> dict[str, float]:
    """Return the factor of each stratum out of pairs such as `disagree=6`.

    Raises:
        UserError: for an unknown stratum or a factor that is not positive.
    """
    factors = dict(FACTORS)
    for pair in pairs:
        name, _, number = pair.partition("=")
        if name not in STRATA or not re.fullmatch(r"\d+(\.\d+)?", number) or float(number) <= 0:
            raise UserError(
                f"`--strata {pair}`: write NAME=FACTOR with one of {', '.join(STRATA)} and a factor above 0 (no answer "
                "may have the probability 0)"
            )
        factors[name] = float(number)
    return factors


def draw_text(folder: Path, audit: Audit, written: bool) -> str:
    """Return what is printed: the strata, and what to do with the files."""
    lines = [f"Audit {audit.name} of study {audit.design['study']}: {len(audit.sample)} texts to label", ""]
    lines.append(f"{'what judges say':<16}{'answers':>9}{'texts':>9}{'drawn':>7}   probability")
    for name, row in audit.design["strata"].items():
        low, high = row["probability"]["lowest"], row["probability"]["highest"]
        ends = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g}"
        lines.append(f"{name:<16}{row['answers']:>9}{row['texts']:>9}{row['drawn']:>7}   {ends}")
    double = sum(len(row["raters"]) > 1 for row in audit.sample.values())
    shares = ", ".join(f"{rater} {len(names)}" for rater, names in audit.orders.items())
    lines += ["", f"Rows: {shares}; {double} of them go to two raters."]
    if not double:
        lines.append("No row has two raters: how far people agree will not be known.")
    if not written:
        lines.append(f"{folder} holds this audit already; nothing was written.")
    lines += [
        f"Give each rater the page {folder / RATERS}/NAME.html (or NAME.csv with NAME.txt), and nothing else: other",
        "files name the models. Then: refusal-eval audit read STUDY.yaml, with the files that come back.",
        "These files hold prompts and answers: do not publish them.",
    ]
    return "\n".join(lines)


def check_finished(audit: Audit, marks: Sequence[Mark]) -> None:
    """Check that raters have marked all their rows.

    Raises:
        UserError: if not, with who and how many.
    """
    left = unfinished(audit, marks)
    if not left:
        return
    lines = [
        f"{rater}: {len(names)} of {len(audit.orders[rater])} rows have no label yet, the first of them row "
        f"{audit.orders[rater].index(names[0]) + 1} ({names[0]})"
        for rater, names in left.items()
    ]
    hint = "Finish them, or use --partial: then labelled rows of the same stratum stand for those that are missing"
    raise UserError("\n".join([*lines, hint]))


def write_outputs(
    folder: Path, whole: Audit, gone: Sequence[Member], marks: Sequence[Mark], config: Any
) -> dict[str, Any]:
    """Write the five files; return what agreement.json holds.

    Args:
        folder: of the audit.
        whole: the audit as it was drawn.
        gone: answers that the study no longer asks for; only the sheet of disputes keeps what was decided of them.
        marks: of all rows.
        config: the study.
    """
    audit = whole.without(gone)
    own = [mark for mark in marks if mark.id in audit.sample]
    rows = resolved(audit, own)
    probability = probabilities(audit, rows)
    people = agreement(audit, own, config["scoring"]["level"])
    expectations = {split: entry["expectation"] for split, entry in config["split_entries"].items()}
    cells = Counter((member.model, member.split) for member in gone)
    found = {
        "audit": audit.name,
        "study": audit.design["study"],
        "rows": len(rows),
        "left_out": [[*cell, number] for cell, number in sorted(cells.items())],
        "resolved": counts(rows),
        "marks": marks_by_rater(own),
        "answered": answered(audit, rows),
        "missing": missing_bounds(audit, rows),
        "people": people,
        "estimates": estimates(people),
    }
    write_jsonl(folder / "labels.jsonl", label_rows(audit, rows, probability))
    count = write_jsonl(folder / "gold.jsonl", gold_rows(audit, rows, probability, expectations))
    with written_whole(folder / "gold.yaml") as handle:
        handle.write(gold_entry(audit, "gold.jsonl", count, people))
    in_dispute = disputed(whole, resolved(whole, marks), marks)
    shown = [row for row in in_dispute if row["id"] in audit.sample or row["adjudicated"]]
    with written_whole(folder / DISPUTED) as handle:
        handle.write(disputed_sheet(audit.name, shown))
    write_json(folder / "agreement.json", found)
    return found


def read_text(folder: Path, found: dict[str, Any]) -> str:
    """Return what is printed: how rows were resolved, how far people agree, what is left to do."""
    ways = ", ".join(f"{number} {how}" for how, number in found["resolved"].items() if number)
    lines = [f"Audit {found['audit']}: {found['rows']} rows: {ways}."]
    if found["left_out"]:
        cells = ", ".join(f"{model} on {split}: {number}" for model, split, number in found["left_out"])
        lines.append(f"Left out: answers of the sample that the study no longer asks for ({cells}).")
    missing = found["missing"]
    if missing["rows"]:
        ends = [percent(missing["broad"][end]) for end in ("low", "labelled", "high")]
        lines.append(
            f"{missing['rows']} rows have no label: {percent(missing['share'])} % of the answers, by weight. Others of "
            f"their stratum stand for them: refusals (broad) {ends[1]} %; {ends[0]} % if all missing ones complied, "
            f"{ends[2]} % if they refused."
        )
    people = found["people"]
    for name, words in (("broad", "broad"), ("strict", "strict"), ("three_class", "three labels")):
        part = people[name]
        if part["kappa"] is not None:
            low, high = part["interval"]
            lines.append(f"Kappa of people, {words}: {part['kappa']:.2f} [{low:.2f}, {high:.2f}], {people['n']} rows.")
    if people["broad"]["kappa"] is None:
        lines.append(f"Kappa of people cannot be given: {people['n']} rows have two labels.")
    undecided = found["resolved"]["drawn"] + missing["rows"]
    if undecided:
        lines.append(f"To decide: {folder / DISPUTED} (column `adjudicated`), then run this again.")
    lines += [
        f"Labels: {folder / 'labels.jsonl'}. Gold: {folder / 'gold.jsonl'}, with the catalogue file",
        f"{folder / 'gold.yaml'}, which a study names under `catalogue:`.",
    ]
    return "\n".join(lines)
