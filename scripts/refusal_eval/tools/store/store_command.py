"""Everything in the store, how much of it no study asks for, and the removal of that."""

import os
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from refusal_eval.ask.store_index import FileIndex
from refusal_eval.core.errors import UserError
from refusal_eval.tools.store.store_studies import (
    Asks,
    StudyFile,
    engine_names,
    planned_rendering,
    read_asks,
    read_study,
    recorded_studies,
    same_folder,
    study_files,
)
from refusal_eval.tools.store.store_usage import (
    EngineUsage,
    bytes_on_disk,
    links,
    prune_file,
    store_indexes,
    store_usage,
)
from refusal_eval.tools.study_file import ROOT

WIDTH = 120


def command(
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="STUDY.yaml", help="The studies.", show_default="all known")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The store.", show_default="the `store_dir` of the studies"),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Show what no study uses and could be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --prune: remove it.")] = False,
) -> None:
    """Show what the store holds, and how much of it no study uses; with --prune and --yes, remove that part.

    A study asks for what is in the request files of its cells. The studies are those that have results here: study
    files in config/, and others (their results say where their study file lies). Without --yes nothing is ever changed.
    """
    if yes and not prune:
        raise typer.BadParameter("--yes goes with --prune")
    if code := run(studies or [], store, prune, yes):
        raise typer.Exit(code)


def run(named: Sequence[str], folder: str | None, pruning: bool, yes: bool) -> int:
    """Print what the store holds and, if `pruning`, what can be removed; return the exit code.

    Raises:
        UserError: if there is no such store, or it is not known what all studies ask for.
    """
    studies = [read_study(file, ROOT) for file in named or study_files(ROOT / "config")]
    store = folder or common_store(studies)
    waiting: list[StudyFile] = []
    if not named:
        # What never ran has paid for nothing; of the studies that ship, few are ever run, and some need data first.
        beside = [file for _, file in recorded_studies(studies, store) if os.path.isfile(file)]
        waiting = [study for study in studies if not study.has_run]
        studies = [study for study in studies if study.has_run]
        studies += [read_study(file, ROOT) for file in dict.fromkeys(beside)]
    if not os.path.isdir(store):
        if folder:
            raise UserError(f"there is no folder {store}")
        say(f"There is no store at {store} yet: nothing was generated.")
        return 0
    indexes = store_indexes(Path(store))  # first: see there
    asks = {
        study.path: read_asks(study.config) for study in studies if study.config and same_folder(study.store, store)
    }
    asked: dict[str, set[str]] = defaultdict(set)
    for one in asks.values():
        for engine_id, keys in one.keys.items():
            asked[engine_id] |= keys
    usage = store_usage(indexes, asked)
    unknown: set[str] = set().union(*(one.unknown for one in asks.values()))
    unseen = unseen_studies([*studies, *waiting], store)
    gaps = what_is_not_known(studies, asks, unseen)
    show_engines(store, usage, described_engines(studies, asks.values()))
    show_studies([*studies, *waiting], asks, unseen, {study.path for study in waiting})
    show_unasked(usage, unknown, complete=not gaps)
    if pruning:
        if gaps := gaps or out_of_date(asks):
            raise UserError("\n  - ".join(["nothing is removed, for it is not known what all studies ask for:", *gaps]))
        return prune(usage, unknown, asked, yes)
    return 0


def common_store(studies: Sequence[StudyFile]) -> str:
    """Return the store of the studies.

    Raises:
        UserError: if they have none, or different ones.
    """
    stores = {os.path.realpath(study.store): study.store for study in studies if study.store}
    if len(stores) == 1:
        return next(iter(stores.values()))
    if stores:
        raise UserError(f"the studies have different stores ({', '.join(stores.values())}); choose one with --store")
    mistakes = "".join(f"\n{study.mistake}" for study in studies)
    raise UserError(f"no valid study file says where the store is; name it with --store{mistakes}")


def unseen_studies(studies: Sequence[StudyFile], store: str) -> list[str]:
    """Return a sentence about each study that has results here and is not among those looked at."""
    sentences = []
    for folder, file in recorded_studies(studies, store):
        there = os.path.isfile(file)
        what = f"{os.path.relpath(file)}, which was not looked at" if there else f"{file}, which is gone"
        what = what if file else "a study that no study.json tells"
        means = f"delete {folder} if it is not needed"
        if there or not file:
            means = f"name it on the command line or delete {folder}"
        sentences.append(f"{folder} holds results of {what}: what they ask for is not known; {means}")
    return sentences


# --- What is shown -------------------------------------------------------------------------------------------------


def show_engines(store: str, usage: Sequence[EngineUsage], names: Mapping[str, str]) -> None:
    """Print a row per engine, and what the engine is below it."""
    say(f"Store: {store}, {bytes_on_disk(Path(store)):,} bytes on disk")
    for link in links(Path(store)):
        say(f"{link} is a link: it is not followed", indent=2)
    row = "{:16} {:>11,} {:>11,} {:>11,} {:>17,} {:>6,}  {:16}  {:16}"
    head = ("engine", "responses", "distinct", "duplicates", "bytes", "files", "first (UTC)", "last (UTC)")
    print("\n" + row.replace(",", "").format(*head).rstrip())
    counts = [(one.responses, one.distinct, one.responses - one.distinct, one.bytes, len(one.files)) for one in usage]
    for one, numbers in zip(usage, counts, strict=True):
        times = (time[:16].replace("T", " ") for time in (one.first, one.last))
        print(row.format(one.engine_id, *numbers, *times).rstrip())
        say(names.get(one.engine_id, "of no study that was looked at"), indent=2)
    if len(usage) > 1:
        print(row.format("all", *map(sum, zip(*counts, strict=True)), "", "").rstrip())


