"""Mistakes of a study that no entry has by itself: each check is a function, and `CHECKS` lists them.

A check yields where (a key of the study, or section and name of an entry of the catalogue, and what follows) and what
is wrong. What has a mistake of its own is not there (`CheckedStudy`), and says nothing more.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from refusal_eval.config.change import changes_of
from refusal_eval.config.checked_study import LISTS, SHOWN, CheckedStudy
from refusal_eval.config.datasets import Split
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Model
from refusal_eval.config.figure_entry import name_mistakes
from refusal_eval.config.kinds import ENGINES, LOG_READERS, PROTOCOLS, ROW_READERS, TABLES
from refusal_eval.config.problems import Mistake, one_of
from refusal_eval.config.row_chains import MOST_MADE
from refusal_eval.config.shapes import KeyPath
from refusal_eval.config.yaml_source import Written, look_up
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.core.recorded_files import CHANNEL_ENDS, JUDGE_SCORES, split_folder

FORM = "structured_outputs"  # a capability
# Where entries of the catalogue name others: section, key, and what is named.
NAMED_BY_ENTRIES = (
    ("models", "engine", "engine"),
    ("judges", "engine", "engine"),
    ("judges", "then", "judge"),
    ("gold", "seen_by", "judge"),
)


def study_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong between the study and the entries that it names."""
    for find in CHECKS:
        yield from find(study)


# ---------------------------------------------------------------- names


def _names(study: CheckedStudy) -> Iterator[Mistake]:
    for section, word in LISTS.items():
        seen = set[str]()
        for place, name in study.named(section):
            if unknown := study.catalogue.lacks(word, name):
                yield (section, place), unknown
            if name in seen:
                yield (section, place), f"`{name}` is named twice"
            seen.add(name)


def _primary_judge(study: CheckedStudy) -> Iterator[Mistake]:
    primary, judges = study.written.get("primary_judge"), study.names("judges")
    if isinstance(primary, str) and judges and primary not in judges:
        yield ("primary_judge",), f"`{primary}` is not one of `judges`" + nearest(primary, judges)


def _names_in_entries(study: CheckedStudy) -> Iterator[Mistake]:
    """Look for the names in all entries as they are written, whatever else is wrong with them."""
    for section, key, word in NAMED_BY_ENTRIES:
        for name, entry in study.catalogue.written[section].items():
            for path, other in named_in(entry, key):
                if unknown := study.catalogue.lacks(word, other):
                    yield (section, name, *path), unknown


def named_in(entry: Written, *key: str) -> Iterator[tuple[KeyPath, str]]:
    """Yield the name, or each of the names, that an entry has at a key, with its place; what is no text is left out."""
    said = entry.get(*key)
    places: list[tuple[KeyPath, Any]] = (
        [((*key, place), one) for place, one in enumerate(said)] if isinstance(said, list) else [(key, said)]
    )
    yield from ((path, name) for path, name in places if isinstance(name, str))


def _made_splits(study: CheckedStudy) -> Iterator[Mistake]:
    """Follow each split that is made of another one, or of what models answered, to what comes from elsewhere."""
    for name, split in study.entries("splits").items():
        source, here = split.source, ("splits", name, "source")
        # What is wrong with a split that another one brings is said of that one.
        if source.made_of is None or name in study.catalogue.brought:
            continue
        if unknown := study.catalogue.lacks("split", source.made_of):
            yield (*here, source.made_of_key), unknown
        yield from (((*here, *path), message) for path, message in _answers_read(study, name, split))
        if way := study.chains.circle((name,)):
            what = " -> ".join("/".join(part) for part in way if part[-1] not in study.catalogue.brought)
            yield (*here, source.made_of_key), f"the splits are made of each other in a circle: {what}"
            continue
        chain = [one for one in study.chains.longest(name) if one not in study.catalogue.brought]
        if len(chain) > MOST_MADE:
            what = " -> ".join(chain[: MOST_MADE + 1])
            yield (
                (*here, source.made_of_key),
                f"at most {MOST_MADE - 1} splits are made of each other, not more: {what}",
            )


