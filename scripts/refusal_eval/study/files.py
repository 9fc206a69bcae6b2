"""The files of a study: a row for each noun, with the rules that make its files and the names that they are made for.

Rules name their files themselves; whatever else asks for one, or for all that a study makes, asks here. Analyses,
tables and figures share a row each: their names come from the registries. A feature adds the rows that the table
`FILES` of its package lists: `module:NAME` by noun.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refusal_eval.config.kinds import ANALYSES, ANSWER_PAGES, FIGURES, TABLES
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.core.registry import at_place, places_of_features
from refusal_eval.study.batches import GOLD, load_names

if TYPE_CHECKING:
    from refusal_eval.study.study import Study

Names = tuple[str, ...]  # one for each wildcard of a pattern, in its order
WILDCARD = re.compile(r"\{(\w+)\}")
CACHE = "{cache}/"  # begins the patterns of files that studies share
OF_TABLES = ("judge", "model", "split", "gold")  # wildcards of what a table or a figure can be made of
# of each figure: pictures, its numbers, a figure environment of LaTeX, and captions
FIGURE_ENDINGS = (
    *("svg", "pdf", "png", "csv", "tex", "html"),
    *("caption.md", "caption.tex", "caption_long.md", "caption_long.tex"),
)


@dataclass(frozen=True)
class File:
    """The files of one noun.

    Attributes:
        patterns: within the study's results, or from `{cache}/` on; one job makes a file of each.
        rules: those that make them.
        names: returns what a study fills the wildcards with: a tuple for each job.
        log_folder: where the logs of these jobs lie, by which `status` calls them; the default is the first rule.
        of_report: whether it is made of the cells and for readers; else it is of a cell, or comes before the cells.
        from_verdicts: whether answers and verdicts decide its numbers, so that `verify` can compute it a second time.
        asked: whether `rule all` asks for it even where all that is made of it is there.
        shown: whether people look through its folder, where one that is left over looks like a current one.
        submitted: whether its jobs load models, so that they are submitted to a cluster and the others are not.
        after: in the row of a feature, the noun of the row before it.
    """

    patterns: tuple[str, ...]
    rules: tuple[str, ...]
    names: Callable[[Study], Iterable[Names]]
    log_folder: str = ""
    of_report: bool = False
    from_verdicts: bool = False
    asked: bool = True
    shown: bool = False
    submitted: bool = False
    after: str = ""

    @functools.cached_property
    def wildcards(self) -> Names:
        """The wildcards of its patterns."""
        return tuple(WILDCARD.findall(self.patterns[0].removeprefix(CACHE)))

    @property
    def logs(self) -> str:
        """The folder of its jobs' logs."""
        return self.log_folder or self.rules[0]

    @property
    def folder(self) -> str:
        """The folder of the study's results that holds all of them."""
        return self.patterns[0].split("/", 1)[0]


# ---------------------------------------------------------------- the names that a study fills wildcards with


def _once(study: Study) -> list[Names]:
    return [()]


def _rows(study: Study) -> list[Names]:
    return [Path(source.copy_file("")).parts[-2:] for source in study.fetched("splits", "gold").values()]


def _weights(study: Study) -> list[Names]:
    return [(copy,) for copy in study.fetched("engines")]


def _tokenizers(study: Study) -> list[Names]:
    return [(copy,) for copy, source in study.fetched("engines").items() if source.tokenizer_apart]


def _engines(study: Study) -> list[Names]:
    return [(engine,) for engine in study.engines]


def _gold(study: Study) -> list[Names]:
    return [(gold,) for gold in study.gold]


def _judges_on_gold(study: Study) -> list[Names]:
    return list(itertools.product(study.judges, study.gold))


def _engine_judges(study: Study) -> list[Names]:
    return [(judge,) for judge in study.engine_judges]


def _learners(study: Study) -> list[Names]:
    return [(judge,) for judge in study.fitted_judges]


def _calibrated(study: Study) -> list[Names]:
    on_gold = {judge: entry.threshold_on_gold(study.view) for judge, entry in study.judges.items()}
    return [(judge, gold) for judge, gold in on_gold.items() if gold]


def _prompts(study: Study) -> list[Names]:
    return [(split,) for split in study.settings.split_entries]  # also of those that are only read


