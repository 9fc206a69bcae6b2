"""Read one cell's answers out of a log of another tool, a table or neutral rows: no engine is asked."""

from collections.abc import Mapping
from typing import Any

from refusal_eval.core.files import as_planned, read_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.recorded.cell_files import refuse_other_marks, write_cell
from refusal_eval.recorded.likelihoods import Probabilities, likelihood_row
from refusal_eval.recorded.log_answers import cell_answers
from refusal_eval.recorded.log_reading import cell_rows


def main(prompts_path: str, file: str, reading: Mapping[str, Any], output: str, published: str) -> None:
    """Write the cell's answers, and what is known of their probabilities.

    Args:
        reading: the model's `model` name, the `split` and the `others` of the study, `reasoning` and `samples`; what
            the model's entry says of the file (`named`); and where texts are judged whole, whatever marks they hold,
            `protocol` or `judged_whole`.
        published: the probabilities to write, with a header; here none is known.

    Raises:
        UserError: for a file that does not fit, and if most answers hold marks of reasoning that the entry lacks.
    """
    marks, prompts = reading["reasoning"], list(read_jsonl(prompts_path))
    rows = cell_rows(file, reading["named"], reading["split"], reading["others"])
    answers, notes = cell_answers(rows, prompts, reading["samples"], marks, file)
    for note in notes:
        LOG.warning("%s: %s", file, note)
    refuse_other_marks(reading, answers)
    places = [(answer["prompt_id"], answer["sample"], answer["turn"]) for answer in answers]
    likely = [likelihood_row(place, Probabilities()) for place in places]
    write_cell(marks, answers, likely, output, published)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, reading = snakemake.input, snakemake.params.reading
    with as_planned([files.recorded], [reading["sha256"]]):
        main(files.prompts, files.recorded, reading, snakemake.output.answers, snakemake.output.published)