def _answers_read(study: CheckedStudy, name: str, split: Split) -> Iterator[Mistake]:
    """Yield what is wrong with the models and judges whose answers and verdicts a split is made of."""
    for read in split.source.reads(name):
        if read.model is None:
            continue
        if unknown := study.catalogue.lacks("model", read.model):
            yield (read.key,), unknown
            continue
        if several := study.catalogue.swept.get(read.model):
            yield (read.key,), f"`{read.model}` stands for several models; name one of them, such as `{several[0]}`"
        model, asked = study.catalogue.valid["models"].get(read.model), study.catalogue.valid["splits"].get(read.split)
        evaluated = read.model in study.models and read.split in study.splits
        if model is not None and not model.asks_engine and not evaluated:
            why = f"the answers of `{read.model}` are recorded"
            if read.split in study.catalogue.brought:
                yield (read.key,), f"{why}, and it cannot be asked anything; name a model of an engine"
            else:
                yield (read.key,), f"{why}: list it in the study's `models`, and `{read.split}` in its `splits`"
        elif model is not None and model.sampling is not None and asked is not None and (asked.source.asked or 1) > 1:
            for parameter, said in model.sampling.greedy_by:
                message = f"{said} of `{read.model}` gives the same answer every time, so that one sample is all"
                yield ("samples",), f"{message} (`{parameter}`)"
        if read.judge is not None and (unknown := study.catalogue.lacks("judge", read.judge)):
            yield read.judge_key, unknown
            continue
        judge = study.judges.get(read.judge or "")
        if judge is not None and read.judge not in study.names("judges") and (why := judge.only_listed()):
            yield read.judge_key, f"`{read.judge}` {why}, so that the study must have it among its `judges`"
        if judge is not None and model is not None and not judge.reads_model(model):
            yield read.judge_key, f"`{read.judge}` does not judge the answers of `{read.model}`"


def _labels(study: CheckedStudy) -> Iterator[Mistake]:
    """Two rows of one name could not be told apart in a table."""
    for section in LISTS:
        first: dict[str, str] = {}
        for name, entry in study.entries(section).items():
            label = entry.label or name
            if (other := first.setdefault(label, name)) == name:
                continue
            # Where a label is inherited it stands in another entry, in which nothing is wrong.
            inherited = ((one, _label_of(study, section, one)) for one in (name, other))
            if heir := next(((one, parent) for one, parent in inherited if parent), None):
                message = f"`{heir[0]}` inherits the label {label!r} of `{heir[1]}`; give it a `label` of its own"
                yield (section, heir[0]), message
            else:
                message = f"`{other}` has the label {label!r} too; tables need different ones"
                yield (section, name, "label"), message


def _label_of(study: CheckedStudy, section: str, name: str) -> str | None:
    """Return the entry whose label another has by its `like`; None for one that has a label of its own, or none."""
    layers = study.catalogue.written[section][name].layers
    own = [layer.path for layer in layers if layer.path[0] == section and look_up(layer.value, ["label"])[1]]
    is_entry = layers[-1].path == (section, name)  # and no model of a sweep
    return str(own[-1][1]) if own and is_entry and own[-1] != (section, name) else None


# ---------------------------------------------------------------- what models and judges need


def _engine_kinds(study: CheckedStudy) -> Iterator[Mistake]:
    """Ask the kind of each engine whether it can do what its models and judges need."""
    for section, name, entry in study.engine_users():
        engine = study.engine_of(entry)
        if engine is None:
            continue
        needed = frozenset(entry.engine_needs)
        if not needed <= engine.able():
            # A judge may ask an engine that takes messages in another way than one that takes token ids.
            ways = {needed, frozenset(study.catalogue.valid[section][name].engine_needs)}
            kinds: dict[str, Any] = {kind: ENGINES.get(kind) for kind in ENGINES.names()}
            able = [f"`{kind}`" for kind, cls in kinds.items() if any(way <= cls.capabilities for way in ways)]
            what = ", which cannot hold a reply to a form" if needed - engine.able() == {FORM} else ""
            message = f"engine `{entry.engine}` is of kind `{engine.kind}`{what}; this entry needs one "
            yield (section, name, "engine"), message + (f"of kind {one_of(able)}" if able else "that can do more")
        elif section == "models" and "takes_token_ids" not in engine.able():
            yield from _rendered_elsewhere(study, name, entry, engine)
        elif section == "models" and "log_probabilities" not in engine.able():
            yield from _without_tokens(name, entry, engine)
        if study.settings.determinism == "strict" and "strict" not in engine.able():
            message = f"engine `{entry.engine}` of kind `{engine.kind}` does not support `strict`"
            yield ("determinism",), message


def _prefills(study: CheckedStudy) -> Iterator[Mistake]:
    """Refuse a reply that is made to begin, where it would stand in a history without its beginning."""
    talks = [name for name, split in study.splits.items() if split.dialogue]
    for name, model in study.models.items():
        if model.prefill is not None and talks:
            yield ("models", name, "prefill"), f"does not work in dialogues (`{talks[0]}`); leave one of them out"


