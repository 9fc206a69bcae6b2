"""A verb of one's own: `refusal-eval --plugin rates_verb.py rates STUDY.yaml` prints strict refusal rates."""

from pathlib import Path

import typer

from refusal_eval.core.errors import UserError
from refusal_eval.program.study_file import StudyFile, load_config
from refusal_eval.program.verb import VERBS, Command, Verb


@VERBS.add
class RatesVerb(Verb):
    """The strict refusal rates of the primary judge."""

    name = "rates"
    does = "print the refusal rates of a finished study"

    @staticmethod
    def command() -> Command:
        return print_rates


def print_rates(study: StudyFile) -> None:
    """Print a line for each model and split."""
    import pandas as pd

    from refusal_eval.study.paths import Paths

    config, _ = load_config(study)
    path = Path(Paths(config).results, "results_table", "results.csv")
    if not path.is_file():
        raise UserError(f"there is no {path}: run the study first")
    rows = pd.read_csv(path)
    rates = rows[(rows["estimand"] == "refusal_rate") & (rows["reading"] == "strict")]
    for row in rates[(rates["judge"] == config["primary_judge"]) & rates["split"].notna()].itertuples():
        typer.echo(f"{row.model} on {row.split}: {row.value:.3f}")
