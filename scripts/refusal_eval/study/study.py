"""A validated study, typed: its entries, cells, batches, paths and labels."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from refusal_eval.config.activation_use import Capture, activation_uses
from refusal_eval.config.capture_entry import Side
from refusal_eval.config.change import Change, changes_of, source_fields
from refusal_eval.config.checked_study import LISTS
from refusal_eval.config.datasets import Split
from refusal_eval.config.engine_entry import Engine
from refusal_eval.config.entries import Gold, Model
from refusal_eval.config.feature_keys import MODEL_KEYS, STUDY_KEYS, WordValues, word_values_of
from refusal_eval.config.feature_keys import SECTIONS as OF_FEATURES
from refusal_eval.config.figure_entry import Figure
from refusal_eval.config.judge_entry import Way
from refusal_eval.config.kinds import ANALYSES, FIGURES, PROTOCOLS, TABLES
from refusal_eval.config.paper_format import PaperFormat, format_of
from refusal_eval.config.protocol import Protocol
from refusal_eval.config.row_chains import RowChains
from refusal_eval.config.source_entries import Source
from refusal_eval.config.study_entry import StudyConfig
from refusal_eval.config.study_view import StudyView
from refusal_eval.study.batches import GOLD, Cell, ModelFamily, Probe
from refusal_eval.study.files import file_of, refuse_unknown_needs
from refusal_eval.study.paths import Paths

# Ends of the names of batches, which no entry has: of those whose requests wait for verdicts, and of those whose
# prompts are made of answers, by how often answers are waited for.
AFTER_OTHERS = "_after"
LEVEL = "_level{}"
NOUNS = ("model", "split", "judge", "gold")


class Study:
    """A validated study. Rules and tools ask it; scripts get what they need of it as params.

    Attributes:
        settings: what the study file says, typed (`settings.samples`, `settings.scoring.tau`).
        config: the same as plain JSON values, as Snakemake's `config` holds it.
        models, splits, judges, gold: the entries that it lists by name, in its order.
        every_model, every_judge: these models and judges, and those whose answers or verdicts only make prompts.
        engines: the engines that these ask.
        paths: where its files lie.

    Raises:
        UserError: if a table or figure of a plug-in is made of what no study has.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        values = {key: value for key, value in self.config.items() if key != "lock"}
        self.settings: StudyConfig = StudyConfig.model_validate(values)
        self.lock: str | None = self.config.get("lock")
        self.models: dict[str, Model] = {name: self.settings.model_entries[name] for name in self.settings.models}
        self.every_model: dict[str, Model] = self.models | self.settings.model_entries
        self.splits: dict[str, Split] = {name: self.settings.split_entries[name] for name in self.settings.splits}
        self.gold: dict[str, Gold] = {name: self.settings.gold_entries[name] for name in self.settings.gold}
        self.engines: dict[str, Engine] = dict(self.settings.engine_entries)
        self.judges: dict[str, Any] = {name: self._judge(name) for name in self.settings.judges}
        read = (one for name, split in self.settings.split_entries.items() for one in split.source.reads(name))
        choosing = dict.fromkeys(one.judge for one in read if one.judge is not None)
        self.every_judge: dict[str, Any] = {name: self._judge(name) for name in (*self.judges, *choosing)}
        self.paths = Paths(self.config)
        if self.settings.plugins:
            refuse_unknown_needs()

    @property
    def name(self) -> str:
        """The study's name."""
        return self.settings.study

    @property
    def primary_judge(self) -> str:
        """The judge of the headline numbers."""
        return self.settings.primary_judge or self.settings.judges[0]

    @property
    def paper(self) -> PaperFormat:
        """The widths that its figures and tables have."""
        return format_of(self.settings.paper)

    @property
    def protocol(self) -> type[Protocol]:
        """How it asks its models and scores their answers."""
        return PROTOCOLS.get(self.settings.protocol)

    @cached_property
    def view(self) -> StudyView:
        """What kinds of judges and of figures ask of it."""
        return StudyView(
            judges=self.judges,
            gold=list(self.gold),
            protocol=self.settings.protocol,
            seconds={second: self._judge(second) for second in self._seconds.values()},
            models=list(self.models),
            splits=self.splits,
            samples=self.settings.samples,
            primary_judge=self.primary_judge,
            entries={"models": self.models, **{section: self.listed(section) for section in OF_FEATURES.names()}},
            items=lambda key, _: _by_place(getattr(self.settings, key)),
            written=frozenset(name for name, gold in self.gold.items() if not gold.is_peoples),
            may_block=self.may_block,
            has_c=any(
                not model.asks_engine or "log_probabilities" in self.engines[model.engine_name].able()
                for model in self.models.values()
            ),
        )

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures that it names, by name, or those that its models, splits and judges allow."""
        named = self.settings.figures
        if named is None:
            kinds: Any = map(FIGURES.get, FIGURES.names())
            named = [figure for kind in kinds for figure in kind.unasked(self.view)]
        return {figure.name: figure for figure in named}

    @cached_property
    def analyses(self) -> dict[str, Any]:
        """The analyses that it has, by name (`workflow.analysis.Analysis`)."""
        every: dict[str, Any] = {name: ANALYSES.get(name)(self) for name in ANALYSES.names()}
        return {name: analysis for name, analysis in every.items() if analysis.wanted()}

    @cached_property
    def tables(self) -> dict[str, type[Any]]:
        """The tables that it has, by name (`report.paper.table_kind.StudyTable`)."""
        every: dict[str, type[Any]] = {name: TABLES.get(name) for name in TABLES.names()}
        possible = {None, *self.analyses}
        return {name: table for name, table in every.items() if table.of_analysis in possible and table.wanted(self)}

    def sources(self) -> Iterator[tuple[str, str, Any, Source]]:
        """Yield section, name and entry of all that has a source, with it: weights, rows, files of a change."""
        for section, key in source_fields():
            every: dict[str, Any] = {"splits": self.settings.split_entries, "models": self.every_model}
            entries = every[section] if section in every else getattr(self, section)
            for name, entry in entries.items():
                source: Source | None = getattr(entry, key, None)
                if source is not None:
                    yield section, name, entry, source

    def origin(self, split: str) -> str:
        """Return what tells where the rows of a split come from apart: of one made of another split, that one's."""
        source = self.settings.split_entries[split].source
        while source.made_of is not None:
            source = self.settings.split_entries[source.made_of].source
        return source.origin

    def fetched(self, *sections: str) -> dict[str, Any]:
        """Return the sources of these sections that are fetched, by the folder of their copy in the cache."""
        found = (source for section, _, _, source in self.sources() if section in sections)
        return {source.copy_id: source for source in found if source.fetched}

    @cached_property
    def cells(self) -> list[Cell]:
        """Every (judge, model, split) that is scored, in the study's order."""
        return [Cell(model, split, judge) for judge, model in self.read_pairs for split in self.splits]

    @cached_property
    def read_pairs(self) -> list[tuple[str, str]]:
        """Every judge with each model whose answers it judges (`JudgeEntry.reads_model`), in the study's order."""
        return [(judge, model) for judge in self.judges for model in self.view.read_by(judge)]

    @cached_property
    def captures(self) -> list[Capture]:
        """The activations that anything is made from."""
        return [capture for use in activation_uses() for capture in use.captures(self)]

    @cached_property
    def further_cells(self) -> list[Cell]:
        """Cells that it does not evaluate, and whose answers or verdicts activations, a judge or prompts need."""
        found = dict[Cell, None]()
        for capture in self.captures:
            for side in capture.parts:
                if side.split in self.splits:
                    continue
                if side.judge or capture.positions == "answer_mean":
                    found[Cell(capture.model, side.split)] = None
                if side.judge:
                    judges = [side.judge]
                    for judge in judges:  # it grows
                        found[Cell(capture.model, side.split, judge)] = None
                        judges += self.judges[judge].reads()
        for judge in self.judges:
            read = self._taught_by(judge)
            if read is None or read.split in self.splits:
                continue
            for model in (model for reader, model in self.read_pairs if reader == judge):
                found[Cell(model, read.split)] = None
                found[Cell(model, read.split, read.judge)] = None
        for split in self.settings.split_entries:
            for *judges, model, of in self.chains.cells(split):
                evaluated = model in self.models and of in self.splits
                if not evaluated or not {(judge, model) for judge in judges} <= set(self.read_pairs):
                    found[Cell(model, of, *judges)] = None
        return list(found)

    @cached_property
    def chains(self) -> RowChains:
        """What its splits are made of."""
        judges = {**self.view.seconds, **self.every_judge}
        return RowChains(
            self.settings.split_entries,
            self.every_model,
            judges,
            self.view.read_by,
            self._sides_behind,
            self.word_values,
        )

    @cached_property
    def word_values(self) -> dict[str, WordValues]:
        """What gives values to words of its prompts, by name."""
        return word_values_of(self.settings)

    def _sides_behind(self, model: str) -> Iterator[tuple[str, list[Side]]]:
        """Yield what the changes of a model are made from: a model, and its groups of prompts."""
        entry = self.every_model[model]
        made = [thing for change in changes_of(entry) for thing in change.made_from(change.value_in(entry))]
        yield from ((one.model, one.parts) for one in self.captures if (one.use, one.name) in made)

    def level(self, cell: Cell) -> int:
        """Return how often answers are waited for before a cell's requests can be made; 0 where no prompts need any."""
        if cell.model == GOLD:
            return 0
        return self.chains.level(tuple(filter(None, (cell.judge, cell.model, cell.split))))

    def samples_of(self, split: str) -> int:
        """Return how many answers each prompt of a split gets."""
        return self.settings.split_entries[split].source.asked or self.settings.samples

    def _taught_by(self, judge: str) -> Any:
        """Return the refusals of the models that decide what a judge's engine is asked, None for most."""
        read = self.engine_judges[judge].refusals_read() if judge in self.engine_judges else None
        return read if read is not None and read.judge is not None else None

    @cached_property
    def generation_batches(self) -> dict[str, list[Cell]]:
        """The cells of each generation batch, by the batch's name; without answers that are recorded."""
        cells = [Cell(*names) for names in itertools.product(self.asked_models, self.splits)]
        further = (cell for cell in self.further_cells if cell.judge is None)
        cells += [cell for cell in further if self.every_model[cell.model].asks_engine]
        asked = [(self.every_model[cell.model].engine_name, cell) for cell in cells]
        for name, of in self.probes.items():
            asked += [(self.models[of.model].engine_name, Cell(name, split)) for split in of.splits]
        return self._batches(asked)

    @cached_property
    def judging_batches(self) -> dict[str, list[Cell]]:
        """The cells of each judging batch, by the batch's name: of judges that need an engine, gold included."""
        asked = self.engine_judges
        cells = [cell for cell in self.cells if cell.judge in asked]
        measured = (judge for judge in asked if judge in self.judges)
        cells += [Cell(GOLD, name, judge) for judge, name in itertools.product(measured, self.gold)]
        cells += [cell for cell in self.further_cells if cell.judge in asked]
        return self._batches((asked[str(cell.judge)].engine, cell) for cell in cells)

    def _batches(self, cells: Iterable[tuple[str, Cell]]) -> dict[str, list[Cell]]:
        """Return cells by the batch of their engine. The mode begins its name: no cell's name can meet an engine's."""
        mode, batches = self.settings.batch, dict[str, list[Cell]]()
        for engine, cell in cells:
            probe = self.probes.get(cell.model) if cell.judge is None else None
            model = probe.model if probe else cell.model
            # So are its verdicts: what changes it may wait for those of other models, and its answers wait for that.
            whole = (model,) if model in self.with_own_loads else ()
            shared = self._family_of.get(model, model) if cell.judge is None else model
            parts = {"engine": whole, "model": (shared,), "cell": (cell.model, cell.split, cell.judge)}[mode]
            # What is asked after others' verdicts is known with these, for which the same engine may load;
            # and so are the tokens that a judge takes from the refusals that another one reads.
            reads = cell.judge is not None and (self.every_judge[cell.judge].reads() or self._taught_by(cell.judge))
            after = AFTER_OTHERS if reads else None
            # One load for all of an engine's cells would wait for answers that it has to give itself.
            depth = self.level(Cell(model, cell.split, cell.judge)) + (probe is not None and probe.after_answers)
            level = LEVEL.format(depth) if depth else None
            batches.setdefault("/".join(filter(None, (mode, engine, *parts, level, after))), []).append(cell)
        return {name: sorted(held) for name, held in sorted(batches.items())}

    @cached_property
    def batch_of(self) -> dict[Cell, str]:
        """The batch of every cell that an engine is asked for: (model, split), and (model, split, judge)."""
        batches = (*self.generation_batches.items(), *self.judging_batches.items())  # of both, some have one name
        return {cell: name for name, cells in batches for cell in cells}

    def label(self, noun: str, name: str) -> str:
        """Return the name of a model, split, judge or gold as tables and figures show it.

        Args:
            noun: `model`, `split`, `judge` or `gold`.
            name: its name in the catalogue.
        """
        return str(self.entries(noun)[name].label or name)

    def entries(self, noun: str) -> Mapping[str, Any]:
        """Return the entries of one of `NOUNS` by name."""
        found: dict[str, Any] = getattr(self.settings, f"{noun}_entries")
        return found

    def listed(self, section: str) -> dict[str, Any]:
        """Return the entries that it lists of a section of the catalogue, by name, in its order."""
        return {name: self.entries(LISTS[section])[name] for name in getattr(self.settings, section)}

    @property
    def asked_models(self) -> list[str]:
        """The models that an engine is asked for."""
        return [name for name, model in self.models.items() if model.asks_engine]

    @cached_property
    def with_own_loads(self) -> set[str]:
        """The models that share no engine load with others, because of how they are changed."""
        return {
            name for name, model in self.every_model.items() if any(change.own_load for change in changes_of(model))
        }

    @cached_property
    def families(self) -> dict[str, ModelFamily]:
        """The families of its models, by name (`FeatureKeys.family`)."""
        found: dict[str, ModelFamily] = {}
        for name in self.asked_models:
            for keys in map(MODEL_KEYS.get, MODEL_KEYS.names()):
                if (family := keys.family(self.models[name])) is not None:
                    found.setdefault(family, ModelFamily(keys.family_requests, [])).models.append(name)
        return found

    @cached_property
    def probes(self) -> dict[str, Probe]:
        """What features ask its models for besides their answers, by what stands for a model's name in such cells."""
        found = {name: Probe(of.requests, of.models[0], list(self.splits)) for name, of in self.families.items()}
        for keys in map(STUDY_KEYS.get, STUDY_KEYS.names()):
            for name, asked in keys.probes(self.settings).items():
                cell_name = f"{keys.probe_requests}/{name}"  # no model has a slash in its name
                found[cell_name] = Probe(
                    keys.probe_requests, asked.model, [asked.split], asked.number, asked.after_answers
                )
        return found

    @cached_property
    def _family_of(self) -> dict[str, str]:
        return {model: name for name, family in self.families.items() for model in family.models}

    def request_file(self, cell: Cell) -> str:
        """Return the request file of a cell."""
        if cell.judge:
            return self.paths.of("judge_requests", judge=cell.judge, model=cell.model, split=cell.split)
        if (probe := self.probes.get(cell.model)) is None:
            return self.paths.of("requests", model=cell.model, split=cell.split)
        names = cell.model.rpartition("/")[2], cell.split
        return self.paths.of(probe.requests, **dict(zip(file_of(probe.requests).wildcards, names, strict=False)))

    @property
    def changes(self) -> list[Change]:
        """The changes of its models."""
        return [change for model in self.models.values() for change in changes_of(model)]

    @cached_property
    def may_block(self) -> bool:
        """Whether another party that serves one of its models may block prompts or answers, or has in recorded ones."""
        served = (self.engines[self.models[name].engine_name] for name in self.asked_models)
        in_files = any(model.blocks_in_file for model in self.models.values())
        return in_files or any("may_block" in engine.able() for engine in served)

    @property
    def recorded_models(self) -> list[str]:
        """The models whose answers were drawn elsewhere and are read from a folder or a file."""
        return [name for name, model in self.models.items() if not model.asks_engine]

    @property
    def models_in_files(self) -> list[str]:
        """Those whose answers are read from a file: a log, a table or neutral rows."""
        return [name for name, model in self.models.items() if model.recorded_file]

    @cached_property
    def engine_judges(self) -> dict[str, Any]:
        """The entry whose engine is asked for the verdicts of each judge that needs one: its own, or its second's."""
        return {name: self._judge(self._seconds.get(name, name)) for name in self.judges_by("engine")}

    def _judge(self, name: str) -> Any:
        """Return a judge as it asks its engine."""
        entry = self.settings.judge_entries[name]
        return entry.for_engine(self.engines.get(getattr(entry, "engine", "")))

    @property
    def fitted_judges(self) -> list[str]:
        """The judges that are fitted on gold before they judge."""
        return [name for name, judge in self.judges.items() if judge.gold_to_fit()]

    @cached_property
    def _seconds(self) -> dict[str, str]:
        return {name: second for name, judge in self.judges.items() if (second := judge.second())}

    def judges_by(self, way: Way) -> list[str]:
        """Return those of `every_judge` that make their verdicts in this way (see `JudgeEntry`)."""
        return [name for name, judge in self.every_judge.items() if judge.way == way]


def _by_place(items: Any) -> Mapping[Any, Any]:
    """Return the items of a list by their place; a mapping as it is."""
    return items if isinstance(items, Mapping) else dict(enumerate(items or ()))
