"""A study of one's own, from the names of models: written, validated, and its cost said."""

import dataclasses
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.config.catalogue import Catalogue, shipped_files
from refusal_eval.config.load_study import load_study, study_values
from refusal_eval.config.problems import ConfigError, Problem
from refusal_eval.config.shapes import SLUG, fields_of
from refusal_eval.config.study_entry import Study
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import shown_path
from refusal_eval.core.hints import nearest
from refusal_eval.core.memory import main_memory
from refusal_eval.program.study_file import ROOT
from refusal_eval.program.text_templates import render_template
from refusal_eval.study.engine_environment import built_for
from refusal_eval.tools.new.model_facts import ModelFacts
from refusal_eval.tools.new.model_places import ChosenModel, place_of
from refusal_eval.tools.new.questions import ask_names, ask_number, ask_whether
from refusal_eval.tools.new.study_files import (
    NewStudy,
    Reference,
    entries_text,
    own_names,
    study_name,
    study_text,
)
from refusal_eval.tools.plan.study_costs import plan_study
from refusal_eval.tools.plan.workload import ELSEWHERE

SPLITS = ("alarming_but_safe", "sensitive", "should_decline")  # they ship: nothing is fetched for them
PUBLIC = ("xstest_safe_pairs", "xstest_unsafe_pairs")  # what to offer besides: open, and in papers
# They need no engine (docs/reference/judges.md); the gold has labels of people.
JUDGES = {"keyword": "lists of phrases", "words-english": "fitted to labelled answers: a second opinion"}
GOLD = ("pyrit-refusal",)
SAMPLES = 5
EXPECTED = {"comply": "a good model complies", "refuse": "a good model declines"}
EXPECTED |= {"varies": "a good model may do either"}
SAME_WAY = "compare only what is drawn alike: `--max-tokens` and `--temperature` hold for all models"
A_MODEL = "a folder, owner/name on the hub, or a name of the catalogue"
Names = list[str] | None


