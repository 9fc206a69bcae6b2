"""The verb `browse`: the page to browse a study's answers, whatever of the study is there."""

from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path, size_text, write_text
from refusal_eval.features.browser.answers_page import study_page
from refusal_eval.features.browser.page_paths import page_paths
from refusal_eval.features.browser.shown_study import shown_study
from refusal_eval.features.browser.stored_tokens import stored_tokens
from refusal_eval.program.page_lines import many
from refusal_eval.program.study_file import DEMO, StudyFile, load_config
from refusal_eval.study.study import Study

LARGE = 250_000_000  # bytes of a page that browsers may not open: a text of theirs has 2**29 characters at most
NAMES = {False: "browser.html", True: "browser_labels.html"}  # by whether it has labels only


def browse(
    study: StudyFile = DEMO,
    labels_only: Annotated[
        bool, typer.Option("--labels-only", help="Without texts of prompts, answers and judges: to be published.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="With the log-probability of each token, where the store has it.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page.", show_default="results/STUDY/browser.html")
    ] = None,
) -> None:
    """Write one page with all answers of a study and what the judges say of them, and open it from disk.

    It needs no server and no network. docs/how-to/browse_answers.md explains it. It holds texts of prompts and
    answers: do not publish it. A page with `--labels-only` has none.

    `--tokens` shows how likely each token was, as the engine returned it; the page is then about twice as large.
    """
    config, _ = load_config(study)
    whole = Study(config)
    if output is not None and output.is_dir():
        raise UserError(f"`--output {output}`: is a folder; name a file")
    if tokens and labels_only:
        raise UserError("`--tokens` and `--labels-only`: tokens are texts; leave one of the two out")
    path = output or Path(whole.paths.results, NAMES[labels_only])
    paths = page_paths(whole)
    known = stored_tokens(whole, paths["answers"]) if tokens else {}
    page = study_page(shown_study(whole), paths, labels_only, known)
    write_text(path, page)
    typer.echo(f"{shown_path(path)}: {size_text(len(page))}. Open it in a browser; it needs no server.")
    if len(page) > LARGE:
        typer.echo(
            "Browsers may fail to open so large a page: copy the study file, leave models or splits out of the copy, "
            "and browse that."
        )
    if tokens:
        typer.echo(
            f"The store has tokens of {many(len(known), 'answer')}." if known else "The store has no tokens of it."
        )
    missing = [cell for cell in product(whole.models, whole.splits) if not paths["answers"][cell].is_file()]
    if missing:
        typer.echo(f"{many(len(missing), 'cell')} of {len(paths['answers'])} have no answers yet and are not in it.")
    if not labels_only:
        typer.echo("It holds texts of prompts and answers: do not publish it (--labels-only makes one without).")