def _captured(study: Study) -> list[Names]:
    return [(made.positions, made.model, side.split) for made in study.captures for side in made.parts]


def _requests(study: Study) -> list[Names]:
    cells = (cell for cell in study.batch_of if cell.judge is None and cell.model not in study.probes)
    asked = [(cell.model, cell.split) for cell in cells]
    return [*asked, *((model, split) for _, model, split in _captured(study))]


def _judge_requests(study: Study) -> list[Names]:
    return [(cell.judge, cell.model, cell.split) for cell in study.batch_of if cell.judge]


def _answers(study: Study) -> list[Names]:
    beyond = [(cell.model, cell.split) for cell in study.further_cells if cell.judge is None]
    return [*itertools.product(study.models, study.splits), *beyond]


def _verdicts(study: Study) -> list[Names]:
    beyond = [(cell.judge, cell.model, cell.split) for cell in study.further_cells if cell.judge]
    return [*all_cells(study), *beyond, *((judge, GOLD, gold) for judge, gold in _judges_on_gold(study))]


def all_cells(study: Study) -> list[Names]:
    """Return the judge, model and split of each cell."""
    return [(judge, model, split) for judge, model in study.read_pairs for split in study.splits]


def _scores(study: Study) -> list[Names]:
    """Return the cells, and those whose c(x) chooses the prompts of a side."""
    sides = [(made.model, side) for made in study.captures for side in made.parts]
    return [*all_cells(study), *((side.judge, model, side.split) for model, side in sides if side.judge)]


def _typeset(study: Study) -> list[Names]:
    return [(name,) for name, table in study.tables.items() if table.typeset]


def _loads(batches: Iterable[str], shards: int) -> list[Names]:
    return list(itertools.product(batches, load_names(shards)))


# ---------------------------------------------------------------- the table


def with_endings(stem: str, *endings: str) -> tuple[str, ...]:
    """Return the patterns of a file that is written in several forms."""
    return tuple(f"{stem}.{ending}" for ending in endings)