def command(
    model: Annotated[Names, typer.Option(metavar="MODEL", help=f"What to measure: {A_MODEL}. May be repeated.")] = None,
    against: Annotated[Names, typer.Option(metavar="MODEL", help="What to compare it with, likewise.")] = None,
    splits: Annotated[
        Names, typer.Option(metavar="A,B", help="Splits of prompts.", show_default=", ".join(SPLITS))
    ] = None,
    judge: Annotated[
        Names,
        typer.Option(metavar="A,B", help="Judges; the first gives the headline.", show_default=", ".join(JUDGES)),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="K, answers per prompt.", show_default=str(SAMPLES))
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the study.", show_default="the first model's")] = None,
    into: Annotated[Path | None, typer.Option(metavar="FILE", help="Study file.", show_default="NAME.yaml")] = None,
    allow: Annotated[Names, typer.Option(metavar="NAME", help="Use an entry that is off by default.")] = None,
    revision: Annotated[str | None, typer.Option(metavar="SHA", help="Commit of a repository on the hub.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer, in tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=10, help="At which answers are drawn.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take the defaults.")] = False,
) -> None:
    """Write a study of your own model, which runs at once.

    A folder must hold config.json, a tokenizer and *.safetensors. A repository on the hub is pinned at today's commit.
    What the catalogue has is taken as it is there. On a terminal it asks for what you leave out. It writes NAME.yaml
    and, for what the catalogue lacks, NAME_entries.yaml, both into this folder, and overwrites nothing. Both are
    checked as a run checks them. Then it says what the study costs and how to run it.
    """
    asks = sys.stdin.isatty() and not yes
    catalogue = read_catalogue()
    study, files = chosen(
        *(catalogue, asks, model, against, splits, judge, samples, name, into),
        *(allow, revision, max_tokens, temperature),
    )
    config = write(study, files, catalogue)
    typer.echo(closing(study, files, config), nl=False)


def read_catalogue() -> Catalogue:
    """Return the entries that ship.

    Raises:
        ConfigError: if they have mistakes.
    """
    problems: list[Problem] = []
    shipped = shipped_files(str(ROOT))
    catalogue = Catalogue(shipped, len(shipped), problems)
    if problems:
        raise ConfigError(problems)
    return catalogue


def chosen(
    catalogue: Catalogue,
    asks: bool,
    model: Names,
    against: Names,
    splits: Names,
    judge: Names,
    samples: int | None,
    name: str | None,
    into: Path | None,
    allow: Names,
    revision: str | None,
    max_tokens: int | None,
    temperature: float | None,
) -> tuple[NewStudy, tuple[Path, Path]]:
    """Return what the user chose, asked for where that is possible, and the two files to be written.

    Raises:
        UserError: if something is missing or is not there, or a file is in the way.
    """
    cache = str(ROOT / ".cache")
    open_questions = asks and not model

    def places(words: Sequence[str]) -> list[ChosenModel]:
        return [place_of(word, catalogue, revision, cache) for word in words]

    if not model and not asks:
        raise UserError(f"`--model` is missing: {A_MODEL}, such as `refusal-eval new --model path/to/my-finetune`")
    first = places(model or ask_names(f"Model to measure ({A_MODEL})", []))
    if not first:
        raise UserError(f"no model is named: {A_MODEL}")
    second = places(
        against if against is not None else ask_names("Compare with (the same; Enter for none)", []) if asks else []
    )
    labels = {key: one.label or key for key, one in catalogue.valid["models"].items()}
    asked = {"max_tokens": max_tokens, "temperature": temperature}
    options = {key: value for key, value in asked.items() if value is not None}
    every = own_names([drawn_by(place, options, catalogue, labels) for place in (*first, *second)], labels)
    first, second = every[: len(first)], every[len(first) :]
    _refuse_twice(every)
    if asks and splits is None:
        for split in (*SPLITS, *PUBLIC):
            typer.echo(f"  {split:<20} {about_split(catalogue, split)}")
    of_splits = _listed(splits) or (ask_names("Splits", SPLITS) if asks else list(SPLITS))
    of_judges = _listed(judge) or (ask_names("Judges", list(JUDGES)) if asks else list(JUDGES))
    count = samples or (ask_number("Answers per prompt (K)", SAMPLES) if asks else SAMPLES)
    wanted = name or (ask_names("Name of the study", [study_name(every)])[0] if open_questions else study_name(every))
    _refuse_unknown(catalogue, of_splits, of_judges)
    file = (into or Path(f"{wanted}.yaml")).absolute()
    files = (file, file.with_name(f"{file.stem}_entries.yaml"))
    _refuse_places(wanted, files)
    off = reasons_off(catalogue, [*(p.like or p.name for p in every), *of_splits, *of_judges])
    allowed = [key for key, why in off.items() if key in _listed(allow) or (asks and ask_whether(f"{why} Use it?"))]
    if refused := [why for key, why in off.items() if key not in allowed]:
        raise UserError("\n".join(refused))
    own = {place.like: place.name for place in every if place.like}  # entries of their own, which are off as well
    allowed = [own.get(key, key) for key in allowed]
    study = NewStudy(
        *(wanted, first, second, of_splits, of_judges, GOLD, count, allowed, max_tokens, temperature),
        cpu_memory=main_memory()[0] if built_for(ROOT) == "cpu" else None,
        compares="comparisons" in fields_of(Study),
    )
    return study, files


def write(study: NewStudy, files: tuple[Path, Path], catalogue: Catalogue) -> dict[str, Any]:
    """Write the files of a study, and return its config, validated as for a run. A study that is not valid leaves none.

    Raises:
        ConfigError: if the study is not valid.
        UserError: if a file cannot be written.
    """
    file, entries_file = files
    entries = entries_text(study, file.name, reference_of(study, catalogue), file.parent)
    words = {
        "splits": {name: about_split(catalogue, name) for name in study.splits},
        "judges": {name: JUDGES.get(name) or catalogue.valid["judges"][name].label for name in study.judges},
        "gold": {name: catalogue.valid["gold"][name].description for name in study.gold},
    }
    texts = {file: study_text(study, entries_file.name if entries else None, words)}
    if entries:
        texts[entries_file] = entries
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with open(path, "x", encoding="utf-8") as handle:  # never over another file
                written.append(path)
                handle.write(text)
        return load_study(study_values(str(file)), str(file), str(ROOT), open_pins=True)
    except OSError as error:
        _remove(written)
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    except BaseException:
        _remove(written)
        raise


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def closing(study: NewStudy, files: tuple[Path, Path], config: Mapping[str, Any]) -> str:
    """Return what is said at the end: the files, what they cost, and the next commands."""
    file = shown_path(files[0])
    here = Path.cwd() == ROOT
    plan = plan_study(dict(config), files[0], ROOT, None)
    asked = plan.stages["asked"]
    work, costs = plan.batches, plan.engines
    kinds = {pace.kind for pace in plan.paces.values() if pace != ELSEWHERE}
    values = {
        "study": study,
        "files": [shown_path(path) for path in files if path.is_file()],
        "notes": [(place.word, place.note) for place in study.places if place.note] + other_draws(study, config),
        "prompts": int(asked["generate"] / study.samples / len(study.places)),
        "answers": int(asked["generate"]),
        "verdicts": int(asked["judge"]),
        "tokens": work["tokens_out"].sum(),
        "hours": costs["device_hours"].sum(),
        "most_hours": costs["most_device_hours"].sum(),
        "device": {"": None, "cpu": "of this machine's CPU", "cuda": "of a GPU"}.get("".join(kinds), "of the devices"),
        "activate": shutil.which("snakemake") is None,
        "root": None if here else str(ROOT),
        "file": shlex.quote(file if here else str(files[0])),
        "results": f"{config['results_dir']}/{study.name}/tables/refusal.md",
    }
    return render_template(Path(__file__).with_name("closing.txt.j2"), values, {"hours": _time})


def reference_of(study: NewStudy, catalogue: Catalogue) -> Reference | None:
    """Return the first of the catalogue's models in a study, those to compare with first."""
    for place in (*study.against, *study.models):
        if place.in_catalogue or place.like:
            name = place.like or place.name
            engine = catalogue.valid["engines"].get(catalogue.valid["models"][name].engine)
            return Reference(name, sampling_of(catalogue, name), getattr(engine, "max_model_len", None) or 0)
    return None


def sampling_of(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """Return how answers of a model of the catalogue are drawn, without what is left at its default."""
    sampling = catalogue.valid["models"][name].sampling
    return {"max_tokens": sampling.max_tokens, **sampling.model_dump(exclude_defaults=True)}


def drawn_by(
    place: ChosenModel, options: Mapping[str, Any], catalogue: Catalogue, labels: Mapping[str, str]
) -> ChosenModel:
    """Return a model that draws its answers as the options say: of a catalogue's model that does not, an entry like it.

    Otherwise a comparison would be one of answers of two lengths or temperatures.
    """
    if not place.in_catalogue:
        return place
    sampling = sampling_of(catalogue, place.name) | dict(options)
    if sampling == sampling_of(catalogue, place.name):
        return place
    note = f"`{place.name}` of the catalogue, with answers drawn as those of the others"
    return dataclasses.replace(
        *(place,),
        **{"in_catalogue": False, "like": place.name, "name": f"{place.name}-here", "label": labels[place.name]},
        **{"facts": ModelFacts(sampling=sampling), "note": note},
    )


def other_draws(study: NewStudy, config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the models whose answers are drawn otherwise than those of the first, and how."""
    first, *others = [(place.word, config["model_entries"][place.name]["sampling"]) for place in study.places]
    found = []
    for word, drawn in others:
        differs = [key for key in ("max_tokens", "temperature") if drawn[key] != first[1][key]]
        if differs:
            what = ", ".join(f"{key} {drawn[key]} instead of {first[1][key]}" for key in differs)
            found.append((word, f"answers are drawn otherwise than those of {first[0]} ({what}); {SAME_WAY}"))
    return found


def about_split(catalogue: Catalogue, name: str) -> str:
    """Return what a good model does with a split, how many prompts it has, and whether it is fetched."""
    split = catalogue.valid["splits"][name]
    count = split.expected_kept or (split.expected_rows if not split.where else None)
    parts = [EXPECTED.get(split.expectation, split.expectation), f"{count} prompts" if count else ""]
    parts.append("fetched" if split.source.fetched else "ships with refusal-eval")
    return ", ".join(filter(None, parts))


def reasons_off(catalogue: Catalogue, names: Sequence[str]) -> dict[str, str]:
    """Return the entries among these that are off by default, each with why, and how to use it all the same."""
    found = {}
    for section in ("models", "splits", "judges", "gold"):
        for name in names:
            entry: Any = catalogue.valid[section].get(name)
            held: Any = catalogue.valid["engines"].get(getattr(entry, "engine", None) or "", entry)
            if entry is not None and not getattr(held, "enabled", True):
                terms = f" (terms: {held.terms})" if held.terms else ""
                reason = f"`{name}` is off by default: {held.reason.rstrip('.')}{terms}."
                found[name] = f"{reason} To use it all the same, add `--allow {name}`."
    return found


def _listed(words: Names) -> list[str]:
    """Return the names of an option that may be repeated, and may list several with commas."""
    return [name for word in words or () for name in word.replace(",", " ").split()]


def _refuse_twice(places: Sequence[ChosenModel]) -> None:
    sources = [dict(place.weights) or place.like or place.name for place in places]
    for number, place in enumerate(places):
        if sources.index(sources[number]) != number:
            raise UserError(f"{place.word} is named twice")


def _refuse_unknown(catalogue: Catalogue, splits: Sequence[str], judges: Sequence[str]) -> None:
    for word, names in (("split", splits), ("judge", judges)):
        known = catalogue.valid[f"{word}s"]
        if unknown := [name for name in names if name not in known]:
            raise UserError(f"there is no {word} `{unknown[0]}` in the catalogue{nearest(unknown[0], known)}")


def _refuse_places(name: str, files: Sequence[Path]) -> None:
    if not re.fullmatch(SLUG, name):
        raise UserError(f"`--name {name}`: lower-case letters, digits, `.`, `_` and `-` make the name of a study")
    if files[0].suffix not in (".yaml", ".yml"):
        raise UserError(f"`--into {files[0].name}`: a study file ends in .yaml")
    if not files[0].parent.is_dir():
        raise UserError(f"there is no folder {files[0].parent}")
    for file in files:
        if os.path.lexists(file):
            raise UserError(f"{shown_path(file)} is there already, and is left as it is; give another `--name`")


def _time(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{max(1, round(60 * hours))} min"