def show_studies(
    studies: Sequence[StudyFile], asks: Mapping[str, Asks], unseen: Sequence[str], waiting: Collection[str]
) -> None:
    """Print a line per study: how many requests it has, or why that is not known."""
    print("\nStudies")
    for study in studies:
        if study.path in waiting:
            what = "has no results here and is not counted; name it on the command line if it is to be"
            say(f"{study.path}: {what}", indent=2)
        elif study.config is None:
            say(f"{study.path}: not valid, what it asks for is not known. {study.mistake}", indent=2)
        elif (one := asks.get(study.path)) is None:
            say(f"{study.path}: skipped, its store is another one ({study.store})", indent=2)
        else:
            rest = "; what the others ask for is not known" if one.rendered < one.cells else ""
            what = f"{one.rendered:,} of {one.cells:,} cells rendered, {one.requests:,} different requests{rest}"
            say(f"{study.path}: {what}", indent=2)
    for sentence in unseen:
        say(sentence, indent=2)


def show_unasked(usage: Sequence[EngineUsage], unknown: Collection[str], complete: bool) -> None:
    """Print how many responses no study asks for."""
    print("\nResponses that none of these studies asks for" + ("" if complete else ", as far as that is known"))
    for one in usage:
        if one.engine_id in unknown:
            print(f"  {one.engine_id:16} cannot tell: it was asked turn by turn, and its tokenizer is not there")
        else:
            print(f"  {one.engine_id:16} {one.unasked:>11,} of {one.responses:,}, {one.unasked_bytes:,} bytes")


def described_engines(studies: Sequence[StudyFile], asks: Iterable[Asks]) -> dict[str, str]:
    """Return names, weights and whatever else identifies an engine, by engine id."""
    known: dict[str, tuple[set[str], dict[str, Any]]] = engine_names(studies)
    for one in asks:
        for engine_id, identity in one.identities.items():
            known.setdefault(engine_id, (set(), identity))
    return {engine: described(sorted(names), identity) for engine, (names, identity) in known.items()}


def described(names: Sequence[str], identity: Mapping[str, Any]) -> str:
    """Return one line about an engine, such as `smollm2-135m: gguf_sha256 b179c952, dtype bfloat16`."""
    parts = {**identity.get("weights", {}), **{key: value for key, value in identity.items() if key != "weights"}}
    short = {key: value[:8] if key.endswith("sha256") or key == "commit" else value for key, value in parts.items()}
    return f"{', '.join(names) or 'without a name'}: " + ", ".join(f"{key} {value}" for key, value in short.items())


# --- Pruning -------------------------------------------------------------------------------------------------------


def what_is_not_known(studies: Sequence[StudyFile], asks: Mapping[str, Asks], unseen: Sequence[str]) -> list[str]:
    """Return why it is not known what all studies ask for, and what to do; empty when it is known."""
    gaps = [f"{study.path} is not valid" for study in studies if study.config is None] + list(unseen)
    if not asks:
        gaps.append("none of the studies has this store; to remove all of it, delete the folder")
    for path, one in asks.items():
        if one.rendered < one.cells:
            todo = f"run `{snakemake(path)}`, or name all other studies on the command line"
            gaps.append(f"{path}: only {one.rendered:,} of {one.cells:,} cells are rendered; {todo}")
    return gaps


def out_of_date(asks: Mapping[str, Asks]) -> list[str]:
    """Return the studies whose request files Snakemake would write anew, and what to do. It takes seconds for each."""
    counts = {path: planned_rendering(path, ROOT) for path in asks}
    why = "request files would be written anew, for what they are made from has changed"
    return [f"{path}: {count:,} {why}; run `{snakemake(path)}` first" for path, count in counts.items() if count]


def prune(usage: Sequence[EngineUsage], unknown: Collection[str], asked: Mapping[str, set[str]], yes: bool) -> int:
    """Print what can be removed, and remove it if `yes`; return the exit code."""
    print("\nTo be removed")
    doomed: list[tuple[str, FileIndex]] = []
    for engine in usage:
        files = [file for file in engine.files if file.unasked and engine.engine_id not in unknown]
        for file in files:
            if file.written:
                say(f"{file.index.path} is left alone: {file.written}", indent=2)
        if files := [file for file in files if not file.written]:
            responses, size = sum(file.unasked for file in files), sum(file.unasked_bytes for file in files)
            print(f"  {engine.engine_id:16} {responses:>11,} responses in {len(files):,} files, {size:,} bytes")
        doomed += [(engine.engine_id, file.index) for file in files]
    if not doomed:
        print("  nothing")
    if not yes:
        if doomed:
            say(
                "Nothing was removed yet: --yes does it. Not known is whether studies that are not named above ask "
                "for it:\nthose of other people, and those in other copies of this project."
            )
        return 0
    removed, code = 0, 0
    for engine_id, index in doomed:
        try:
            removed += prune_file(index, asked.get(engine_id, set()))
        except UserError as error:
            say(str(error), indent=2)
            code = 1
    print(f"Removed {removed:,} responses.")
    return code


# --- Text ----------------------------------------------------------------------------------------------------------


def snakemake(study_file: str) -> str:
    """Return the command that runs a study."""
    return f"snakemake --cores all --configfile {study_file}"


def say(text: str, indent: int = 0) -> None:
    """Print text in lines of at most 120 characters, where its words allow that."""
    for line in text.splitlines():
        start = " " * (indent + len(line) - len(line.lstrip()))
        words = textwrap.TextWrapper(WIDTH, start, start + "  ", break_long_words=False, break_on_hyphens=False)
        print(words.fill(line.strip()))
