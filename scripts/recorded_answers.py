"""Read one cell's answers out of a folder in the published layout, or out of a split's rows: no engine is asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refusal_eval.ask.reasoning_check import no_answers
from refusal_eval.config.kinds import ROW_READERS
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import as_planned, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.recorded_files import IN_ROWS
from refusal_eval.core.states import COMPLETE, EMPTY, TRUNCATED_REASONING
from refusal_eval.recorded.cell_files import WHOLE, refuse_other_marks, write_cell
from refusal_eval.recorded.recorded_rows import Recorded, recorded_cell


def main(prompts_path: str, recorded_path: str, reading: Mapping[str, Any], output: str, published: str) -> None:
    """Write the cell's answers, and what the published score needs of them.

    Args:
        recorded_path: the file answers.json; of answers that came in the rows of prompts, the prompts again.
        reading: the model's `model` name, `reasoning` and `samples`, whether they came in rows (`IN_ROWS`), and where
            texts are judged whole, whatever marks they hold, `protocol` or `judged_whole`.
        published: the probabilities to write, with a header.

    Raises:
        UserError: for a file that does not fit, if no text of a reasoning model has an answer, or most of them hold
            other marks, and if most answers of another model hold marks of reasoning.
    """
    marks = reading["reasoning"]
    prompts = list(read_jsonl(prompts_path))
    if reading.get(IN_ROWS):
        answers, likely, notes = Recorded(ROW_READERS.get(IN_ROWS).answers(prompts), [], [])
    else:
        answers, likely, notes = recorded_cell(prompts, Path(recorded_path), marks, reading["samples"])
    for note in notes:
        LOG.warning("%s: %s", recorded_path, note)
    read = {answer["state"] for answer in answers} & {COMPLETE, EMPTY, TRUNCATED_REASONING}
    if marks is not None and read == {TRUNCATED_REASONING}:
        raise UserError(no_answers(reading["model"], sum(answer["state"] == TRUNCATED_REASONING for answer in answers)))
    if not reading.get(IN_ROWS):  # which are judged as they are
        refuse_other_marks(reading, answers)
        if marks is not None and not WHOLE & set(reading) and not any(answer["reasoning"] for answer in answers):
            LOG.warning("%s: no text holds a mark of `reasoning`: all count as answers", recorded_path)
    write_cell(marks, answers, likely, output, published)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, reading = snakemake.input, snakemake.params.reading
    with as_planned([files.recorded], [reading.get("sha256")]):
        main(files.prompts, files.recorded, reading, snakemake.output.answers, snakemake.output.published)
