"""Two finished studies side by side: how their rates differ, and on which prompts their decisions changed most."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import yaml

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, read_jsonl, sha256_of_file
from refusal_eval.core.yaml_files import read_yaml
from refusal_eval.stats.comparisons.corrections import holm
from refusal_eval.stats.comparisons.paired import paired_differences, panel_of
from refusal_eval.stats.comparisons.study_comparisons import paired_flags
from refusal_eval.stats.estimates.samples import read_facts
from refusal_eval.stats.estimates.units import JudgedCell, Units, read_units


@dataclass(frozen=True)
class FinishedStudy:
    """The folder of a study with scores."""

    folder: Path  # where it is
    manifest: Mapping[str, Any]  # its manifest; without one, the values of config.yaml
    cells: Mapping[
        JudgedCell, Mapping[str, Any]
    ]  # its (judge, model, split), sorted, each with its facts (`units.Units`)

    @property
    def name(self) -> str:
        return str(self.manifest.get("study", {}).get("study", self.folder.name))

    def units(self, cell: JudgedCell) -> Units:
        return read_units(self.folder / "scores" / f"{'/'.join(cell)}.parquet")

    def cards(self) -> list[Mapping[str, Any]]:
        """Return the cards of its judges on its gold."""
        golds = self.manifest.get("study", {}).get("gold") or ()
        judges = sorted({judge for judge, _, _ in self.cells})
        files = [self.folder / "judge_cards" / judge / f"{gold}.json" for judge in judges for gold in golds]
        return [read_json(file) for file in files if file.is_file()]

    def prompts(self, split: str) -> dict[str, str]:
        """Return the last message of each prompt of a split by id; empty where its file is gone."""
        path = self.folder / "prompts" / f"{split}.jsonl"
        rows = read_jsonl(path) if path.is_file() else ()
        return {row["id"]: str(row["messages"][-1]["content"]) for row in rows if row.get("messages")}


def finished_study(folder: str | Path) -> FinishedStudy:
    """Return what a results folder holds.

    Raises:
        UserError: if it is no folder with scores, or if a run of its study began and did not end.
    """
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"there is no folder {path}; name the results of a finished study, such as results/demo")
    files = sorted(path.glob("scores/*/*/*.parquet"))
    if not files and any(path.glob("scores/*/*/*.json")):
        raise UserError(f"{path} was made by an earlier version; run its study again, which needs no GPU")
    if not files:
        raise UserError(f"{path} has no scores (scores/JUDGE/MODEL/SPLIT.parquet); name results of a finished study")
    manifest = _manifest(path)
    study = manifest.get("study", {})
    cells = {(file.parts[-3], file.parts[-2], file.stem): file for file in files}
    # What the study had once, and no longer has, still lies there.
    kinds = [study.get(kind) for kind in ("judges", "models", "splits")]
    own = [
        cell for cell in cells if all(names is None or name in names for name, names in zip(cell, kinds, strict=True))
    ]
    if not own:
        raise UserError(f"{path} has no scores of the models, splits and judges of its study; run the study again")
    _refuse_half_rerun(path, manifest.get("files") or {}, own)
    return FinishedStudy(path, manifest, {cell: read_facts(cells[cell]) for cell in own})


def _refuse_half_rerun(folder: Path, known: Mapping[str, str], cells: Collection[JudgedCell]) -> None:
    """Raise `UserError` if prompts, answers or verdicts of these cells are not those that the manifest has hashes of.

    A run that was stopped leaves scores of two versions of a study; the manifest is written at its end.
    """
    names = {f"answers/{model}/{split}.jsonl" for _, model, split in cells}
    names |= {f"verdicts/{'/'.join(cell)}.jsonl" for cell in cells}
    names |= {f"prompts/{split}.jsonl" for _, _, split in cells}
    judges = {judge for judge, _, _ in cells}  # whose cards are shown
    names |= {name for name in known if (of := PurePosixPath(name).parts)[0] == "verdicts" and of[1] in judges}
    for name in sorted(names & known.keys()):
        path = folder / name
        if path.is_file() and sha256_of_file(path) != known[name]:
            raise UserError(
                f"{path} is not the one that {folder / 'manifest.json'} tells of: the study was run again, but not to "
                "its end; run it to its end first"
            )


def _manifest(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of a results folder, or what its config.yaml says instead."""
    config, manifest = folder / "config.yaml", folder / "manifest.json"
    if manifest.is_file() or not config.is_file():
        return dict(read_json(manifest)) if manifest.is_file() else {}
    try:
        return {"study": read_yaml(config)}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{config} cannot be read as YAML: {error}") from error


