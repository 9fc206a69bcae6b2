"""Write the methods section of a study, with its numbers, and the BibTeX of what it used."""

from pathlib import Path
from typing import Any

from refusal_eval.config.references import read_bibtex
from refusal_eval.core.files import read_json, read_users_text, write_text
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.report.methods.methods_section import (
    Paragraph,
    as_latex,
    as_markdown,
    cited_keys,
    in_latex,
    latex_text,
    markdown_text,
    paragraphs,
    short_text,
)
from refusal_eval.report.methods.study_sources import bibliography, study_entries
from refusal_eval.report.results.results_files import read_results


def main(files: Any, folder: Path) -> None:
    """Write methods.md, methods.tex, a short form of both, and references.bib into a folder.

    Args:
        files: `manifest`, `cards`, `results`, `duplicates`, and the BibTeX files that are the `references`.
    """
    manifest = read_json(files.manifest)
    results = read_results(Path(files.results).read_text(encoding="utf-8"))
    cards = [read_json(path) for path in files.cards]
    about = (manifest, cards, results, read_json(files.duplicates))
    text, short = paragraphs(*about), short_text(*about)
    known = study_entries(manifest["study"])
    for path in files.references:
        known |= read_bibtex(read_users_text(path))
    keys = cited_keys([*text, Paragraph("", short)])
    for name, content in (
        ("methods.md", as_markdown(text)),
        ("methods.tex", as_latex(text)),
        ("methods_short.md", markdown_text(short) + "\n"),
        ("methods_short.tex", in_latex(latex_text(short))),
        ("references.bib", bibliography(keys, known)),
    ):
        write_text(folder / name, content)
    LOG.info("%d paragraphs, %d references", len(text), len(keys))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.input, Path(snakemake.output[0]).parent)
