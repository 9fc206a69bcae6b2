"""What is exported of a study: its cells with prompts, answers and verdicts, and its results."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.ask.render import with_system_prompt
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, shown_path
from refusal_eval.core.hints import nearest
from refusal_eval.core.label_rows import answer_without_texts, verdict_without_texts
from refusal_eval.core.states import place_of
from refusal_eval.program.exporter import LABELS, ExportOrder
from refusal_eval.report.results.results_files import read_results, text_of
from refusal_eval.stats.estimates.cell_estimates import REASON
from refusal_eval.stats.estimates.estimate import Estimate
from refusal_eval.study.dialogues import conversation, earlier_replies
from refusal_eval.study.study import Study
from refusal_eval.workflow.generation import changed_prompts

ExportedRow = Mapping[str, Any]
VerdictPlace = tuple[str, int, int]  # prompt id, sample, turn
REASONS = ("reason", "analysis", "explanation", "text")  # in `raw` of a verdict, where judges have their words


def reason_of(verdict: ExportedRow) -> str | None:
    """Return why a judge chose its label, in its own words."""
    raw = verdict.get("raw") or {}
    return next((raw[name] for name in REASONS if isinstance(raw.get(name), str) and raw[name].strip()), None)


class ExportedCell(NamedTuple):
    """One model on one split.

    Attributes:
        prompts: by id, as the model was asked them.
        answers: in the order of their file.
        verdicts: of each judge, by the place of the answer.
        system: the model's system prompt.
    """

    model: str
    split: str
    expectation: str
    prompts: dict[str, ExportedRow]
    answers: list[ExportedRow]
    verdicts: dict[str, dict[VerdictPlace, ExportedRow]]
    system: str | None

    def asked(self, answer: ExportedRow) -> list[dict[str, str]]:
        """Return the messages that an answer answers, the model's system prompt and its earlier replies included."""
        prompt, replies = self.prompts[answer["prompt_id"]], dict[int, str]()
        if answer["turn"]:
            own = [one for one in self.answers if place_of(one)[:2] == place_of(answer)[:2]]
            replies = earlier_replies(own, answer["turn"])
        return with_system_prompt(conversation(prompt, answer["turn"], replies), self.system)

    def read(self, answer: ExportedRow) -> dict[str, ExportedRow]:
        """Return the verdicts on an answer, by judge."""
        place = place_of(answer)
        return {judge: own[place] for judge, own in self.verdicts.items() if place in own}


class StudyExport:
    """A finished study, as it is exported.

    Raises:
        UserError: if it has not the judge, has not made what is exported, or has changed since.
    """

    def __init__(self, order: ExportOrder) -> None:
        self.study, self.level = (study := Study(order.config)), order.level
        if order.judge is not None and order.judge not in study.judges:
            raise UserError(f"the study has no judge `{order.judge}`{nearest(order.judge, study.judges)}")
        self.judges = [order.judge] if order.judge else list(study.judges)
        self.results_file = Path(study.paths.of("results"))
        cells = [(model, split) for model in study.models for split in study.splits]
        needed = [self.results_file]
        for model, split in cells:
            needed += [self._prompts(model, split), self._answers(model, split)]
            needed += [self._verdicts(judge, model, split) for judge in self._judges_of(model)]
        _refuse_old(dict.fromkeys(needed).keys(), order.current)
        self.names = cells

    def _judges_of(self, model: str) -> list[str]:
        return [judge for judge in self.judges if (judge, model) in self.study.read_pairs]

    def cells(self) -> Iterator[ExportedCell]:
        """Yield the cells, each read when it is its turn; at level `labels` answers and verdicts have no texts."""
        for model, split in self.names:
            prompts = {row["id"]: row for row in read_jsonl(self._prompts(model, split))}
            verdicts = {
                judge: {place_of(row): row for row in read_jsonl(self._verdicts(judge, model, split))}
                for judge in self._judges_of(model)
            }
            answers = list(read_jsonl(self._answers(model, split)))
            if self.level == LABELS:
                answers = [answer_without_texts(row) for row in answers]
                for judge, own in verdicts.items():
                    kinds = self.study.judges[judge].named_kinds(self.study.view)
                    verdicts[judge] = {place: verdict_without_texts(row, kinds) for place, row in own.items()}
            entry = self.study.models[model]
            expectation = self.study.splits[split].expectation
            yield ExportedCell(model, split, expectation, prompts, answers, verdicts, entry.system_prompt)

    def results(self) -> list[Estimate]:
        """Return the rows of the results table that are about these judges, or no judge.

        At level `labels` without those that name reasons of failures, for a server's words may quote a prompt.
        """
        rows = read_results(self.results_file.read_text(encoding="utf-8"))
        own = [row for row in rows if row.judge is None or row.judge in self.judges]
        return [row for row in own if self.level != LABELS or row.estimand != REASON]

    @cached_property
    def rates(self) -> dict[tuple[str, str, str, str], Estimate]:
        """Return the refusal rates by (judge, model, split, reading)."""
        return {
            (str(row.judge), str(row.model), str(row.split), str(row.reading)): row
            for row in self.results()
            if row.estimand == "refusal_rate" and row.split and row.category is None and not text_of(row.parameter)
        }

    def _prompts(self, model: str, split: str) -> Path:
        own = self.study.paths.of("prompts", split=split)
        return Path(next(iter(changed_prompts(self.study, model, split)), own))

    def _answers(self, model: str, split: str) -> Path:
        return Path(self.study.paths.of("answers", model=model, split=split))

    def _verdicts(self, judge: str, model: str, split: str) -> Path:
        return Path(self.study.paths.of("verdicts", judge=judge, model=model, split=split))


def _refuse_old(needed: Collection[Path], current: Collection[Path]) -> None:
    for path in needed:
        if not path.is_file():
            raise UserError(f"there is no {path}: run the study, then export it")
    for path in needed:
        if path not in current:
            raise UserError(f"{path} is not of the study as it is now: run the study again, then export it")


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder next to `folder`, and rename it to `folder` if the block succeeds.

    Raises:
        UserError: if there is something under that name.
    """
    refuse_there(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".tmp"))
    try:
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        yield temporary
        refuse_there(folder)
        os.rename(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def refuse_there(folder: Path) -> None:
    """Raise `UserError` if there is something under this name."""
    if os.path.lexists(folder):
        raise UserError(f"{shown_path(folder)} is there already; choose another --output or move it away")
