"""Read the verdicts that came with recorded answers."""

from pathlib import Path

from refusal_eval.compat.recorded_rows import recorded_verdicts
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.logs import LOG, start_log
from refusal_eval.core.states import VERDICT_STATES, told_states


def main(prompts_path: str, answers_path: str, recorded_path: str, judged_path: str, output: str) -> None:
    """Write one verdict per answer that a judge can read, in the order of the answers."""
    prompts, answers = list(read_jsonl(prompts_path)), list(read_jsonl(answers_path))
    rows = recorded_verdicts(prompts, answers, Path(recorded_path), Path(judged_path))
    write_jsonl(output, rows)
    LOG.info("%d verdicts: %s", len(rows), told_states(rows, VERDICT_STATES))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files = snakemake.input
    main(files.prompts, files.answers, files.recorded, files.judged, snakemake.output[0])
