"""Answers out of several files, put together: models, splits with their prompts, and what was lost."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refusal_eval.config.log_dialogues import asked_by, dialogue_of
from refusal_eval.config.log_reader import LogRow, messages_of, slug, split_name
from refusal_eval.config.log_reader import read_files as contents_of
from refusal_eval.core.answer_ends import state_of
from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import content_id
from refusal_eval.features.recorded_logs.catalogue_match import Known
from refusal_eval.recorded.gold_labels import same_answer
from refusal_eval.recorded.log_answers import by_prompt, unknown_ends

VARIES = "varies"
FIELDS = ("category", "cluster", "prompt_id")
THINKING = ("<think>", "</think>")


class Read(NamedTuple):
    """What one file holds."""

    file: Path
    rows: list[LogRow]
    lost: list[str]


@dataclasses.dataclass
class AnswerSet:
    """Answers of all models.

    Attributes:
        models: the rows of each, by its name as an entry; each row names its final split and its model.
        labels: what the files call these models.
        splits: the prompts of each split, by its name as an entry.
        expectations: what a good model does, by split.
        lost: what was lost, a sentence each.
        scorers: those whose labels all models have.
        systems: the system message of a model whose prompts are compared with those of others without it.
        dialogues: how the turns of a split are asked, of splits of dialogues.
        samples: the most answers that a model has to one prompt.
    """

    models: dict[str, list[LogRow]]
    labels: dict[str, str]
    splits: dict[str, list[dict[str, Any]]]
    expectations: dict[str, str]
    lost: list[str]
    scorers: list[str]
    systems: dict[str, str]
    dialogues: dict[str, dict[str, str]]
    samples: int

    @property
    def prompts(self) -> int:
        return sum(map(len, self.splits.values()))

    @property
    def states(self) -> Counter[str]:
        """How many answers are in each state, as far as their rows say it."""
        return Counter(state_of(row) for rows in self.models.values() for row in rows)

    @property
    def probabilities(self) -> bool:
        """Whether any answer has a log-probability."""
        return any("answer_logprob" in row for rows in self.models.values() for row in rows)

    def leave_out_unmeasured(self, gold: Sequence[Mapping[str, Any]]) -> list[str]:
        """Leave out the scorers that labelled none of the answers in gold, and note of others how many they did.

        Args:
            gold: its rows, with `messages` and `answer`.

        Returns:
            What to say of those that are left out.
        """
        labelled: dict[Any, set[str]] = {}
        for row in (row for rows in self.models.values() for row in rows if row["split"] not in self.dialogues):
            text = row["answer"].rpartition(THINKING[1])[2] if "reasoning" not in row else row["answer"]
            said = {label["by"] for label in row.get("labels", ()) if "label" in label}
            labelled.setdefault(same_answer(messages_of(row), text), set()).update(said)
        known = [labelled.get(same_answer(row["messages"], row["answer"]), set()) for row in gold]
        out = []
        for by in list(self.scorers):
            if not (count := sum(by in found for found in known)):
                self.scorers.remove(by)
                out.append(
                    f"labels of `{by}` are left out: none of the {len(gold)} answers with people's labels (`--gold`) "
                    "is one that they are about"
                )
            elif count < len(gold):
                self.lost.append(f"`{by}` labels {count} of the {len(gold)} answers with people's labels (`--gold`)")
        self.lost += out
        return out

    def thinks(self, model: str) -> bool:
        """Tell whether most answers of a model hold the marks of reasoning, which nobody has taken out."""
        held = [THINKING[1] in row["answer"] for row in self.models[model] if row["answer"]]
        return bool(held) and sum(held) * 2 > len(held)


def read_files(paths: Sequence[Path], columns: Mapping[str, Sequence[str]]) -> list[Read]:
    """Return what files hold; of a folder those in it that a tool wrote answers into.

    Raises:
        UserError: for what cannot be read, and for a folder without such files.
    """
    found = []
    for path in paths:
        for file, (rows, lost) in contents_of(path, columns):
            if not rows:
                raise UserError(f"{file} has no answers")
            found.append(Read(file, rows, [*lost, *_unknown(rows)]))
    return found


def _unknown(rows: Iterable[LogRow]) -> list[str]:
    unknown = unknown_ends(rows)
    return [
        f"{count} answers end as `{word}`, which is not known: they count as complete"
        for word, count in unknown.items()
    ]


def put_together(
    read: Sequence[Read],
    systems: Mapping[str, str],
    known: Mapping[str, Known],
    expect: str | None,
    taken: Mapping[str, Collection[str]],
) -> AnswerSet:
    """Return the answers of several files.

    Args:
        systems: system messages that were taken out of prompts, by the label of their model.
        known: what the catalogue says of prompts, by the id of their messages.
        expect: what a good model does with all prompts; None: as the catalogue says it, or the files.
        taken: the names that models and splits cannot have.

    Raises:
        UserError: if a model has two answers with one number to a prompt.
    """
    labels, models = dict[str, str](), dict[str, list[LogRow]]()
    prompts, said = dict[tuple[str, str], dict[str, Any]](), dict[tuple[str, str], str]()
    for file, rows, _ in read:
        for row, asked in zip(rows, asked_by(rows), strict=True):
            label, split = _label(row, file), split_name(row, file)
            name = next((name for name, one in labels.items() if one == label), None)
            if name is None:
                name = _free(slug(label), {*labels, *taken["models"]})
                labels[name] = label
            place = split, content_id(asked.prompt)
            about = known.get(place[1])
            prompts.setdefault(place, _prompt(row, asked.prompt, about))
            if expectation := (about.expectation if about else row.get("expectation")):
                said.setdefault(place, expectation)
            models.setdefault(name, []).append(row | {"model": label, "split": split})
    of = {place: expect or said.get(place, VARIES) for place in prompts}
    names = _split_names(of, taken["splits"])
    splits, expectations = dict[str, list[dict[str, Any]]](), dict[str, str]()
    for place, prompt in prompts.items():
        name = names[place[0], of[place]]
        splits.setdefault(name, []).append(prompt)
        expectations[name] = of[place]
    samples, dialogues = 0, dict[str, dict[str, str]]()
    for name, rows in models.items():
        places = [(row["split"], content_id(asked.prompt)) for row, asked in zip(rows, asked_by(rows), strict=True)]
        models[name] = [row | {"split": names[place[0], of[place]]} for row, place in zip(rows, places, strict=True)]
        for split in dict.fromkeys(row["split"] for row in models[name]):
            cell = [row for row in models[name] if row["split"] == split]
            given = by_prompt(cell, labels[name])  # two answers with one number are a mistake
            samples = max(samples, *(len(own.samples) for own in given.values()))
            if dialogue := dialogue_of(cell):
                dialogues.setdefault(split, dialogue)
    own = [_scorers(rows) for rows in models.values()]
    shared = own[0].intersection(*own)
    lost, some = _lost(read), sorted(set().union(*own) - shared)
    lost += [f"labels of `{one}` are about some models only, and are left out" for one in some]
    lost += [
        f"{model}: its system message differs from that of other models, and its prompts are compared without it"
        for model in systems
    ]
    by_name = {name: systems[label] for name, label in labels.items() if label in systems}
    return AnswerSet(models, labels, splits, expectations, lost, sorted(shared), by_name, dialogues, samples)


def without_own_systems(read: Sequence[Read]) -> tuple[list[Read], dict[str, str]]:
    """Take a model's only system message out of its prompts where another model was asked under another, or none.

    Else no two models would have a prompt in common.

    Returns:
        The files, and these messages by the model's label.
    """
    found: dict[str, set[str]] = {}
    for file, rows, _ in read:
        for row in rows:
            found.setdefault(_label(row, file), set()).add(_system(row))
    if len(set.union(*found.values())) == 1 or any(len(one) > 1 for one in found.values()):
        return list(read), {}
    own = {label: text for label, (text,) in ((label, tuple(texts)) for label, texts in found.items()) if text}
    return [
        one._replace(rows=[_without_system(row) if _label(row, one.file) in own else row for row in one.rows])
        for one in read
    ], own


def _label(row: LogRow, file: Path) -> str:
    return str(row.get("model") or file.stem)


def _system(row: LogRow) -> str:
    first = messages_of(row)[0]
    return first["content"] if first["role"] == "system" else ""


def _without_system(row: LogRow) -> LogRow:
    return row | {"messages": messages_of(row)[1:]}


def _scorers(rows: Iterable[LogRow]) -> set[str]:
    return {label["by"] for row in rows for label in row.get("labels", ()) if "label" in label}


def _prompt(row: LogRow, messages: list[dict[str, str]], about: Known | None) -> dict[str, Any]:
    found = {"messages": messages} | {field: row[field] for field in FIELDS if field in row}
    more = {"category": about.category, "cluster": about.cluster} if about else {}
    return found | {field: value for field, value in more.items() if value is not None}


def _split_names(of: Mapping[tuple[str, str], str], taken: Collection[str]) -> dict[tuple[str, str], str]:
    """Return the name of each split by the files' name for it and its expectation, which a split has but one of."""
    several: dict[str, list[str]] = {}
    for (split, _), expectation in of.items():
        several.setdefault(split, [])
        if expectation not in several[split]:
            several[split].append(expectation)
    names: dict[tuple[str, str], str] = {}
    for split, expectations in several.items():
        for one in expectations:
            names[split, one] = _free(split if len(expectations) == 1 else f"{split}-{one}", {*names.values(), *taken})
    return names


def _free(name: str, taken: Collection[str]) -> str:
    """Return a name that nothing else has."""
    return next(one for one in (name, f"{name}-here", *(f"{name}-{n}" for n in range(2, 10_000))) if one not in taken)


def _lost(read: Iterable[Read]) -> list[str]:
    """Return what was lost, with the files, each sentence once."""
    files: dict[str, list[str]] = {}
    for file, _, lost in read:
        for sentence in lost:
            files.setdefault(sentence, []).append(file.name)
    return [f"{', '.join(dict.fromkeys(names))}: {sentence}" for sentence, names in files.items()]
