"""Find the labels that came with recorded answers for the same answers in gold."""

from collections.abc import Mapping, Sequence

from refusal_eval.core.files import read_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.judges.verdict_files import write_verdicts
from refusal_eval.recorded.gold_labels import Same, labelled_answers, verdicts_on_gold


def main(
    gold: tuple[str, str, str], cells: Sequence[tuple[str, str, str]], names: Sequence[Sequence[str]], output: str
) -> None:
    """Write one verdict per gold answer that a judge can read, in their order.

    Args:
        gold: its name, its rows and its answers.
        cells: prompts, answers and verdicts of each cell.
        names: of the model of each cell.
    """
    labelled: dict[Same, list[tuple[Sequence[str], Mapping[str, object]]]] = {}
    for paths, own in zip(cells, names, strict=True):
        prompts, answered, verdicts = map(read_jsonl, paths)
        for same, found in labelled_answers(prompts, answered, verdicts, own).items():
            labelled.setdefault(same, []).extend(found)
    name, rows, answers = gold
    write_verdicts(output, verdicts_on_gold(read_jsonl(rows), read_jsonl(answers), labelled, name))


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    files, name = snakemake.input, snakemake.wildcards.split
    cells = list(zip(files.prompts, files.answers, files.verdicts, strict=True))
    main((name, files.gold, files.gold_answers), cells, snakemake.params.names, snakemake.output[0])
