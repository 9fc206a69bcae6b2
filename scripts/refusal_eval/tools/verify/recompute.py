"""A study's numbers, made by the workflow in another folder from its stored answers and verdicts, and compared."""

import math
import os
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.errors import UserError
from refusal_eval.core.states import HEADLINE_READING
from refusal_eval.report.results.results_files import read_results
from refusal_eval.study.paths import Paths
from refusal_eval.tools.snakemake_summary import snakemake_command, summary
from refusal_eval.tools.status.log_text import error_and_cause, tail
from refusal_eval.tools.verify.file_differences import Difference, differences
from refusal_eval.tools.verify.independent_rate import headline_rate

# What is computed of answers and verdicts. Only rules that write here may run: no engine, and nothing that fetches.
COMPUTED = (
    "calibration",
    "published",
    "scores",
    "judge_cards",
    "judge_agreement.json",
    "estimates",
    "results_table",
    "tables",
    "figures",
)
NOT_COMPARED = "judge_cards/floors.json"  # its rule fails where a judge is worse than asked
PICTURES = (".pdf", ".svg", ".png")
STEPS = re.compile(r"(\d+) of (\d+) steps")
_TOLERANCE = 1e-9  # the results table keeps ten digits


def recompute(config: Mapping[str, Any], study_file: Path, root: Path, cores: int) -> list[Difference]:
    """Return everything in which a finished study differs from what its answers and verdicts give.

    Raises:
        UserError: if the study has no answers or verdicts yet, or not all, or if nothing can be computed of them.
    """
    stored = Path(Paths(config).results).absolute()
    needed = [f"answers/{model}/{split}.jsonl" for _, model, split in _cells(config)]
    needed += [f"verdicts/{judge}/{model}/{split}.jsonl" for judge, model, split in _cells(config)]
    for name in needed:
        if not (stored / name).is_file():
            raise UserError(
                f"{stored / name} is not there: the study is not finished (`refusal-eval status` tells more)"
            )
    rules, others = _planned(study_file, root, stored)
    names = sorted({name for made in rules.values() for name in made if not name.endswith(PICTURES)})
    with tempfile.TemporaryDirectory(prefix="refusal-eval-verify-") as temporary:
        made = Path(temporary, "results", config["study"])
        for name in others:
            if (stored / name).is_file():
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).symlink_to((stored / name).resolve())
        places = {key: str(Path(config[key]).absolute()) for key in ("store_dir", "cache_dir")}
        places["results_dir"] = str(made.parent)
        command = snakemake_command(study_file, root, places)
        command += ["--directory", temporary, "--executor", "local", "--cores", str(cores), "--allowed-rules", *rules]
        _run([*command, "--", *(str(made / name) for name in names)], made)
        found = [one for name in names for one in differences(stored / name, made / name, name)]
    return [*found, *_other_rates(config, stored)]


def _planned(study_file: Path, root: Path, stored: Path) -> tuple[dict[str, list[str]], list[str]]:
    """Return what each rule makes that computes numbers, and what the others make; names within the study."""
    rules: dict[str, list[str]] = {}
    for file in summary(study_file, root):
        path = Path(file.path).absolute()
        if path.is_relative_to(stored):
            rules.setdefault(file.rule, []).append(path.relative_to(stored).as_posix())

    def computes(names: list[str]) -> bool:
        inside = all(name.split("/", 1)[0] in COMPUTED and name != NOT_COMPARED for name in names)
        return inside and not all(name.endswith(PICTURES) for name in names)

    computed = {rule: names for rule, names in rules.items() if computes(names)}
    return computed, [name for rule, names in rules.items() if rule not in computed for name in names]


def _run(command: Sequence[str], made: Path) -> None:
    """Run the workflow and show how far it is.

    Raises:
        UserError: if a rule fails.
    """
    from tqdm import tqdm

    environment = {key: value for key, value in os.environ.items() if key != "SNAKEMAKE_PROFILE"}
    last: deque[str] = deque(maxlen=20)
    with (
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as process,
        tqdm(desc="computing", unit="job", disable=None) as bar,
    ):
        for line in process.stdout or ():
            last.append(line)
            if steps := STEPS.search(line):
                bar.total, bar.n = int(steps[2]), int(steps[1])
                bar.refresh()
    if process.returncode:
        logs = sorted((made / "logs").rglob("*.log"))
        failed = next(((log, told) for log in logs if (told := error_and_cause(tail(log)))), None)
        if failed is None:
            raise UserError(f"the study cannot be computed again:\n{''.join(last).strip()}")
        name, (message, cause) = failed[0].relative_to(made / "logs").with_suffix(""), failed[1]
        raise UserError(
            "the stored answers and verdicts are not those of the study as it is: "
            f"{name} cannot be computed from them ({cause or message}); run the study again, without --touch"
        )


def _other_rates(config: Mapping[str, Any], stored: Path) -> Iterator[Difference]:
    """Yield the cells whose stored headline rate is not what a second way makes of the stored files."""
    name = "results_table/results.csv"
    if not (stored / name).is_file():
        return
    table = read_results((stored / name).read_text(encoding="utf-8"))
    rates = {
        (row.judge, row.model, row.split, row.reading): row.value
        for row in table
        if row.estimand == "refusal_rate" and row.category is None
    }
    for judge, model, split in _cells(config):
        entry = config["split_entries"][split]
        reading = entry.get("headline") or HEADLINE_READING[entry["expectation"]]
        if entry.get("dialogue") or (judge, model, split, reading) not in rates:
            continue
        answers = stored / f"answers/{model}/{split}.jsonl"
        verdicts = stored / f"verdicts/{judge}/{model}/{split}.jsonl"
        rate = headline_rate(answers, verdicts, config["samples"], reading)
        known = rates[judge, model, split, reading]
        same = rate == known if rate is None or known is None else math.isclose(rate, known, rel_tol=_TOLERANCE)
        if not same:
            cell = f"{judge}, {model}, {split}"
            yield Difference(
                name, f"the headline rate of {cell} is {known}, and a second way to compute it gives {rate}"
            )


def _cells(config: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return all (judge, model, split) of a study, sorted."""
    return sorted((j, m, s) for j in config["judges"] for m in config["models"] for s in config["splits"])
