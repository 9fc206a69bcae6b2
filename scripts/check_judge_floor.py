"""Fail where a judge agrees less with people than the study asks for; everything else is made before."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_json
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.features.judge_cards.floor import all_below


def main(card_paths: list[str], floors: Mapping[str, Mapping[str, Any]], output: str) -> None:
    """Write which floors are met.

    Raises:
        UserError: if one is not, with all that is below.
    """
    failures = all_below([read_json(path) for path in card_paths], floors)
    if failures:
        raise UserError(
            "The results are all made, but a judge does not reach the floor that its entry sets:\n  - "
            + "\n  - ".join(failures)
            + "\nUse a better judge, calibrate it, measure it on more gold, or lower the `floor` of its entry."
        )
    write_json(output, {"met": {judge: dict(floor) for judge, floor in sorted(floors.items())}})
    LOG.info("floors of %d judges are met", len(floors))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    main(snakemake.input.cards, snakemake.params.floors, snakemake.output[0])
