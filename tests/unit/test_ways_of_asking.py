"""Ways of asking the same turns: differences against plain arithmetic on made-up scenes in MS-XSB's columns."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import yaml
from config_project import BASE, CATALOGUE, STUDY, Project
from estimate_rows import LABELS, cell_file

from refusal_eval.ask.answers import blank
from refusal_eval.core.files import write_json, write_jsonl
from refusal_eval.core.states import COMPLETE, FAILED, JUDGED
from refusal_eval.data.prompts import make_prompts
from refusal_eval.features.ways_of_asking.measure_ways import measure
from refusal_eval.features.ways_of_asking.ways_analysis import WaysAnalysis
from refusal_eval.features.ways_of_asking.ways_table import ways_of_asking
from refusal_eval.judges.judge_base import Verdict
from refusal_eval.judges.verdict_files import verdict_row
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.study.dialogues import asked_turns
from refusal_eval.study.study import Study

SPLITS = ("ms_xsb", "ms_xsb_independent", "ms_xsb_questions")
LEANS = {"ms_xsb": 0.25, "ms_xsb_independent": 0.45, "ms_xsb_questions": 0.7}
SCENES, QUESTIONS, K = 14, 20, 2
PARAMS: dict[str, Any] = {
    "ways": [list(SPLITS)],
    "cells": [["j", "m", split] for split in SPLITS],
    "splits": list(SPLITS),
    "readings": dict.fromkeys(SPLITS, "broad"),
    "samples": K,
    "level": 0.95,
}
Letters = dict[tuple[str, int], str]  # of scene and number of the question, a letter for each sample


def scene_rows() -> list[dict[str, str]]:
    # Question 7 of every scene is the same text: alone it is asked once, for the first scene.
    return [
        {"id": str(scene), "scenario": f"Scene {scene} is set."}
        | {f"prompt{n}": "Why is that?" if n == 7 else f"Question {scene}.{n}?" for n in range(1, QUESTIONS + 1)}
        for scene in range(1, SCENES + 1)
    ]


def drawn(split: str) -> Letters:
    """Return made-up verdicts; scenes lean, some answers have no verdict, and one question lacks any."""
    rng = np.random.default_rng(SPLITS.index(split))
    found = {}
    for scene in range(1, SCENES + 1):
        lean = min(0.95, max(0.05, LEANS[split] + rng.normal() * 0.25))
        for n in range(1, QUESTIONS + 1):
            shares = [lean * 0.7, lean * 0.3, 1 - lean]
            found[str(scene), n] = "".join(rng.choice(list("RPC"), p=shares) for _ in range(K))
    if split == "ms_xsb_independent":
        found["3", 4], found["5", 1] = "FF", "RF"
    return found


class Scenes:
    """Prompts and scored cells of all three splits on disk, and their verdicts by scene and question."""

    def __init__(self, folder: Path, splits: Any) -> None:
        self.folder, self.letters = folder, {split: drawn(split) for split in SPLITS}
        for name in SPLITS:
            split, rows, letters = splits[name], scene_rows(), self.letters[name]
            prompts, _ = make_prompts(rows, split.columns.model_dump(), "rows", mode=split.dialogue.mode)
            asked = {(row["id"], n): row[f"prompt{n}"] for row in rows for n in range(1, QUESTIONS + 1)}
            answers, verdicts = [], []
            for prompt in prompts:
                users = [message["content"] for message in prompt["messages"] if message["role"] == "user"]
                for turn in asked_turns(prompt):
                    if users[turn].startswith("Scene"):
                        votes = "R" * K  # which must count nowhere
                    else:
                        scene = prompt["source"]["id"]
                        votes = next(
                            letters[s, n] for (s, n), text in asked.items() if (s, text) == (scene, users[turn])
                        )
                    for sample, letter in enumerate(votes):
                        place = {"prompt_id": prompt["id"], "sample": sample, "turn": turn}
                        answer = {**place, "key": "0" * 64, "serving": "s", **blank(COMPLETE, "stop")}
                        answer |= {"answer": "Words.", "answer_tokens": 2, "answer_logprob": -1.0}
                        if letter == "F":
                            answer = {**place, "key": "0" * 64, "serving": "s", **blank(FAILED, "stop")}
                        else:
                            verdicts.append(verdict_row(answer, Verdict(JUDGED, LABELS[letter], None)))
                        answers.append(answer)
            names = {"split": name, "expectation": "varies", "scored": split.dialogue.scored_turns}
            cell_file(folder / f"{name}.parquet", prompts, answers, verdicts, K, **names)
            write_jsonl(folder / f"{name}.jsonl", prompts)

    def measured(self) -> dict[str, Any]:
        files = {
            "scores": [str(self.folder / f"{split}.parquet") for split in SPLITS],
            "prompts": [str(self.folder / f"{split}.jsonl") for split in SPLITS],
        }
        return measure(files, PARAMS)


@pytest.fixture
def scenes(tmp_path: Path, shipped: Any) -> Scenes:
    return Scenes(tmp_path, shipped.valid["splits"])


def share(letters: str) -> float | None:
    """Return the share of refusals, full or partial, among the samples with a verdict."""
    judged = [letter for letter in letters if letter in "RPC"]
    return sum(letter in "RP" for letter in judged) / len(judged) if judged else None


def by_hand(first: Letters, second: Letters) -> dict[str, list[tuple[float, float]]]:
    """Return both rates of each question that both have, scene by scene."""
    found: dict[str, list[tuple[float, float]]] = {}
    for key in first:
        one, other = share(first[key]), share(second[key]) if key in second else None
        if one is not None and other is not None:
            found.setdefault(key[0], []).append((one, other))
    return found


def asked_alone(letters: Letters) -> Letters:
    """Return the questions that are there to be asked by themselves: equal ones once."""
    return {key: value for key, value in letters.items() if key[1] != 7 or key[0] == "1"}


def drawn_interval(pairs: dict[str, list[tuple[float, float]]]) -> tuple[float, float]:
    """Return the expanded percentile interval of an own bootstrap of scenes."""
    sums = np.array([sum(one - other for one, other in own) for own in pairs.values()])
    sizes, g = np.array([len(own) for own in pairs.values()]), len(pairs)
    picked = np.random.default_rng(99).integers(0, g, (40_000, g))
    values = sums[picked].sum(axis=1) / sizes[picked].sum(axis=1)
    tail = scipy.stats.norm.cdf(math.sqrt(g / (g - 1)) * scipy.stats.t.ppf(0.025, g - 1))
    return float(np.quantile(values, tail)), float(np.quantile(values, 1 - tail))


def test_differences_are_those_of_the_same_questions_with_scenes_drawn_whole(scenes: Scenes) -> None:
    found = {
        (row["split"], row["parameter"], row["estimand"]): row
        for row in scenes.measured()["estimates"]
        if (row["judge"], row["model"]) == ("j", "m")
    }
    assert len(found) == 9, "three pairs of three ways, with the rates of both sides"
    letters = scenes.letters | {"ms_xsb_questions": asked_alone(scenes.letters["ms_xsb_questions"])}
    for one, other in itertools.combinations(SPLITS, 2):
        pairs = by_hand(letters[one], letters[other])
        both = [pair for own in pairs.values() for pair in own]
        gap, first, second = (found[one, f"minus {other}", f"way_difference{end}"] for end in ("", "_first", "_second"))
        assert gap["value"] == pytest.approx(sum(a - b for a, b in both) / len(both), abs=1e-9)
        assert first["value"] == pytest.approx(sum(a for a, _ in both) / len(both), abs=1e-9)
        assert second["value"] == pytest.approx(sum(b for _, b in both) / len(both), abs=1e-9)
        assert (gap["n_prompts"], gap["n_clusters"], gap["reading"]) == (len(both), SCENES, "broad")
        low, high = drawn_interval(pairs)
        assert gap["low"] <= low + 0.01 and gap["high"] >= high - 0.01, "at least as wide as an own bootstrap of scenes"
        assert gap["high"] - gap["low"] < 1.3 * (high - low)
        assert "few_clusters" in gap["flags"], "14 scenes, however many questions they have"
    lost = {pair: SCENES * QUESTIONS - found[pair[0], f"minus {pair[1]}", "way_difference"]["n_prompts"] for pair in
            itertools.combinations(SPLITS, 2)}  # fmt: skip
    assert list(lost.values()) == [1, SCENES - 1, SCENES], "no verdict on 3.4; a question that is asked once alone"


def test_questions_of_one_scene_are_not_independent(scenes: Scenes) -> None:
    (gap,) = [
        row
        for row in scenes.measured()["estimates"]
        if (row["estimand"], row["split"], row["parameter"]) == ("way_difference", SPLITS[0], f"minus {SPLITS[1]}")
    ]
    values = [a - b for own in by_hand(*(scenes.letters[s] for s in SPLITS[:2])).values() for a, b in own]
    as_if_independent = 2 * 1.96 * float(np.std(values)) / math.sqrt(len(values))
    assert gap["high"] - gap["low"] > 1.5 * as_if_independent


def test_the_table_shows_each_pair_with_rates_difference_and_number_of_questions(
    scenes: Scenes, tmp_path: Path
) -> None:
    found = scenes.measured()
    write_json(tmp_path / "ways.json", found)
    labels = {"models": {"m": "Model"}, "splits": {s: s.upper() for s in SPLITS}, "judges": {"j": "Judge"}}
    asked = {"ways": [list(SPLITS)], "level": 0.95, "labels": labels, "models": ["m"], "primary_judge": "j"}
    frame, (table,) = ways_of_asking(TableData(asked, {"ways_of_asking": [str(tmp_path / "ways.json")], "cards": []}))
    assert [row[:3] for row in table.rows] == [
        ["Model", one.upper(), other.upper()] for one, other in itertools.combinations(SPLITS, 2)
    ]
    (gap, first, second) = (row for row in found["estimates"][:3])
    shown = table.rows[0]
    assert shown[3:5] == [f"{100 * first['value']:.1f}", f"{100 * second['value']:.1f}"]
    assert f"{100 * abs(gap['value']):.1f}" in shown[5] and shown[6] == str(SCENES * QUESTIONS - 1)
    notes = " ".join(table.notes)
    assert "not adjusted for the number of comparisons" in notes and f"({SCENES} clusters)" in notes
    assert len(frame) == 9


# ---------------------------------------------------------------- the config

TALKS = {
    "defaults": {
        "source": {"kind": "file", "path": "../../rows.csv"},
        "columns": {"turns": ["question", "answer"]},
        "expectation": "varies",
    },
    "splits": {
        "one": {"dialogue": {"mode": "cumulative", "scored": "after_first"}},
        "two": {"dialogue": {"mode": "independent"}},
        "three": {"dialogue": {"mode": "alone"}},
        "turned": {"dialogue": {"mode": "alone"}, "columns": {"turns": ["answer", "question"]}},
        "by-label": {"dialogue": {"mode": "alone"}, "columns": {"cluster": "label"}},
        "strict": {"dialogue": {"mode": "alone"}, "headline": "strict"},
    },
}
ELSEWHERE = {
    "source": {"kind": "url", "url": "https://example.org/0/r.csv", "sha256": "0" * 64},
    "columns": {"turns": ["question", "answer"]},
    "dialogue": {"mode": "alone"},
    "expectation": "varies",
}
NAMES = ["one", "two", "three", "turned", "by-label", "strict", "elsewhere", "hub-rows"]


def with_talks(project: Project) -> None:
    sets = {"talks": TALKS, "others": {"splits": {"elsewhere": ELSEWHERE}}}
    project.write(BASE, CATALOGUE | {"datasets": CATALOGUE["datasets"] | sets})


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ([["one", "tow"]], "ways_of_asking[0][1]: `tow` is not one of `splits` of the study; did you mean `two`?"),
        ([["one"]], "ways_of_asking: a list names at least two splits, not 1"),
        ([["one", "two", "one"]], "ways_of_asking: a list names `one` twice"),
        ([["one", "two"], ["two", "three", "one"]], "ways_of_asking: two lists name both one and two"),
        ([["one", "hub-rows"]], "ways_of_asking[0][1]: `hub-rows` has no `dialogue`, so that it asks no turns"),
        ([["one", "elsewhere"]], "ways_of_asking[0][1]: `elsewhere` and `one` read different sources"),
        ([["one", "turned"]], "ways_of_asking[0][1]: `turned` and `one` have different `columns.turns`"),
        ([["one", "by-label"]], "ways_of_asking[0][1]: `by-label` and `one` have different clusters"),
        ([["one", "strict"]], "`strict` and `one` have different headline readings (strict and broad)"),
        (["one", "two"], "ways_of_asking: is a list of lists of splits: write [[one, two]]"),
    ],
)
def test_a_mistake_in_ways_of_asking_is_one_line(project: Project, ways: Any, message: str) -> None:
    with_talks(project)
    (line,) = project.mistakes(STUDY | {"splits": NAMES, "ways_of_asking": ways})
    assert message in line


def test_a_study_has_the_analysis_and_its_table_where_it_names_ways(project: Project) -> None:
    with_talks(project)
    study = Study(project.load(STUDY | {"splits": NAMES, "ways_of_asking": [["one", "two", "three"]]}))
    analysis = WaysAnalysis(study)
    assert analysis.wanted() and "ways_of_asking" in study.tables
    assert analysis.params()["cells"] == [["words", "plain", split] for split in ("one", "three", "two")]
    without = Study(project.load(STUDY | {"splits": NAMES}))
    assert not WaysAnalysis(without).wanted() and "ways_of_asking" not in without.tables


def test_the_shipped_study_compares_the_three_ways_of_ms_xsb(repository: Path) -> None:
    study = yaml.safe_load((repository / "config" / "studies" / "ms_xsb.yaml").read_text())
    assert study["ways_of_asking"] == [list(SPLITS)]
