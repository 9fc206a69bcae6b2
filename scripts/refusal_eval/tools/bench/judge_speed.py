"""What a judge's verdicts on a gold set took: from the receipts of its engine loads, or from its log."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refusal_eval.core.files import BadFile, read_json
from refusal_eval.study.batches import GOLD, Cell
from refusal_eval.study.study import Study

JUDGED_IN = re.compile(r"judged (\d+) answers in ([\d.]+) s")  # scripts/judge_on_cpu.py


def judge_speed(study: Study, judge: str, gold: str, answers: int) -> dict[str, float]:
    """Return `seconds`, `prompt_tokens` and `written_tokens` per answer, and `devices`, None if unknown.

    Seconds exclude the engine's start. Nothing is known if the store had every response, if the gold was judged in
    another run, or for a judge that only combines verdicts. If the store had some, the rest represents all. A judge
    that reads others and asks an engine takes the sum of all of them, if all are known.
    """
    own = _own_speed(study, judge, gold, answers)
    if not study.judges[judge].reads():
        return own
    first = [judge_speed(study, name, gold, answers) for name in study.judges[judge].reads()]
    if not all([own, *first]):
        return {}
    devices = max(speed.get("devices", 0.0) for speed in (own, *first))
    names = {name for speed in (own, *first) for name in speed}
    return {name: sum(speed.get(name, 0.0) for speed in (own, *first)) for name in names} | (
        {"devices": devices} if devices else {}
    )


def _own_speed(study: Study, judge: str, gold: str, answers: int) -> dict[str, float]:
    way = study.judges[judge].way
    if way == "answers":
        log = Path(study.paths.logs, "verdicts", judge, GOLD, f"{gold}.log")
        found = JUDGED_IN.search(log.read_text(encoding="utf-8")) if log.exists() else None
        return {"seconds": float(found[2]) / int(found[1])} if found and int(found[1]) else {}
    if way != "engine":
        return {}
    paths = study.paths.receipts("judge", study.batch_of[Cell(GOLD, gold, judge)])
    return speed_of([path for path in paths if Path(path).exists()], answers)


def speed_of(paths: Sequence[str | Path], answers: int) -> dict[str, float]:
    """Return what the loads with these receipts took and read, for one of so many answers.

    Raises:
        BadFile: if one is no receipt.
    """
    try:
        return _speed([read_json(path) for path in paths], answers)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        names = ", ".join(map(str, paths))
        raise BadFile(f"{names}: a receipt is damaged ({error}); delete it and run again") from error


def _speed(receipts: Sequence[Any], answers: int) -> dict[str, float]:
    if receipts and not any(receipt["requests"] for receipt in receipts):
        return {"seconds": 0.0}
    worked = [receipt for receipt in receipts if receipt["executed"]]
    executed = sum(receipt["executed"] for receipt in worked)
    if not executed:
        return {}
    # `executed` counts what was asked again too, `requests` does not.
    per_answer = max(1.0, sum(receipt["requests"] for receipt in receipts) / executed) / answers
    speed = {"seconds": max(receipt["engine"]["seconds"]["work"] for receipt in worked) * per_answer}
    counters = [receipt["engine"]["counters"] for receipt in worked]
    if all(counters):
        speed |= {"prompt_tokens": sum(own["prompt_tokens"] for own in counters) * per_answer}
        speed |= {"written_tokens": sum(own["generated_tokens"] for own in counters) * per_answer}
    return speed | {"devices": float(sum(receipt["gpus"] for receipt in worked))}
