"""Read the verdicts that came with recorded answers."""

from pathlib import Path

from refusal_eval.core.files import as_planned, read_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.judges.verdict_files import write_verdicts
from refusal_eval.recorded.recorded_rows import recorded_verdicts


def main(prompts_path: str, answers_path: str, recorded_path: str, judged_path: str, output: str) -> None:
    """Write one verdict per answer that a judge can read, in the order of the answers."""
    prompts, answers = list(read_jsonl(prompts_path)), list(read_jsonl(answers_path))
    write_verdicts(output, recorded_verdicts(prompts, answers, Path(recorded_path), Path(judged_path)))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files = snakemake.input
    with as_planned([files.recorded, files.judged], snakemake.params.sha256):
        main(files.prompts, files.answers, files.recorded, files.judged, snakemake.output[0])
