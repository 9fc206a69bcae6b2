"""A study while it is checked: typed, whatever is wrong with it, beside the catalogue."""

from collections.abc import Iterator
from typing import Any

from refusal_eval.config.catalogue import Catalogue
from refusal_eval.config.datasets import Split
from refusal_eval.config.direction_entry import Direction, Side
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Gold, Model
from refusal_eval.config.lock_file import Lock
from refusal_eval.config.problems import Mistake, Problem
from refusal_eval.config.shapes import KeyPath
from refusal_eval.config.study_entry import Study
from refusal_eval.config.study_view import StudyView
from refusal_eval.config.yaml_source import Written

# The lists of a study: key (also the section of the catalogue), and what one of it is called.
SHOWN = {"models": "model", "splits": "split", "judges": "judge", "gold": "gold"}  # in tables and figures
LISTS = {**SHOWN, "directions": "direction"}


class Draft:
    """What the checks of a study read. An entry or a value that has mistakes is there as far as it can be read.

    Attributes:
        used: the names of the entries that the study uses, by section, in its order; splits that only directions use
            and judges that only other judges ask come last.
        models, splits, judges, gold, directions: the entries that it lists, without those of which no kind is known;
            among `judges` are those that others ask.
        view: what kinds of judges and of figures ask.

    Args:
        study: what the study file says (see `explain.salvaged`).
        written: the same with its file and lines.
        root: the repository's folder, which holds config/.
        open_pins: whether pins may stay open.
    """

    def __init__(
        self, study: Study, written: Written, catalogue: Catalogue, root: str, lock: Lock | None, open_pins: bool
    ) -> None:
        self.study, self.written, self.catalogue = study, written, catalogue
        self.root, self.lock, self.open_pins = root, lock, open_pins
        self.used: dict[str, list[str]] = {
            section: [name for name in dict.fromkeys(self.names(section)) if name in catalogue.written[section]]
            for section in LISTS
        }
        listed = list(self.used["splits"])
        self.directions: dict[str, Direction] = self.entries("directions")
        self.used["splits"] += [name for name in self.direction_splits() if name not in listed]
        self.models: dict[str, Model] = self.entries("models")
        self.splits: dict[str, Split] = {
            name: split for name, split in self.entries("splits").items() if name in listed
        }
        judges = list(self.used["judges"])
        asked_for = dict.fromkeys(judge.second() for judge in self.entries("judges").values())
        seconds = [name for name in asked_for if name in catalogue.written["judges"]]
        self.used["judges"] += [name for name in seconds if name not in judges]
        self.judges: dict[str, Any] = self.entries("judges")
        self.gold: dict[str, Gold] = self.entries("gold")
        # The engine of a model whose answers are recorded is asked for nothing: it needs no weights and no pin.
        asked = [getattr(e, "engine", None) for *_, e in self.engine_users() if not getattr(e, "recorded", None)]
        self.used["engines"] = sorted(name for name in catalogue.written["engines"] if name in asked)
        self.view = StudyView(
            judges={name: catalogue.valid["judges"][name] for name in judges},
            gold=self.names("gold"),
            protocol=study.protocol,
            seconds={name: catalogue.valid["judges"][name] for name in seconds},
            models=self.names("models"),
            splits={name: catalogue.valid["splits"][name] for name in listed},
            samples=study.samples,
            primary_judge=study.primary_judge or next(iter(self.names("judges")), ""),
            separations={entry.name: entry.models or [] for entry in study.separation if entry and entry.name},
            steering=(self._valid("models"), self._valid("directions")),
            written=frozenset(name for name, gold in self.gold.items() if gold and gold.written_to_label),
        )

    def named(self, section: str) -> list[tuple[int, str]]:
        """Return what a list of the study names, each with its place; what is no text is left out.

        A sweep stands for its models.
        """
        found = [(place, name) for place, name in enumerate(getattr(self.study, section)) if isinstance(name, str)]
        swept = self.catalogue.swept if section in ("models", "allow") else {}
        return [(place, member) for place, name in found for member in swept.get(name, [name])]

    def names(self, section: str) -> list[str]:
        """Return the same without the places."""
        return [name for _, name in self.named(section)]

    def all_known(self, section: str) -> bool:
        """Tell whether the catalogue has all that the study lists; a wrong name has a mistake of its own."""
        names = self.names(section)
        return bool(names) and set(names) <= set(self.catalogue.written[section])

    def entries(self, section: str) -> dict[str, Any]:
        """Return the entries of a section that the study uses, by name."""
        typed = self.catalogue.typed[section]
        return {name: typed[name] for name in self.used[section] if typed[name] is not None}

    def _valid(self, section: str) -> dict[str, Any]:
        valid = self.catalogue.valid[section]
        return {name: valid[name] for name in self.used[section] if valid[name] is not None}

    def sides(self) -> Iterator[tuple[KeyPath, Side]]:
        """Yield where each side of the study's directions and separations stands that names a split, and the side."""
        entries: list[tuple[KeyPath, Any]] = [(("directions", name), one) for name, one in self.directions.items()]
        entries += [(("separation", place), one) for place, one in enumerate(self.study.separation) if one]
        for where, entry in entries:
            for key, side in entry.sides.items():
                if side is not None and isinstance(side.split, str):
                    yield (*where, key), side

    def direction_splits(self) -> list[str]:
        """Return the splits of the catalogue that the study's directions and separations name, each once."""
        known = self.catalogue.written["splits"]
        named = (name for *_, side in self.sides() for name in (side.split, *(side.without or ())))
        return list(dict.fromkeys(name for name in named if name in known))

    def engine_users(self) -> Iterator[tuple[str, str, Any]]:
        """Yield section, name and entry of each model and judge of the study."""
        yield from (("models", name, model) for name, model in self.models.items())
        yield from (("judges", name, judge) for name, judge in self.judges.items())

    def engine_of(self, entry: Any) -> Engine | None:
        """Return the engine of a model or a judge, where the catalogue has it."""
        engine: Engine | None = self.catalogue.typed["engines"].get(getattr(entry, "engine", None) or "")
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
