"""Read the labels that came with one cell's answers in a log, a table or neutral rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from refusal_eval.core.files import as_planned, read_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.judges.verdict_files import write_verdicts
from refusal_eval.recorded.log_answers import cell_verdicts
from refusal_eval.recorded.log_reading import cell_rows, shown_files


def main(prompts_path: str, answers_path: str, paths: Sequence[str], reading: Mapping[str, Any], output: str) -> None:
    """Write one verdict per answer that a judge can read, in the order of the answers.

    Args:
        reading: the `split` and the `others` of the study, what the model's entry says of the file (`named`), and whose
            labels these are (`by`); of dialogues which turns count (`scored`), unless all do.
    """
    prompts, answers = list(read_jsonl(prompts_path)), list(read_jsonl(answers_path))
    rows, scored = cell_rows(paths, reading["named"], reading["split"], reading["others"]), reading.get("scored", "all")
    write_verdicts(output, cell_verdicts(rows, prompts, answers, reading["by"], shown_files(paths), scored))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, reading = snakemake.input, snakemake.params.reading
    with as_planned(files.recorded, reading["sha256"]):
        main(files.prompts, files.answers, list(files.recorded), reading, snakemake.output[0])
