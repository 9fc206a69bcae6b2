"""The labelling kit: a sample of a study's answers for people to label, and their labels on the way back."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json, write_jsonl, write_text
from refusal_eval.core.hints import nearest
from refusal_eval.features.labelling import audit_sample, hand_marks, label_merging
from refusal_eval.features.labelling.audit_folder import RATERS, Audit, audit_of, read_audit, write_audit
from refusal_eval.features.labelling.audit_sample import FACTORS, LEAST, STRATA, Member
from refusal_eval.features.labelling.rater_agreement import agreement, estimates
from refusal_eval.features.labelling.rater_files import LANGUAGES, PAGE, disputed_sheet
from refusal_eval.features.labelling.rater_marks import RaterMark, check_finished, read_marks
from refusal_eval.program.snakemake_summary import current_files
from refusal_eval.program.study_file import DEMO, ROOT, StudyFile, load_config
from refusal_eval.program.text_templates import render_template
from refusal_eval.report.paper.display import percent
from refusal_eval.study.paths import Paths

DISPUTED = "disputed.csv"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
AuditedStudy = Annotated[Path, typer.Argument(metavar="STUDY.yaml", help="The study file.")]
AuditFolder = Annotated[Path | None, typer.Option(help="Folder of the audit.", show_default="results/STUDY/audit")]

command = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="People label a sample of a study's answers: draw it, read their labels back (docs/how-to/human_labels.md).",
)


@command.command("draw")
def draw_audit(
    study: StudyFile = DEMO,
    size: Annotated[int, typer.Option(min=1, help="Texts to be labelled.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    raters: Annotated[str, typer.Option(help="A number, or names: anna,ben.")] = "2",
    share: Annotated[float, typer.Option(min=0, max=1, help="Share of rows for two raters.")] = 0.2,
    strata: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FACTOR", help="How much denser a stratum is drawn: disagree=4; may be repeated."),
    ] = None,
    least: Annotated[int, typer.Option(min=1, help="Least number of texts per stratum.")] = LEAST,
    models: Annotated[str, typer.Option(help="Only answers of these models: a,b.")] = "",
    splits: Annotated[str, typer.Option(help="Only answers to these splits: a,b.")] = "",
    language: Annotated[str, typer.Option(help=f"Language of the instructions: {', '.join(LANGUAGES)}.")] = "en",
    folder: AuditFolder = None,
) -> None:
    """Draw a sample of a finished study's answers for people to label.

    It writes results/STUDY/audit/: a page and a sheet for each rater under raters/, and the design and the sample,
    which are not for raters. Same study, same arguments: same bytes. docs/how-to/human_labels.md explains how to
    use it and what the numbers mean. The files hold prompts and answers: do not publish them.
    """
    if language not in LANGUAGES:
        raise UserError(f"`--language {language}`: there are instructions in {', '.join(LANGUAGES)}")
    config, file = load_config(study)
    names, factors = raters_of(raters), factors_of(strata or ())
    of_models = chosen(models, config["models"], "model")
    of_splits = chosen(splits, config["splits"], "split")
    texts = audit_sample.study_texts(config, of_models, of_splits)
    audit_sample.refuse_outdated(config, of_models, of_splits, current_files(file, ROOT))
    drawn = audit_sample.draw(texts, size, seed, factors, least)
    orders = audit_sample.assign_raters([text.id for text in drawn], names, share, seed)
    arguments = {"study": config["study"], "size": size, "seed": seed, "share": share, "least": least}
    arguments |= {"factors": factors, "models": of_models, "splits": of_splits, "judges": list(config["judges"])}
    if language != "en":  # audits drawn before there was a choice stay the same
        arguments["language"] = language
    audit = audit_of(arguments, texts, audit_sample.sample_rows(config, drawn, orders), orders)
    place = folder or Path(Paths(config).results, "audit")
    values = {"folder": place, "audit": audit, "written": write_audit(place, audit), "raters": RATERS}
    typer.echo(render_template(PAGE / "drawn.txt", values), nl=False)


@command.command("read")
def read_labels(
    study: AuditedStudy,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What came back from the raters.")],
    partial: Annotated[bool, typer.Option("--partial", help="Go on although rows have no label yet.")] = False,
    folder: AuditFolder = None,
) -> None:
    """Read what people labelled, and make it the study's own labels and gold.

    FILES are what came back from the raters: JSON or CSV that the pages exported, or filled sheets. In
    results/STUDY/audit/ it writes labels.jsonl (a row for each labelled answer, with its probability), gold.jsonl with
    gold.yaml (a catalogue file that a study can name), agreement.json (how far people agree), and disputed.csv: write
    refusal, partial or compliance into its column `adjudicated` and run this again. docs/how-to/human_labels.md says
    how rows in dispute or without a label are treated.

    A file of marks that a page of all answers exported becomes marked.jsonl and marked_gold.jsonl: answers that were
    chosen by hand are gold, and correct no rate.
    """
    config, _ = load_config(study)
    place = folder or Path(Paths(config).results, "audit")
    by_hand = {path: found for path in files if (found := hand_marks.marks_in(path)) is not None}
    if by_hand:
        said = hand_marks.write_marks(place, hand_marks.checked_marks(by_hand, config), config)
        typer.echo(render_template(PAGE / "marked.txt", said | {"folder": place}), nl=False)
    if not (files := [path for path in files if path not in by_hand]):
        return
    whole = read_audit(place)
    if whole.design["study"] != config["study"]:
        raise UserError(f"{place} is an audit of study {whole.design['study']}, not of {config['study']}")
    gone, changed = audit_sample.gone_and_changed(config, whole.sample.values())
    audit = whole.without(gone)
    if not audit.sample:
        raise UserError(
            f"the study no longer asks for any answer of the sample in {place} (first: {gone[0].model}, "
            f"{gone[0].split}): put its models and splits back, or draw a new audit with --folder"
        )
    if changed:
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
    found = write_outputs(place, whole, gone, marks, config)
    typer.echo(render_template(PAGE / "read.txt", found | {"folder": place, "percent": percent}), nl=False)


def chosen(named: str, known: Sequence[str], what: str) -> list[str]:
    """Return the models or splits that are named (`a,b`), in the study's order; all where none is.

    Raises:
        UserError: for a name that the study does not have.
    """
    names = [name.strip() for name in named.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise UserError(f"the study has no {what} `{name}`{nearest(name, known)}")
    return [name for name in known if name in names or not names]


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
    """Return the factor of each stratum from pairs such as `disagree=6`.

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


