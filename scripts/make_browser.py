"""Write the page to browse a study's answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import size_text, write_text
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.browser.answers_page import study_page


def main(shown: Mapping[str, Any], files: Mapping[str, Sequence[Sequence[Any]]], output: str) -> None:
    """Write the page.

    Args:
        shown: what it says of the study (`shown_study.shown_study`).
        files: the names and the path of each file, by noun (`page_paths.named_paths`).
    """
    paths = {noun: {tuple(names): Path(path) for names, path in of} for noun, of in files.items()}
    page = study_page(shown, paths, labels_only=False)
    write_text(output, page)
    LOG.info("%s of answers", size_text(len(page)))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.params.shown, snakemake.params.files, snakemake.output[0])
