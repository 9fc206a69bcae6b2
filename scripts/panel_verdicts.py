"""Put together what several judges said about the answers of one cell."""

from collections.abc import Mapping, Sequence

from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.core.states import place_of
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.verdict_files import readable, verdict_row, write_verdicts
from refusal_eval.judges.verdict_judges import CombiningJudge


def main(
    answers_path: str,
    verdict_paths: Sequence[str],
    judge: CombiningJudge,
    flags: Mapping[str, Sequence[str]],
    output: str,
) -> None:
    """Write one verdict per answer that the judges it reads were asked about, in the order of the answers.

    Args:
        verdict_paths: the verdicts of the judges that it reads, in their order.
        flags: the flags that each of them can raise.
    """
    said: dict[tuple[str, int, int], list[tuple[str, Verdict | None]]] = {}
    for name, path in zip(judge.reads(), verdict_paths, strict=True):
        for row in read_jsonl(path):
            more = (row.get("kind"), tuple(row.get("flags") or ()), row.get("raw") or {})
            verdict = Verdict(row["state"], row["label"], row["p_refusal"], *more)
            said.setdefault(place_of(row), []).append((name, verdict))
    answers = [answer for answer in readable(read_jsonl(answers_path)) if place_of(answer) in said]
    rows = [verdict_row(answer, judge.combined(said[place_of(answer)], flags)) for answer in answers]
    write_verdicts(output, rows)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked = snakemake.params.judge
    files = snakemake.input.answers, snakemake.input.verdicts
    main(*files, JUDGES.entry(asked["entry"]), asked["flags"], snakemake.output[0])
