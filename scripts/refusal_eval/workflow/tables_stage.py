"""The tables of a study, and which files and names each is made of, for workflow/rules/report.smk."""

import os.path
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.config.kinds import ANALYSES, ANSWER_PAGES, TABLES
from refusal_eval.study.files import answer_pages, needed_files
from refusal_eval.study.study import NOUNS, Study
from refusal_eval.workflow.scoring import named_protocol
from refusal_eval.workflow.whole_study import labels_of, shown_splits

if TYPE_CHECKING:
    from refusal_eval.report.paper.table_kind import StudyTable

ENDINGS = ("csv", "md", "tex", "html")
ALWAYS = ("refusal", "categories", "scores", "states", "votes", "judges")


def table_files(study: Study) -> list[str]:
    """Return the files of a study's tables."""
    endings = {name: ENDINGS if table.typeset else ENDINGS[:1] for name, table in study.tables.items()}
    return [f"{study.paths.results}/tables/{name}.{ending}" for name, of in endings.items() for ending in of]


def notes(table: str) -> list[str]:
    """Return the templates of the notes below a table, whose sentences a researcher may edit."""
    return sorted(map(str, (TABLES.module(table).parent / "notes" / table).glob("*.j2")))


def files(study: Study, table: str) -> dict[str, list[str]]:
    """Return the files that a table is made of, by noun."""
    kind: type[StudyTable] = TABLES.get(table)
    judges = [study.primary_judge] if "primary_judge" in kind.shows else list(study.judges)
    names = {"judge": judges, "model": list(study.models), "gold": list(study.gold), "split": list(study.splits)}
    return needed_files(study, kind.needs, **names) | kind.own_files(study)


def params(study: Study, table: str) -> dict[str, Any]:
    """Return what a table shows of the study: names in their order and labels, and of splits what is expected there.

    The lists are params, so that a model taken away is noticed.
    """
    kind: type[StudyTable] = TABLES.get(table)
    all_of_it: dict[str, Any] = {
        "models": list(study.models),
        "splits": shown_splits(study),
        "judges": list(study.judges),
        "gold": list(study.gold),
        "primary_judge": study.primary_judge,
        "samples": study.settings.samples,
        "margin": study.settings.equivalence_margin,
        "tau": study.settings.scoring.tau,
    }
    shown = {name: all_of_it[name] for name in kind.shows}
    if "estimates" in kind.needs:
        scoring = study.settings.scoring
        limits = {name: model.longest for name, model in study.models.items()}
        shown |= {"tau": scoring.tau, "level": scoring.level, "max_tokens": limits}
    if kind.of_analysis is not None:
        shown |= ANALYSES.get(kind.of_analysis)(study).table_params()
    nouns = [noun for noun in NOUNS if noun in shown or f"{noun}s" in shown]
    return {
        **shown, "labels": labels_of(study, nouns), "protocol": "default",
        **({} if study.settings.paper is None or not kind.typeset else {"paper": asdict(study.paper)}),
        **named_protocol(study), **(_linked(study) if kind.typeset else {}),
    }  # fmt: skip


def _linked(study: Study) -> dict[str, dict[str, str]]:
    """Return the pages of answers that cells link to, from the folder of tables on; nothing where there is none."""
    folder = f"{study.paths.results}/tables"
    pages = {name: os.path.relpath(path, folder) for name, path in answer_pages(study).items()}
    return {"answer_pages": pages} if pages else {}


def page_modules(study: Study, table: str) -> list[Path]:
    """Return the modules of the pages of answers that a table links to, for `code_version`."""
    return [ANSWER_PAGES.module(name) for name in answer_pages(study)] if TABLES.get(table).typeset else []