def _without_tokens(name: str, model: Model, engine: Engine) -> Iterator[Mistake]:
    """Refuse marks of reasoning that only tokens have."""
    if model.reasoning is not None and model.reasoning.format == "harmony":
        message = f"`harmony` is recognised by token ids, which an engine of kind `{engine.kind}` does not give"
        yield ("models", name, "reasoning", "format"), message


def _rendered_elsewhere(study: CheckedStudy, name: str, model: Model, engine: Engine) -> Iterator[Mistake]:
    """Refuse what only the engine's own rendering decides, and what needs token ids."""
    says_how = {
        "template": model.template != "default",
        "prefill": model.prefill is not None,
        "template_options": bool(model.template_options),
        "date": "date" in model.model_fields_set,
    }
    for key in (key for key, said in says_how.items() if said):
        message = f"an engine of kind `{engine.kind}` takes messages and renders them itself; leave it out"
        yield ("models", name, key), message
    yield from _without_tokens(name, model, engine)
    for table in study.settings.tables if name in study.models else ():
        for lacks in sorted(set(TABLES.get(table).engine_needs) - engine.able()):
            message = f"needs {lacks.replace('_', '-')}, which an engine of kind `{engine.kind}` does not give"
            yield ("tables",), f"`{table}` {message} (model `{name}`)"


def _sampling(study: CheckedStudy) -> Iterator[Mistake]:
    samples = study.settings.samples
    for name, model in study.models.items():
        if model.recorded:
            continue  # nothing is drawn: its sampling stands for the record
        if model.sampling is None:
            continue  # a mistake of its own
        sampling, engine, here = model.sampling, study.engine_of(model), ("models", name, "sampling")
        for parameter, said in sampling.greedy_by:
            if samples is None or samples <= 1 or PROTOCOLS.get(study.settings.protocol).sampling:
                continue  # whatever the entry says
            message = f"{said} gives the same answer every time, so `samples` must be 1 (it is {samples})"
            yield (*here, parameter), message
        longest, length = engine.max_model_len if engine else None, sampling.max_tokens
        if longest is not None and length is not None and length >= longest:
            message = f"{length} leaves no room for a prompt: `max_model_len` of its engine is {longest}"
            yield (*here, "max_tokens"), message


def _dialogues(study: CheckedStudy) -> Iterator[Mistake]:
    """Say before the first turn is paid for that a model cannot be asked a second one."""
    splits = [name for name, split in study.splits.items() if split.dialogue]
    for name, model in study.models.items() if splits else ():
        if model.template == "none":
            message = f"`none` takes one user message, but split `{splits[0]}` asks several turns; leave it out"
            yield ("models", name, "template"), message


def _judges(study: CheckedStudy) -> Iterator[Mistake]:
    """Ask each judge what its study lacks for it."""
    for name, judge in study.judges.items():
        for path, message in judge.mistakes(name, study.view):
            # A judge that is only asked on behalf of another has no card, and so no floor.
            if path != ("floor",) or name in study.view.judges:
                yield ("judges", name, *path), message
    for name, split in study.taught_splits():
        if unknown := study.catalogue.lacks("split", split):
            yield ("judges", name, "refusal", "split"), unknown
    if study.all_valid("models", "judges"):
        yield from _of_some_models(study)