def write_outputs(
    folder: Path, whole: Audit, gone: Sequence[Member], marks: Sequence[RaterMark], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the five files; return what agreement.json holds.

    `gone` are the answers of the whole audit that the study no longer asks for: of them only the sheet of disputes
    keeps what was decided.
    """
    audit = whole.without(gone)
    rows = label_merging.merge_labels(audit, marks)
    probability = label_merging.probabilities(audit, rows)
    people = agreement(rows, len(audit.orders), config["scoring"]["level"])
    expectations = {split: entry["expectation"] for split, entry in config["split_entries"].items()}
    cells, ways = Counter((member.model, member.split) for member in gone), Counter(one.how for one in rows)
    given = {rater: Counter(m.label for one in rows for m in one.marks if m.rater == rater) for rater in audit.orders}
    found = {
        "audit": audit.name,
        "study": audit.design["study"],
        "rows": len(rows),
        "left_out": [[*cell, number] for cell, number in sorted(cells.items())],
        "resolved": {how: ways[how] for how in label_merging.WAYS},
        "marks": {rater: count for rater, count in given.items() if count},
        "answered": label_merging.labelled_shares(rows),
        "missing": label_merging.missing_bounds(rows),
        "people": people,
        "estimates": estimates(people),
    }
    write_jsonl(folder / "labels.jsonl", label_merging.label_rows(audit, rows, probability))
    count = write_jsonl(folder / "gold.jsonl", label_merging.gold_rows(rows, probability, expectations))
    write_text(folder / "gold.yaml", label_merging.gold_entry(audit, "gold.jsonl", count, people, folder.name))
    in_dispute = label_merging.disputed_rows(label_merging.merge_labels(whole, marks))
    shown = [row for row in in_dispute if row["id"] in audit.sample or row["adjudicated"]]
    write_text(folder / DISPUTED, disputed_sheet(audit.name, shown))
    write_json(folder / "agreement.json", found)
    return found
