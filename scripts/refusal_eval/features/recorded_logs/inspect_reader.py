"""Reads logs of inspect: `.eval`, a zip archive with a member for each sample, and `.json`."""

import contextlib
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_eval.config.log_reader import LogContent, LogReader
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import size_text
from refusal_eval.features.recorded_logs.archive import Archive
from refusal_eval.features.recorded_logs.bounded_files import head_of, parsed_object, refuse_large
from refusal_eval.features.recorded_logs.inspect_sample import LogSample, sample_row
from refusal_eval.features.recorded_logs.neutral_row import neutral_row
from refusal_eval.features.recorded_logs.own_log import earlier_turns

HEADER, START, SAMPLES = "header.json", "_journal/start.json", "samples/"
VERSION = 2  # of the form of logs
MOST_JSON = 500_000_000  # bytes of a log in one piece
Samples = Generator[tuple[str, dict[str, Any]], None, None]  # each with its place
A_LOG = re.compile(rb'^\s*\{.*"eval"\s*:\s*\{', re.DOTALL)


class InspectReader(LogReader):
    """Reads logs of inspect."""

    name = "inspect"
    reads = "inspect logs (.eval, .json)"
    in_folders = ("*.eval", "*.json")

    @classmethod
    def takes(cls, path: Path) -> bool:
        if path.suffix.lower() == ".eval":
            return True
        return path.suffix.lower() == ".json" and bool(A_LOG.match(head := head_of(path)) and b'"status"' in head)

    @classmethod
    def takes_from_folder(cls, path: Path) -> bool:
        return path.is_file() and cls.takes(path)  # other files may be `.json`, too

    def read(self, path: Path, columns: Mapping[str, Sequence[str]]) -> LogContent:
        if columns:
            raise UserError(f"{path} is a log of inspect, which has no columns; leave `columns` out")
        header, samples = _archived(path) if path.suffix.lower() == ".eval" else _whole(path)
        with contextlib.closing(samples):
            return _content(path, header, samples)


def _content(path: Path, header: Mapping[str, Any], samples: Samples) -> LogContent:
    version = header.get("version", VERSION)
    if version != VERSION:
        raise UserError(
            f"{path} is a log of version {str(version)[:20]}, and version {VERSION} is read; let a current inspect_ai "
            "write it again: inspect log convert"
        )
    about = header.get("eval")
    if not isinstance(about, dict) or not isinstance(about.get("model"), str):
        raise UserError(f"{path}: its header names no model: it is no log of inspect")
    counts: Counter[str] = Counter()
    rows, seen = [], dict[tuple[str, Any], str]()
    for place, sample in samples:
        read = LogSample(sample, f"{path}, {place}")
        row = sample_row(read, counts)
        where = (row["prompt_id"], row["sample"])
        if where in seen:
            raise UserError(f"{path}, {place}: sample {where[0]}, epoch {where[1] + 1} is in {seen[where]} too")
        seen[where] = place
        source = {"file": path.name, "member": place.removeprefix("member ")}
        named = {"model": about["model"], "split": str(about.get("task") or path.stem), "source": source}
        for one in (*earlier_turns(read.part("metadata", dict), row), row):
            rows.append(neutral_row(named | one, f"{path}, {place}"))
    if not rows:
        raise UserError(f"{path} has no samples: the log was written without them, or the run never began")
    return LogContent(rows, _lost(header, rows, counts))


def _lost(header: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], counts: Counter[str]) -> list[str]:
    lost = [f"{count} of {len(rows)} answers: {what}" for what, count in counts.items()]
    if (status := header.get("status")) != "success":
        lost.append(f"the run ended as `{status or 'started'}`: samples that it never reached are not in the log")
    about = header["eval"]
    config, data = (found if isinstance(found := about.get(key), dict) else {} for key in ("config", "dataset"))
    epochs, asked = config.get("epochs") or 1, data.get("sample_ids")
    epochs = epochs if isinstance(epochs, int) else 1
    if isinstance(asked, list) and len(rows) < len(asked) * epochs:
        lost.append(f"{len(asked) * epochs - len(rows)} of {len(asked)} samples x {epochs} epochs are not in the log")
    if header.get("reductions") or epochs > 1:
        lost.append("scores that were reduced over epochs are not read; those of each epoch are")
    return lost


def _archived(path: Path) -> tuple[dict[str, Any], Samples]:
    archive = Archive(path)
    names = list(archive.names())
    found = next((name for name in (HEADER, START) if name in names), None)
    if found is None:
        archive.__exit__(None, None, None)
        raise UserError(f"{path} is no log of inspect: it has neither {HEADER} nor {START}")

    def samples() -> Samples:
        with archive:
            for name in sorted(name for name in names if name.startswith(SAMPLES) and name.endswith(".json")):
                yield f"member {name}", parsed_object(archive.text(name), f"{path}, member {name}")

    return parsed_object(archive.text(found), f"{path}, member {found}"), samples()


def _whole(path: Path) -> tuple[dict[str, Any], Samples]:
    refuse_large(path)
    if (size := path.stat().st_size) > MOST_JSON:
        raise UserError(
            f"{path} has {size_text(size)}, and at most {size_text(MOST_JSON)} are read of a log in one piece; "
            "convert it: inspect log convert --to eval"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start})") from error
    log = parsed_object(text, str(path))
    held = log.pop("samples", None)

    def samples() -> Samples:
        for number, sample in enumerate(held if isinstance(held, list) else ()):
            if not isinstance(sample, dict):
                raise UserError(f"{path}, samples[{number}]: must be an object")
            yield f"samples[{number}]", sample

    return log, samples()
