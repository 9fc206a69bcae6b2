"""A study while it is checked: what is valid of it and of the entries that it names, and where all of it is written."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from refusal_eval.config.activation_use import activation_uses
from refusal_eval.config.capture_entry import Side, parts_with_places
from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.change import changes_of
from refusal_eval.config.datasets import Split
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Gold, Model
from refusal_eval.config.explain import check, valid_items, valid_keys
from refusal_eval.config.feature_keys import SECTIONS as OF_FEATURES
from refusal_eval.config.feature_keys import WordValues, word_values_of
from refusal_eval.config.figure_entry import AnyFigure, Figure
from refusal_eval.config.lock_file import Lock
from refusal_eval.config.problems import Mistake, Problem
from refusal_eval.config.row_chains import RowChains
from refusal_eval.config.shapes import Entry, KeyPath, fields_of
from refusal_eval.config.study_entry import Study
from refusal_eval.config.study_view import StudyView
from refusal_eval.config.yaml_source import Written

EntryT = TypeVar("EntryT", bound=Entry)

# The lists of a study: key (also the section of the catalogue), and what one of it is called.
SHOWN = {"models": "model", "splits": "split", "judges": "judge", "gold": "gold"}  # in tables and figures
LISTS = {**SHOWN, **{section: section.removesuffix("s") for section in OF_FEATURES.names()}}


class CheckedStudy:
    """What the checks of a study read: the study, without the values and entries that have a mistake of their own.

    The names of all entries, valid or not, are those of `catalogue.written`.

    Attributes:
        settings: its valid keys; one that must be there and is not valid is None.
        figures: the valid ones, by their place.
        used: the names of the entries that it uses, valid or not, by section, in its order; splits that are only
            read, for activations or to make other prompts, models and judges that only make prompts, and judges that
            only other judges ask come last.
        models, splits, judges, gold: the valid entries that it lists; among `judges` are those that
            others ask, and those that only make prompts.
        further_models: the valid ones that it does not list, and whose answers make prompts.
        chains: what its splits are made of.
        view: what kinds of judges and of figures ask.

    Args:
        settings: what the study file says; None where it has mistakes.
        written: the same with its file and lines.
        root: the repository's folder, which holds config/.
        open_pins: whether pins may stay open.
    """

    def __init__(
        self,
        settings: Study | None,
        written: Written,
        catalogue: Catalogue,
        root: str,
        lock: Lock | None,
        open_pins: bool,
    ) -> None:
        self.settings: Study = settings or valid_keys(Study, written.value)
        self.written, self.catalogue = written, catalogue
        self.root, self.lock, self.open_pins = root, lock, open_pins
        self.figures: dict[int, Figure] = valid_items(AnyFigure, written.get("figures"))
        self.used: dict[str, list[str]] = {section: self._known(section, self.names(section)) for section in LISTS}
        self.models: dict[str, Model] = self.entries("models")
        self.splits: dict[str, Split] = self.entries("splits")
        self.gold: dict[str, Gold] = self.entries("gold")
        splits, judges = list(self.used["splits"]), list(self.used["judges"])
        self.used["splits"] += [name for name in self.captured_splits() if name not in splits]
        self._use_what_splits_are_made_of()
        self.further_models: dict[str, Model] = {
            name: model for name, model in self.entries("models").items() if name not in self.models
        }
        asked = dict.fromkeys(second for judge in self.entries("judges").values() if (second := judge.second()))
        seconds = self._known("judges", asked)
        self.used["judges"] += [name for name in seconds if name not in self.used["judges"]]
        as_written = self.entries("judges")
        self.judges: dict[str, Any] = {
            name: judge.for_engine(self.engine_of(judge)) for name, judge in as_written.items()
        }
        self.used["engines"] = sorted(self._known("engines", self._engines()))
        valid = catalogue.valid
        self.view = StudyView(
            judges={name: self.judges.get(name) for name in judges},
            gold=self.names("gold"),
            protocol=self.settings.protocol,
            seconds={name: self.judges.get(name) for name in seconds},
            models=self.names("models"),
            splits={name: valid["splits"].get(name) for name in splits},
            samples=self.settings.samples,
            primary_judge=self.settings.primary_judge or next(iter(self.names("judges")), ""),
            entries={"models": self.models, **{section: self.entries(section) for section in OF_FEATURES.names()}},
            items=self.valid_items,
            written=frozenset(name for name, gold in self.gold.items() if not gold.is_peoples),
            may_block=any(
                "may_block" in engine.able()
                for model in self.models.values()
                if model.asks_engine and (engine := self.engine_of(model)) is not None
            )
            or any(model.blocks_in_file for model in self.models.values()),
            has_c=any(
                not model.asks_engine
                or (engine := self.engine_of(model)) is None
                or "log_probabilities" in engine.able()
                for model in self.models.values()
            )
            or not self.models,
        )
        self.chains = RowChains(
            valid["splits"],
            valid["models"],
            self.judges,
            self.view.read_by,
            self._sides_behind,
            self.word_values(),
        )

    def named(self, section: str) -> list[tuple[int, str]]:
        """Return what a list of the study names, each with its place; what is no text is left out.

        A sweep stands for its models.
        """
        listed = self.written.get(section)
        names = enumerate(listed if isinstance(listed, list) else ())
        swept = self.catalogue.swept if section in ("models", "allow") else {}
        return [(place, one) for place, name in names if isinstance(name, str) for one in swept.get(name, [name])]

    def names(self, section: str) -> list[str]:
        """Return the same without the places."""
        return [name for _, name in self.named(section)]

    def all_known(self, section: str) -> bool:
        """Tell whether the catalogue has all that the study lists.

        Else a name that it does not list may be one that it misspells, or that of a sweep's model.
        """
        names = set(self.names(section))
        sweeps = names.intersection(self.catalogue.broken_sweeps) if section == "models" else ()
        return bool(names) and not sweeps and names <= set(self.catalogue.written[section])

    def all_valid(self, *keys: str) -> bool:
        """Tell whether these lists of the study have no mistake, and no entry that they name has one.

        Else what the study seems to lack may be there.
        """
        return all(self._list_is_valid(key) for key in keys)

    def word_values(self) -> dict[str, WordValues]:
        """Return the values of words that its keys ask for, by name; of keys with a mistake none."""
        return word_values_of(self.settings)

    def _list_is_valid(self, key: str) -> bool:
        listed = self.written.get(key)
        if listed is None:
            return True
        if key in LISTS:
            return all(name in self.catalogue.valid[key] for name in self.names(key)) and isinstance(listed, list)
        return not check(fields_of(Study)[key], listed)[1]

    def valid_items(self, key: str, entry: type[EntryT]) -> dict[Any, EntryT]:
        """Return the items of a list of the study that have no mistake, by their place; of a mapping by their name."""
        return valid_items(entry, self.written.get(key))

    def entries(self, section: str) -> dict[str, Any]:
        """Return the valid entries of a section that the study uses, by name."""
        valid = self.catalogue.valid[section]
        return {name: valid[name] for name in self.used[section] if name in valid}

    def _known(self, section: str, names: Iterable[str]) -> list[str]:
        """Return the names that the catalogue has, each once."""
        return [name for name in dict.fromkeys(names) if name in self.catalogue.written[section]]

    def _engines(self) -> Iterator[str]:
        """Yield the engines that its models and judges name, valid or not."""
        # The engine of a model whose answers are in files is asked for nothing: it needs no weights and no pin.
        users = (entry for *_, entry in self.engine_users() if getattr(entry, "asks_engine", True))
        yield from (user.engine for user in users if getattr(user, "engine", None))
        for section in ("models", "judges"):
            written = self.catalogue.written[section]
            broken = set(self.used[section]) - set(self.catalogue.valid[section])
            yield from (engine for name in broken if isinstance(engine := written[name].get("engine"), str))

    def sides(self, of_model: str | None = None) -> Iterator[tuple[KeyPath, Side]]:
        """Yield each group of prompts whose activations the study reads, with its place.

        Args:
            of_model: a model, for those that its activations are read on.
        """
        for asked in (one for use in activation_uses() for one in use.checked(self)):
            if of_model is None or of_model in asked.models.values():
                yield from (((*asked.place, *place), part) for place, part in parts_with_places(asked.sides))

    def _sides_behind(self, model: str) -> Iterator[tuple[str, list[Side]]]:
        """Yield what the changes of a model are made from: a model, and its groups of prompts."""
        entry = self.catalogue.valid["models"].get(model)
        changed = changes_of(entry) if entry is not None else ()
        made = [thing for change in changed for thing in change.made_from(change.value_in(entry))]
        for asked in (one for use in activation_uses() for one in use.checked(self) if one.place in made):
            yield from ((of, [side for _, side in parts_with_places(asked.sides)]) for of in asked.models.values())

    def captured_splits(self) -> list[str]:
        """Return the splits of the catalogue that these name, and those that teach a judge, each once."""
        of_sides = [name for _, side in self.sides() for name in (side.split, *(side.without or ()))]
        return self._known("splits", [*of_sides, *(split for _, split in self.taught_splits())])

    def taught_splits(self) -> Iterator[tuple[str, str]]:
        """Yield the judges that learn how the models' own refusals begin, each with the split of these answers."""
        for name, judge in self.entries("judges").items():
            read = judge.refusals_read() if hasattr(judge, "refusals_read") else None
            if read is not None and read.split is not None:
                yield name, read.split

    def _use_what_splits_are_made_of(self) -> None:
        """Add the splits, models and judges that changes of models take, or that other splits are made of."""
        splits, models, known = self.used["splits"], self.used["models"], set[str]()
        judges = self.used["judges"]
        while known != {*splits, *models}:
            known = {*splits, *models}
            for model in self.entries("models").values():
                for change in changes_of(model):
                    splits += change.splits_read(change.value_in(model))
            for name, split in self.entries("splits").items():
                splits += [split.source.made_of] if split.source.made_of is not None else []
                models += split.source.loads()
                for read in split.source.reads(name):
                    splits.append(read.split)
                    models += [read.model] if read.model is not None else []
                    judges += [read.judge] if read.judge is not None else []
            splits[:], models[:] = self._known("splits", splits), self._known("models", models)
            judges[:] = self._known("judges", judges)

    def splits_asked(self, model: str) -> list[str]:
        """Return the splits that a model is asked, each once: the study's, or those that it makes prompts for, too."""
        read = (one for name, split in self.entries("splits").items() for one in split.source.reads(name))
        made = [one.split for one in read if one.model == model]
        return list(dict.fromkeys([*(self.names("splits") if model in self.models else ()), *made]))

    def engine_users(self) -> Iterator[tuple[str, str, Any]]:
        """Yield section, name and entry of each valid model and judge of the study."""
        yield from (("models", name, model) for name, model in (self.models | self.further_models).items())
        yield from (("judges", name, judge) for name, judge in self.judges.items())

    def engine_of(self, entry: Any) -> Engine | None:
        """Return the engine of a model or a judge, where it has a valid one."""
        engine: Engine | None = self.catalogue.valid["engines"].get(getattr(entry, "engine", ""))
        return engine

    def may_use(self, section: str, name: str) -> bool:
        """Tell whether a valid entry is on, or allowed; `permission_mistakes` alone reports one that is not.

        An engine is allowed with a model or a judge that asks it.
        """
        entry = self.catalogue.valid[section][name]
        askers = self.engine_users() if section == "engines" else ()
        names = [name, *(asker for _, asker, asks in askers if getattr(asks, "engine", None) == name)]
        return getattr(entry, "enabled", True) or not set(names).isdisjoint(self.names("allow"))

    def placed(self, mistake: Mistake) -> Problem:
        """Return a mistake with its file and line.

        Its path begins with the section and the name of an entry of the catalogue, or with a key of the study.
        """
        path, message = mistake
        if len(path) > 1 and isinstance(path[1], str) and path[0] in self.catalogue.written:
            return self.catalogue.written[str(path[0])][path[1]].problem(path[2:], message)
        return self.written.problem(path, message)
