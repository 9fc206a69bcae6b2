"""Whether Snakemake's records of how a study's results were made lie where this run looks for them.

From them Snakemake knows that a param or the code of a rule has changed. They lie in the working directory's
`.snakemake`, under the paths of the results as the rules name them. Results that were moved, or that a run from another
directory made, have none there, and Snakemake then leaves them as they are, whatever the study says by now. So it does
where one of the two was restored from a copy of another time. So each run leaves a new mark beside its records and
notes it with the results.
"""

import contextlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.config.study_record import RECORD
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, sha256_of, write_json

MARKS = Path(".snakemake", "refusal-eval")  # in the working directory: a mark goes wherever the records go


def about_lost_records(results: str) -> str | None:
    """Return what to say where the records here are not those of these results as they are; None where they are, or
    none are known of.

    Args:
        results: the study's results, as the rules name them.
    """
    known, here = _known(results), _read(_mark_file(results))
    if not known or known.get("mark") in (here.get("mark"), here.get("before")):
        return None
    if here:
        return (
            f"The results in {results} and Snakemake's records of how they were made, in .snakemake, are not of one "
            "run, as if one of them had been restored or copied: Snakemake would not see what has changed. Either put "
            f"the other one back, too, as it was at the same time; or delete everything in {results} except audit/ and "
            "run again: what the store has needs no GPU."
        )
    return (
        f"The results in {results} were made from {known.get('folder')} as {known.get('results')}. Snakemake's records "
        "of how they were made are not here, so it would not see what has changed in the study since. Either go back "
        "to that folder, with its .snakemake, and to that path (a link to where the results are will do); or delete "
        f"everything in {results} except audit/ and run again: what the store has needs no GPU."
    )


def write_record(results: str, record: Mapping[str, Any]) -> None:
    """Write the study's record into its results, with a new mark, and leave the mark beside the records.

    A run that is killed on the way has started no job: the mark before is then good, too.
    """
    mark, before = uuid.uuid4().hex, _known(results).get("mark")
    write_json(_mark_file(results), {"mark": mark, "before": before})
    noted = {"mark": mark, "folder": os.getcwd(), "results": results}
    write_json(Path(results, RECORD), {**record, "records": noted})
    write_json(_mark_file(results), {"mark": mark})


def _mark_file(results: str) -> Path:
    return MARKS / f"{sha256_of(results)[:16]}.json"


def _known(results: str) -> dict[str, Any]:
    known = _read(Path(results, RECORD)).get("records")
    return known if isinstance(known, dict) else {}


def _read(file: Path) -> dict[str, Any]:
    with contextlib.suppress(UserError, RecursionError, ValueError, OSError):
        if isinstance(read := read_json(file), dict):
            return read
    return {}