def cell_differences(first: FinishedStudy, second: FinishedStudy, level: float) -> list[dict[str, Any]]:
    """Return a row for each cell that both studies have, sorted: second less first on the prompts that they share.

    The reading is the first study's headline. A row has `judge`, `model`, `split`, `reading`, `samples_first` and
    `samples_second` (K), what `paired.Paired` and `paired_flags` have, `p_holm` over all cells of a judge,
    `only_first`/`only_second` (prompts that one study lacks) and `changed` (prompts with another rate).
    """
    rows: list[dict[str, Any]] = []
    for cell in sorted(set(first.cells) & set(second.cells)):
        units = [study.units(cell) for study in (first, second)]
        frames = [own.frame for own in units]
        reading = first.cells[cell]["headline"]
        shared = frames[0].index.intersection(frames[1].index)
        panel = panel_of({cell[2]: [frame.loc[shared] for frame in frames]}, {cell[2]: reading})
        result = paired_differences(panel, [(1, 0)], ["studies, " + ", ".join(cell), "first", "second"], level)[0]
        changed = np.abs(panel.rates[:, 1] - panel.rates[:, 0]) > 0
        row = dict(zip(("judge", "model", "split"), cell, strict=True)) | dataclasses.asdict(result)
        row |= paired_flags([units[0].marks(reading)], [units[1].marks(reading)], result)
        # The difference is the second less the first; the sides are those of the command.
        row |= {"rate_first": result.rate_second, "rate_second": result.rate_first, "reading": reading}
        for side, study, frame in (("first", first, frames[0]), ("second", second, frames[1])):
            row |= {f"samples_{side}": study.cells[cell]["samples"], f"only_{side}": len(frame) - len(shared)}
        rows.append(row | {"changed": int(changed.sum())})
    for judge in {row["judge"] for row in rows}:
        own = [row for row in rows if row["judge"] == judge]
        for row, corrected in zip(own, holm([row["p"] for row in own]), strict=True):
            row["p_holm"] = corrected
    return rows


def most_changed(
    first: FinishedStudy, second: FinishedStudy, cells: Iterable[JudgedCell], number: int
) -> list[dict[str, Any]]:
    """Return the turns of some cells whose rate changed most, the largest change first.

    A row has `judge`, `model`, `split`, `prompt_id`, `turn`, the rates `first` and `second`, and the prompt's `text`.
    """
    frames = {}
    for cell in sorted(cells):
        rates = [study.units(cell).frame[f"rate_{first.cells[cell]['headline']}"] for study in (first, second)]
        both = pd.concat(rates, axis=1, join="inner", keys=["first", "second"]).dropna()
        frames[cell] = both[both["first"] != both["second"]]
    place = ["judge", "model", "split"]
    changed = pd.concat(frames, names=place).reset_index()
    changed["size"] = -(changed["second"] - changed["first"]).abs()
    changed = changed.sort_values(["size", *place, "prompt_id", "turn"]).head(number)
    texts = {split: second.prompts(split) for split in changed["split"].unique()}
    rows: list[Any] = changed.to_dict("records")
    return [row | {"text": texts[row["split"]].get(row["prompt_id"], "")} for row in rows]


def labels_of(studies: Sequence[FinishedStudy]) -> dict[str, dict[str, str]]:
    """Return labels as `display.Labels` takes them; those of the last study that has one count."""
    labels: dict[str, dict[str, str]] = {"models": {}, "splits": {}, "judges": {}, "golds": {}}
    for study in studies:
        for kind, found in labels.items():
            entries = study.manifest.get("study", {}).get(f"{kind.removesuffix('s')}_entries") or {}
            found |= {name: str(entry.get("label") or name) for name, entry in entries.items()}
    return labels