# In the order in which jobs wait for each other.
KERNEL: dict[str, File] = {
    # Data and weights
    "rows": File((f"{CACHE}rows/{{source}}/{{file}}",), ("fetch_rows",), _rows, asked=False),
    "tokenizers": File(
        (f"{CACHE}weights/{{weights}}/tokenizer_manifest.json",), ("fetch_tokenizer",), _tokenizers, asked=False
    ),
    "weights": File((f"{CACHE}weights/{{weights}}/weights.json",), ("fetch_weights",), _weights, asked=False),
    "engines": File(("engines/{engine}.json",), ("identify_engine",), _engines),
    "judges": File(("judges/{judge}.json",), ("check_judge",), _engine_judges),
    "prompts": File(("prompts/{split}.jsonl",), ("prompts",), _prompts),
    "gold": File(("gold/{gold}.jsonl",), ("gold",), _gold),
    "gold_answers": File((f"answers/{GOLD}/{{gold}}.jsonl",), ("gold",), _gold),
    "activations": File(
        ("activations/{positions}/{model}/{split}.safetensors",),
        ("activations",),
        _captured,
        of_report=True,
        submitted=True,
    ),
    # Answers
    "requests": File(("requests/{model}/{split}.jsonl",), ("requests",), _requests),
    # Asked for, a receipt that is older than requests would be made again for cells that have their answers.
    "generate_receipts": File(
        ("receipts/generate/{batch}/{load}.json",),
        ("generate",),
        lambda study: _loads(study.generation_batches, study.settings.shards),
        asked=False,
        submitted=True,
    ),
    "answers": File(("answers/{model}/{split}.jsonl",), ("answers", "recorded_answers", "logged_answers"), _answers),
    # How likely these are, in the place of what else is read of responses.
    "recorded_likelihoods": File(
        ("published/answers/{model}/{split}.jsonl",),
        ("recorded_answers", "logged_answers"),
        lambda study: list(itertools.product(study.recorded_models, study.splits)),
        "answers",
        of_report=True,
    ),
    # Verdicts
    "judge_requests": File(("judge_requests/{judge}/{model}/{split}.jsonl",), ("judge_requests",), _judge_requests),
    "judge_receipts": File(
        ("receipts/judge/{batch}/{load}.json",),
        ("judge",),
        lambda study: _loads(study.judging_batches, study.settings.shards),
        asked=False,
        submitted=True,
    ),
    "fitted_judges": File(
        ("judges/{judge}/model.json", "judges/{judge}/out_of_fold.jsonl"), ("train_judge",), _learners
    ),
    "calibration": File(
        ("calibration/{judge}/{gold}.json",), ("calibration",), _calibrated, of_report=True, from_verdicts=True
    ),
    "verdicts": File(
        ("verdicts/{judge}/{model}/{split}.jsonl",),
        ("llm_verdicts", "cpu_verdicts", "panel_verdicts", "recorded_verdicts", "logged_verdicts", "gold_labels"),
        _verdicts,
        "verdicts",
    ),
    # Scores
    "scores": File(("scores/{judge}/{model}/{split}.parquet",), ("score",), _scores, from_verdicts=True),
    "cards": File(("judge_cards/{judge}/{gold}.json",), ("judge_card",), _judges_on_gold, from_verdicts=True),
    # Numbers
    "duplicates": File(
        with_endings("estimates/duplicates", "json", "csv"),
        ("near_duplicates",),
        _once,
        of_report=True,
        from_verdicts=True,
    ),
    "estimates": File(
        ("estimates/cells/{judge}/{model}.json",),
        ("estimates",),
        lambda study: study.read_pairs,
        of_report=True,
        from_verdicts=True,
    ),
    "analyses": File(
        ("estimates/{analysis}.json",),
        ("analysis",),
        lambda study: [(analysis,) for analysis in study.analyses],
        of_report=True,
        from_verdicts=True,
    ),
    "results": File(
        ("results_table/results.csv", "results_table/results.parquet", "results_table/dictionary.md"),
        ("results_table",),
        _once,
        of_report=True,
        from_verdicts=True,
    ),
    # What readers see
    "tables": File(
        with_endings("tables/{table}", "csv", "md", "tex", "html"),
        ("table",),
        _typeset,
        "tables",
        of_report=True,
        from_verdicts=True,
        shown=True,
    ),
    "listings": File(
        ("tables/{table}.csv",),
        ("listing",),
        lambda study: [(name,) for name, table in study.tables.items() if not table.typeset],
        "tables",
        of_report=True,
        from_verdicts=True,
        shown=True,
    ),
    # Of tables whose cells link to answers.
    "report_pages": File(
        ("report_pages/{table}.html",),
        ("report_page",),
        lambda study: _typeset(study) if answer_pages(study) else [],
        of_report=True,
        from_verdicts=True,
    ),
    "figures": File(
        with_endings("figures/{figure}", *FIGURE_ENDINGS),
        ("figure",),
        lambda study: [(figure,) for figure in study.figures],
        "figures",
        of_report=True,
        from_verdicts=True,
        shown=True,
    ),
    "captions_preamble": File(
        ("figures/captions_preamble.tex",),
        ("captions_preamble",),
        lambda study: [()] if study.figures else [],
        of_report=True,
        from_verdicts=True,
        shown=True,
    ),
    "card_figures": File(
        with_endings("figures/judge_cards/{judge}/{gold}", "svg", "pdf", "png", "html"),
        ("judge_card_figure",),
        _judges_on_gold,
        of_report=True,
        from_verdicts=True,
        shown=True,
    ),
    "manifest": File(("manifest.json",), ("manifest",), _once, of_report=True),
    "methods": File(
        ("methods.md", "methods.tex", "methods_short.md", "methods_short.tex", "references.bib"),
        ("methods",),
        _once,
        of_report=True,
    ),
    # Its rule fails where a judge is worse than asked.
    "floors": File(
        ("judge_cards/floors.json",),
        ("judge_floor",),
        lambda study: [()] if any(judge.floor for judge in study.judges.values()) else [],
        of_report=True,
    ),
}


@functools.cache
def file_table() -> dict[str, File]:
    """Return the rows of all nouns, in the order in which jobs wait for each other.

    Those of features are imported here: their rooms are higher up.
    """
    rows = list(KERNEL.items())
    for noun, place in places_of_features("FILES").items():
        file: File = at_place(place)
        rows.insert([known for known, _ in rows].index(file.after) + 1, (noun, file))
    return dict(rows)


