"""The tables of a study, and which files and names each is made of, for workflow/rules/report.smk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from snakemake.io import expand

import refusal_eval
from refusal_eval.study.study import NOUNS, Study
from refusal_eval.study.study_families import study_families
from refusal_eval.workflow.analyses_stage import has_battles, has_corrected, has_tradeoff
from refusal_eval.workflow.scoring import protocol_label
from refusal_eval.workflow.whole_study import labels_of, shown_splits

ENDINGS = ("csv", "md", "tex")
ALWAYS = ("refusal", "categories", "scores", "states", "votes", "judges")


class TableKind(NamedTuple):
    """A kind of table."""

    # `module:function` in the package: the function takes a `report.paper.table_data.TableData` and returns the frame
    # of the CSV and the tables of the Markdown and the LaTeX
    made_by: str
    needs: tuple[str, ...]  # what it is made of (workflow/rules/report.smk has the files)
    # what it shows of the study file; where `primary_judge` is among it, cells and cards are only its
    shows: tuple[str, ...]
    report: tuple[str, str]  # category and name in Snakemake's report

    @property
    def module(self) -> Path:
        """The file of the function, for `code_version`."""
        return Path(refusal_eval.__file__).parent / f"{self.made_by.split(':')[0].replace('.', '/')}.py"


RATES, JUDGES, ACCOUNTING = "Refusal rates", "Judges", "Accounting"
_EVERY = ("models", "splits", "judges", "gold")
_PRIMARY = (*_EVERY, "primary_judge")
TABLES = {
    "refusal": TableKind(
        "report.paper.rate_tables:refusal", ("estimates", "cards", "results", "comparisons"), _PRIMARY,
        (RATES, "Refusal rates, primary judge"),
    ),
    "categories": TableKind(
        "report.paper.category_tables:categories", ("estimates", "cards"), _PRIMARY,
        (RATES, "Refusal rates by category, primary judge"),
    ),
    "kinds": TableKind(
        "report.paper.kind_tables:kinds", ("estimates", "cards"), _EVERY, (RATES, "Kinds of answers")
    ),
    "scores": TableKind(
        "report.paper.rate_tables:scores", ("estimates", "cards"), _EVERY, (RATES, "Refusal rates, all judges")
    ),
    "states": TableKind(
        "report.paper.rate_tables:states", ("estimates",), ("models", "splits", "judges"),
        (ACCOUNTING, "States of answers and verdicts"),
    ),
    "answers": TableKind(
        "report.paper.rate_tables:answers", ("estimates", "cards"), _PRIMARY,
        ("Steering", "Answers, and what steering costs"),
    ),
    "votes": TableKind(
        "report.paper.rate_tables:votes", ("estimates", "cards"), _EVERY,
        (RATES, "Votes over K samples, and c(x)"),
    ),
    "judges": TableKind(
        "report.paper.judge_card_tables:judges", ("cards",), ("judges", "gold"),
        (JUDGES, "Agreement of judges with people"),
    ),
    "protocol_effects": TableKind(
        "compat.effects_table:protocol_effects", ("published", "estimates", "cards"), _EVERY,
        ("Protocols", "What each published choice does"),
    ),
    "judge_cards": TableKind(
        "report.paper.judge_card_tables:judge_cards", ("cards",), ("judges", "gold"), (JUDGES, "Judge cards")
    ),
    "judges_agree": TableKind(
        "report.paper.judges_agree_tables:judges_agree", ("agreement",), ("models", "splits", "judges"),
        (JUDGES, "Agreement between judges"),
    ),
    "comparisons": TableKind(
        "report.paper.comparison_tables:comparisons", ("comparisons", "cards"), (*_EVERY, "samples"),
        (RATES, "Differences on the same prompts"),
    ),
    "tradeoff": TableKind(
        "report.paper.tradeoff_tables:tradeoff", ("tradeoff", "estimates", "cards"), (*_PRIMARY, "samples"),
        ("Trade-off", "Over-refusal against safety"),
    ),
    "corrected": TableKind(
        "report.paper.corrected_tables:corrected", ("corrected", "cards"), (*_PRIMARY, "samples"),
        (RATES, "Corrected for the judge's errors"),
    ),
    "battles": TableKind(
        "report.paper.battle_tables:battles", ("battles", "cards"), _PRIMARY,
        ("Battles", "What refusals cost in battles"),
    ),
}  # fmt: skip


def tables_of(study: Study) -> list[str]:
    """Return the names of a study's tables."""
    wanted = {
        "protocol_effects": "protocol_effects" in study.settings.tables or study.settings.protocol == "compat",
        "answers": bool(study.steered_models) or any(split.match for split in study.splits.values()),
        "kinds": any(judge.named_kinds(study.view) for judge in study.judges.values()),
        "judge_cards": bool(study.gold),
        "judges_agree": len(study.judges) > 1,
        "comparisons": bool(study_families(study)),
        "tradeoff": has_tradeoff(study),
        "corrected": has_corrected(study),
        "battles": has_battles(study),
    }
    return [name for name in TABLES if wanted.get(name, True)]


def notes(table: str) -> list[str]:
    """Return the templates of the notes below a table, whose sentences a researcher may edit."""
    return sorted(map(str, (Path(refusal_eval.__file__).parent / "report/paper/notes" / table).glob("*.j2")))


def files(study: Study, noun: str, pattern: str) -> Callable[[Any], list[str]]:
    """Return an input function: the files of one noun that the table `wildcards.table` is made of, sorted by name."""

    def needed(wildcards: Any) -> list[str]:
        kind = TABLES[wildcards.table]
        if noun == "comparisons" and not study_families(study):
            return []
        judges = [study.primary_judge] if "primary_judge" in kind.shows else sorted(study.judges)
        names = {"judge": judges, "model": sorted(study.models), "gold": sorted(study.gold)}
        names |= {"split": sorted(study.splits)}
        return list(expand(pattern, **names)) if noun in kind.needs else []

    return needed


def params(study: Study, wildcards: Any) -> dict[str, Any]:
    """Return what a table shows of the study: names in their order and labels, and of splits what is expected there.

    The lists are params, so that a model taken away is noticed.
    """
    kind = TABLES[wildcards.table]
    splits = shown_splits(study)
    all_of_it: dict[str, Any] = {
        "models": list(study.models),
        "splits": splits,
        "judges": list(study.judges),
        "gold": list(study.gold),
        "primary_judge": study.primary_judge,
        "samples": study.settings.samples,
    }
    shown = {name: all_of_it[name] for name in kind.shows}
    if "estimates" in kind.needs:
        scoring = study.settings.scoring
        limits = {name: model.sampling.max_tokens for name, model in study.models.items()}
        shown |= {"tau": scoring.tau, "level": scoring.level, "max_tokens": limits}
    if {"comparisons", "results"}.intersection(kind.needs):
        shown["margin"] = study.settings.equivalence_margin
    if kind is TABLES["comparisons"]:
        shown["correction"] = study.settings.multiple_comparisons
        shown["families"] = [family.as_dict() for family in study_families(study)]
    nouns = [noun for noun in NOUNS if noun in shown or f"{noun}s" in shown]
    return {
        "made_by": kind.made_by, **shown, "labels": labels_of(study, nouns), "protocol": "default",
        **protocol_label(study),
    }  # fmt: skip
