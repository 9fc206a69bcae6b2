"""Write the methods section of a study, with its numbers, and the BibTeX of what it used."""

import logging
from pathlib import Path

from refusal_eval.config.references import read_bibtex
from refusal_eval.core.files import read_json, written_whole
from refusal_eval.core.logs import start_log
from refusal_eval.report.methods.methods_section import as_latex, as_markdown, cited_keys, paragraphs
from refusal_eval.report.methods.study_sources import bibliography, study_entries
from refusal_eval.report.results.results_files import read_results

LOG = logging.getLogger(__name__)


def main(
    manifest_path: str,
    card_paths: list[str],
    results_path: str,
    duplicates_path: str,
    bib_paths: list[str],
    folder: str,
) -> None:
    """Write methods.md, methods.tex and references.bib into a folder."""
    manifest = read_json(manifest_path)
    results = read_results(Path(results_path).read_text(encoding="utf-8"))
    cards = [read_json(path) for path in card_paths]
    text = paragraphs(manifest, cards, results, read_json(duplicates_path))
    known = study_entries(manifest["study"])
    for path in bib_paths:
        known |= read_bibtex(Path(path).read_text(encoding="utf-8"))
    keys = cited_keys(text)
    for name, content in (
        ("methods.md", as_markdown(text)),
        ("methods.tex", as_latex(text)),
        ("references.bib", bibliography(keys, known)),
    ):
        with written_whole(Path(folder, name)) as handle:
            handle.write(content)
    LOG.info("%d paragraphs, %d references", len(text), len(keys))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(
        manifest_path=str(snakemake.input.manifest),
        card_paths=[str(path) for path in snakemake.input.cards],
        results_path=str(snakemake.input.results),
        duplicates_path=str(snakemake.input.duplicates),
        bib_paths=[str(path) for path in snakemake.input.references],
        folder=str(Path(snakemake.output[0]).parent),
    )