def _of_some_models(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what needs verdicts on every model, and has a judge of some."""
    view = study.view
    some = {name: view.read_by(name) for name in view.judges if name not in view.whole_judges}
    for name, judge in view.judges.items():
        for other in judge.reads():
            if other in some:
                message = f"`{other}` judges the answers of {_models(some[other])} alone, and `{name}` is made of "
                message += "verdicts on every model, or its rates would be of another judge for each. "
                place = next(
                    (key for key, value in judge if value == other or (isinstance(value, list) and other in value)),
                    None,
                )
                message += f"Write `{name}` without `{other}`"
                if some[other]:
                    others = [model for model in view.models if model not in some[other]]
                    message += f", or leave {_models(others)} to a study without `{name}`"
                yield ("judges", name, *([place] if place else [])), message
    if some.get(view.primary_judge):
        message = f"`{view.primary_judge}` judges the answers of {_models(some[view.primary_judge])} alone"
        place = ("primary_judge",) if "primary_judge" in study.written.value else ("judges",)
        yield place, f"{message}; name another judge as `primary_judge`, which has numbers of every model"


def _models(models: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in models) or "no model of this study"


# ---------------------------------------------------------------- recorded answers and verdicts


def _recorded(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with the recorded models and judges of a study."""
    readers = [name for name, judge in study.judges.items() if judge.way == "recorded"]
    for name, model in study.models.items():
        if model.recorded:
            yield from ((("models", name, *path), text) for path, text in _of_entry(model))
        if model.recorded_file is not None:
            yield from ((("models", name, "recorded", *path), text) for path, text in _of_file(model))
        elif isinstance(model.recorded, str) and model.recorded not in ROW_READERS.names():
            for text in _wrong_with_answers(model.recorded, study, judged=bool(readers)):
                yield ("models", name, "recorded"), text
    without = {
        False: [name for name, model in study.models.items() if model.recorded in (None, *ROW_READERS.names())],
        True: [name for name, model in study.models.items() if model.recorded_file is None],
    }
    in_files = [name for name, model in study.models.items() if model.recorded_file is not None]
    for reader in readers:
        here, by = ("judges", reader, "kind"), getattr(study.judges[reader], "by", None)
        asked = without[by is not None]
        if in_files and by is None:
            message = f"needs `by`, whose labels these are: the answers of model `{in_files[0]}` are in a file"
            yield ("judges", reader, "by"), message
        if asked:
            message = f"reads verdicts that came with recorded answers, and model `{asked[0]}` has none (`recorded`)"
            if by is not None:
                message = (
                    f"reads labels out of files of answers, and model `{asked[0]}` has none (`recorded: {{file: ...}}`)"
                )
            yield here, message


def _of_entry(model: Model) -> Iterator[Mistake]:
    if model.reasoning is not None and model.reasoning.format == "harmony":
        message = (
            "recorded answers have no token ids, by which channels are recognised; write the text that ends the "
            f"reasoning in these answers, e.g. `reasoning: {{end: {CHANNEL_ENDS[1]}}}`"
        )
        yield ("reasoning", "format"), message
    for change in changes_of(model):
        yield (change.key,), "recorded answers are read and not drawn; leave it out"


def _of_file(model: Model) -> Iterator[Mistake]:
    """Ask for what a file of answers has no place for; what is in it is found out when it is read."""
    if not LOG_READERS.names():
        yield (), "there is no reader of such files in this copy of refusal-eval; leave it out"
    if model.prefill is not None:
        yield (), "`prefill` begins replies that are drawn, and answers of a file are read; leave it out"


def _wrong_with_answers(folder: str, study: CheckedStudy, judged: bool) -> Iterator[str]:
    if not os.path.isdir(folder):
        yield f"there is no folder {folder}"
        return
    for name, split in study.splits.items():
        if split.dialogue is not None:
            yield f"the published layout has no dialogues, but split `{name}` asks several turns"
            continue
        try:
            found = split_folder(folder, name)
        except UserError as error:
            yield str(error)
            continue
        if judged and not Path(found, JUDGE_SCORES).is_file():
            yield f"there is no {JUDGE_SCORES} in {found}, which a judge of this study reads"


# ---------------------------------------------------------------- what the study says


def _protocol(study: CheckedStudy) -> Iterator[Mistake]:
    yield from PROTOCOLS.get(study.settings.protocol)().mistakes(study)


def _figures(study: CheckedStudy) -> Iterator[Mistake]:
    """Names must be the study's; the kind of a figure knows what else it needs of the study."""
    names = {key: study.names(key) for key in SHOWN if isinstance(study.written.get(key), list | None)}
    seen = set[str]()
    can_tell = names.get("models") and names.get("judges") and study.all_valid("models", "splits", "judges")
    for index, figure in study.figures.items():
        here = ("figures", index)
        if figure.name in seen:
            yield (*here, "name"), f"two figures have the name `{figure.name}`; their files would be the same"
        seen.add(figure.name)
        lacks = figure.mistakes(study.view) if can_tell and study.all_valid(*figure.keys) else ()
        for path, message in (*name_mistakes(figure, names), *lacks):
            yield (*here, *path), message


CHECKS: list[Callable[[CheckedStudy], Iterable[Mistake]]] = [
    _names,
    _primary_judge,
    _names_in_entries,
    _made_splits,
    _labels,
    _engine_kinds,
    _prefills,
    _sampling,
    _dialogues,
    _judges,
    _protocol,
    _figures,
    _recorded,
]
