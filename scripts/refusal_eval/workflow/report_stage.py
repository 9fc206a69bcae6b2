"""What Snakemake's report of a study shows and in which order, for workflow/Snakefile.

Snakemake sorts sections and entries by their names, so each begins with its number.
"""

from typing import NamedTuple

from refusal_eval.config.report_sections import JUDGES, METHODS, in_order
from refusal_eval.study.files import answer_pages
from refusal_eval.study.study import Study

PAGE = "page"


class ReportEntry(NamedTuple):
    """One entry of the report.

    Attributes:
        file: what it shows.
        section: its section, with a number.
        name: its name, with a number.
        caption: the file that explains it, as workflow/Snakefile finds it.
    """

    file: str
    section: str
    name: str
    caption: str


class _Shown(NamedTuple):
    file: str  # below the results
    section: str
    name: str
    caption: str = PAGE


def entries(study: Study) -> list[ReportEntry]:
    """Return the entries of the report, as Snakemake will sort them."""
    shown = _shown(study)
    sections = in_order([*(table.report[0] for table in study.tables.values()), *(one.section for one in shown)])
    found = []
    for number, section in enumerate(sections, 1):
        own = [one for one in shown if one.section == section]
        begins, width = f"{number:0{len(str(len(sections)))}}", len(str(len(own)))
        for place, one in enumerate(own, 1):
            path, name = f"{study.paths.results}/{one.file}", f"{begins}.{place:0{width}} {one.name}"
            found.append(ReportEntry(path, f"{begins} {section}", name, f"report/{one.caption}.rst"))
    return found


def _shown(study: Study) -> list[_Shown]:
    """Return what is shown, in each section in this order: the first table, figures, the other tables, all else."""
    pages = "report_pages" if answer_pages(study) else "tables"
    tables = [
        _Shown(f"{pages}/{name}.html", table.report[0], table.report[1])
        if table.typeset
        else _Shown(f"tables/{name}.csv", table.report[0], f"{table.report[1]} (CSV)", "listing")
        for name, table in study.tables.items()
    ]
    titles = [figure.report[:2] for figure in study.figures.values()]
    figures = [
        # Two of one kind are told apart by the names that the study gave them.
        _Shown(f"figures/{name}.html", section, f"{title}{f', {name}' * (titles.count((section, title)) > 1)} (figure)")
        for name, (section, title) in zip(study.figures, titles, strict=True)
    ]
    cards = [
        # By their names: labels may hold what ends the script in which Snakemake writes this.
        _Shown(f"figures/judge_cards/{judge}/{gold}.html", JUDGES, f"{judge} on {gold} (card)")
        for judge in study.judges
        for gold in study.gold
    ]
    others = [
        _Shown("methods.md", METHODS, "Methods section (Markdown)", "methods"),
        _Shown("results_table/results.csv", METHODS, "All numbers (CSV)", "results_table"),
        _Shown("manifest.json", METHODS, "Manifest (JSON)", "manifest"),
    ]
    first = list({one.section: one for one in reversed(tables)}.values())
    return list(dict.fromkeys([*first, *figures, *tables, *cards, *others]))
