"""Put together what several judges said about the answers of one cell."""

from collections.abc import Mapping, Sequence

from refusal_eval.config.kinds import JUDGES
from refusal_eval.core.files import read_jsonl
from refusal_eval.core.logs import start_log
from refusal_eval.core.states import place_of
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.panel_judge import PanelJudge
from refusal_eval.judges.verdict_files import readable, verdict_row, write_verdicts


def main(
    answers_path: str,
    verdict_paths: Sequence[str],
    panel: PanelJudge,
    flags: Mapping[str, Sequence[str]],
    output: str,
) -> None:
    """Write one verdict per answer that its members were asked about, in the order of the answers.

    Args:
        verdict_paths: the verdicts of its members, in their order.
        flags: the flags that each member can raise.
    """
    said: dict[tuple[str, int, int], list[tuple[str, Verdict | None]]] = {}
    for name, path in zip(panel.members, verdict_paths, strict=True):
        for row in read_jsonl(path):
            more = (row.get("kind"), tuple(row.get("flags") or ()), row.get("raw") or {})
            verdict = Verdict(row["state"], row["label"], row["p_refusal"], *more)
            said.setdefault(place_of(row), []).append((name, verdict))
    answers = [answer for answer in readable(read_jsonl(answers_path)) if place_of(answer) in said]
    rows = [verdict_row(answer, panel.combined(said[place_of(answer)], flags)) for answer in answers]
    write_verdicts(output, rows)


if snakemake := globals().get("snakemake"):
    start_log(snakemake)
    asked = snakemake.params.panel
    files = snakemake.input.answers, snakemake.input.verdicts
    main(*files, JUDGES.entry(asked["entry"]), asked["flags"], snakemake.output[0])