def file_of(noun: str) -> File:
    """Return the row of a noun.

    Raises:
        UserError: if there is none, with the nearest one.
    """
    if noun not in file_table():
        raise UserError(f"there are no files called `{noun}`{nearest(noun, file_table())}")
    return file_table()[noun]


# ---------------------------------------------------------------- what a study makes


def made_files(study: Study) -> dict[str, File]:
    """Return all files that a study makes, each with its row."""
    made = dict[str, File]()
    for noun, file in file_table().items():
        for names in file.names(study):
            named = dict(zip(file.wildcards, names, strict=True))
            made |= dict.fromkeys(study.paths.all_of(noun, **named), file)
    return made


def asked_files(study: Study) -> list[str]:
    """Return the files that a finished study has, whoever reads them, in alphabetical order."""
    return sorted(path for path, file in made_files(study).items() if file.asked)


def answer_pages(study: Study) -> dict[str, str]:
    """Return the pages of a study that show its answers, by the names of their kinds; the cells of tables link to them.

    A report is read where these are not: its tables are pages of their own, without links.
    """
    kinds = {name: ANSWER_PAGES.get(name) for name in ANSWER_PAGES.names()}
    return {name: study.paths.of(kind.noun) for name, kind in kinds.items() if list(file_of(kind.noun).names(study))}


def job_files(study: Study) -> dict[tuple[str, ...], str]:
    """Return the first file of each job of a study, by the parts of its log's path within the study's logs."""
    found: dict[tuple[str, ...], str] = {}
    for noun, file in file_table().items():
        for names in file.names(study):
            path = study.paths.of(noun, **dict(zip(file.wildcards, names, strict=True)))
            found.setdefault((*file.logs.split("/"), *names), path)
    return found


def is_job_of_study(parts: Sequence[str]) -> bool:
    """Tell whether the rules that ship write such a log (the parts of its path), for this study or for another."""
    logs = [(file.logs.split("/"), bool(file.wildcards)) for file in file_table().values()]
    return any(list(parts[: len(own)]) == own and (len(parts) > len(own)) is named for own, named in logs)


# ---------------------------------------------------------------- what tables, figures and analyses are made of


def needed_files(study: Study, nouns: Iterable[str], **names: Iterable[str]) -> dict[str, list[str]]:
    """Return the files of each noun, sorted by the names in them: of an analysis its file, if the study has it.

    Args:
        names: the `judge`s, `model`s and so on that the wildcards are filled with.
    """
    found = {}
    for noun in nouns:
        if noun in file_table():
            wildcards = file_table()[noun].wildcards
            filled = itertools.product(*(sorted(names[wildcard]) for wildcard in wildcards))
            named = [dict(zip(wildcards, own, strict=True)) for own in filled]
            found[noun] = [study.paths.of(noun, **own) for own in named if _judged(study, own)]
        else:
            found[noun] = [study.paths.of("analyses", analysis=noun)] if noun in study.analyses else []
    return found


def _judged(study: Study, names: Mapping[str, str]) -> bool:
    """Tell whether a judge judges a model, where a file is about both."""
    return not {"judge", "model"} <= set(names) or (names["judge"], names["model"]) in study.read_pairs


def refuse_unknown_needs() -> None:
    """Raise `UserError` for a table or a figure that is made of what there is not, with the nearest name.

    Also for an analysis by whose name they would get other files.
    """
    if taken := set(file_table()).intersection(ANALYSES.names()):
        where = f"{ANALYSES.module(min(taken)).name}: {ANALYSES.get(min(taken)).__name__}.name"
        raise UserError(f"{where}: other files of a study are called `{min(taken)}`; choose another name")
    for registry in (TABLES, FIGURES):
        for name in registry.names():
            kind, analysis = registry.get(name), getattr(registry.get(name), "of_analysis", None)
            wildcards = {*OF_TABLES, *getattr(kind, "wildcards", ())}
            nouns = [noun for noun, file in file_table().items() if set(file.wildcards) <= wildcards]
            asked = [("needs", noun, [*nouns, *ANALYSES.names()]) for noun in kind.needs]
            asked += [("of_analysis", analysis, ANALYSES.names())] if analysis is not None else []
            for attribute, noun, known in asked:
                if noun not in known:
                    where = f"{registry.module(name).name}: {kind.__name__}.{attribute}"
                    raise UserError(f"{where}: there is no `{noun}`{nearest(noun, known)}")
