"""Choices of a configuration: removal, shift and what is chosen, against plain arithmetic on made-up answers."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
from config_project import STUDY, Project
from estimate_rows import cell_file, rows_of

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_json
from refusal_eval.features.choices.choices_analysis import ChoicesAnalysis
from refusal_eval.features.choices.choices_table import choices as table
from refusal_eval.features.choices.make_choices import best, cells_read, measure
from refusal_eval.report.paper.table_data import TableData
from refusal_eval.study.study import Study

REFUSALS, OTHERS, MODELS = 24, 20, ("weak", "strong", "wild")
LETTERS = {"plain": "RRR", "weak": "RRC", "strong": "RCC", "wild": "CCC"}
SHIFTS = {"plain": 0.0, "weak": -0.05, "strong": 0.1, "wild": -0.9}
CHOICE: dict[str, Any] = {"name": "one", "against": "plain", "models": list(MODELS), "refusals": ["bad"]}
CHOICE |= {"others": ["good"], "tau": 0.3, "judge": "j", "seed": 0}
PARAMS: dict[str, Any] = {"choices": [CHOICE], "sources": {"bad": "a", "good": "b"}, "samples": 3, "level": 0.95}


class Cells:
    """Scored cells on disk, and c(x) and the mean log-probability of each prompt in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.c: dict[tuple[str, str], dict[str, float]] = {}
        self.logprob: dict[tuple[str, str], dict[str, float]] = {}
        rng = np.random.default_rng(0)
        for model in LETTERS:
            for split, count in (("bad", REFUSALS), ("good", OTHERS)):
                self.add(model, split, [f"{split}{n:02d}" for n in range(count)], rng)

    def add(self, model: str, split: str, names: list[str], rng: np.random.Generator) -> None:
        letters = LETTERS[model] if split == "bad" else "CCC"
        votes = {(name, 0): letters if n % 6 else "CCC" for n, name in enumerate(names)}
        logprobs = {
            (name, sample): -1.0 + SHIFTS[model] + 0.02 * float(rng.normal()) for name in names for sample in range(3)
        }
        clusters = {name: f"{split}-cluster{n // 2}" for n, name in enumerate(names)}
        cell_file(self.path(model, split), *rows_of(votes, clusters=clusters, logprobs=logprobs), 3)
        self.c[model, split] = {}
        self.logprob[model, split] = {}
        for name in names:
            own = np.array([logprobs[name, sample] for sample in range(3)])
            weights = np.exp(own) / np.exp(own).sum()
            signs = np.array([{"R": 1, "C": -1}[letter] for letter in votes[name, 0]])
            self.c[model, split][name] = float(weights @ signs)
            self.logprob[model, split][name] = float(own.mean())

    def path(self, model: str, split: str) -> Path:
        return self.folder / f"{model}-{split}.parquet"

    def measured(self, **choice: Any) -> dict[str, Any]:
        params = PARAMS | {"choices": [CHOICE | choice]}
        return measure({"scores": [str(self.path(model, split)) for _, model, split in cells_read(params)]}, params)


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    return Cells(tmp_path)


def rows(found: dict[str, Any], estimand: str, half: str = "choosing") -> dict[str, dict[str, Any]]:
    return {
        row["model"]: row
        for row in found["estimates"]
        if (row["estimand"], row["parameter"]) == (estimand, f"one: {half} half")
    }


def halves(cells: Cells, found: dict[str, Any], split: str) -> list[list[str]]:
    """Return the prompts of both halves: by the sizes that are reported, and by what must add up to the whole."""
    from refusal_eval.features.choices.make_choices import choosing_half
    from refusal_eval.stats.estimates.units import read_units

    units = {("j", "plain", name): read_units(cells.path("plain", name)) for name in ("bad", "good")}
    inside = choosing_half(CHOICE, units)
    names = list(cells.c["plain", split])
    clusters = {name: f"{split}-cluster{n // 2}" for n, name in enumerate(names)}
    return [[name for name in names if (clusters[name] in inside) == half] for half in (True, False)]


def test_removal_and_shift_are_means_of_differences_of_each_prompt_on_its_half(cells: Cells) -> None:
    found = cells.measured()
    for half, number in (("choosing", 0), ("reporting", 1)):
        bad, good = (halves(cells, found, split)[number] for split in ("bad", "good"))
        removal, shift = rows(found, "choice_removal", half), rows(found, "choice_shift", half)
        for model in removal:
            fell = [cells.c["plain", "bad"][name] - cells.c[model, "bad"][name] for name in bad]
            moved = [abs(cells.logprob["plain", "good"][n] - cells.logprob[model, "good"][n]) for n in good]
            assert removal[model]["value"] == pytest.approx(math.fsum(fell) / len(fell), abs=1e-9)
            assert shift[model]["value"] == pytest.approx(math.fsum(moved) / len(moved), abs=1e-9)
            assert (removal[model]["n_prompts"], shift[model]["n_prompts"]) == (len(bad), len(good))
            assert removal[model]["low"] < removal[model]["value"] < removal[model]["high"]
    assert set(rows(found, "choice_removal")) == set(MODELS)


def test_the_halves_are_whole_clusters_and_share_none(cells: Cells) -> None:
    found = cells.measured()
    for split, count in (("bad", REFUSALS), ("good", OTHERS)):
        one, other = halves(cells, found, split)
        assert len(one) + len(other) == count and abs(len(one) - len(other)) <= 2
        pairs = [{int(name[-2:]) // 2 for name in half} for half in (one, other)]
        assert not pairs[0] & pairs[1]


def test_the_smallest_shift_among_removals_of_at_least_tau_is_chosen_and_it_alone_reported(cells: Cells) -> None:
    found = cells.measured()
    removal, shift = rows(found, "choice_removal"), rows(found, "choice_shift")
    fell, moved = ([table[model]["value"] for model in MODELS] for table in (removal, shift))
    assert fell[0] < fell[1] < fell[2] and moved[0] < moved[1] < moved[2], "the more it removes the more it changes"
    assert found["chosen"] == {"one": "weak"}
    assert {model for model, row in rows(found, "choice_made").items() if row["value"]} == {"weak"}
    assert set(rows(found, "choice_removal", "reporting")) == {"weak"} == set(rows(found, "choice_shift", "reporting"))
    for tau, chosen in ((fell[0], "weak"), (fell[0] + 1e-9, "strong"), (fell[2], "wild")):
        assert cells.measured(tau=tau)["chosen"] == {"one": chosen}
    none = cells.measured(tau=2.0)
    assert none["chosen"] == {"one": None} and not rows(none, "choice_removal", "reporting")


def test_the_interval_of_the_reported_removal_is_that_of_a_mean_over_clusters(cells: Cells) -> None:
    found = cells.measured()
    row, names = rows(found, "choice_removal", "reporting")["weak"], halves(cells, cells.measured(), "bad")[1]
    fell = pd.Series({name: cells.c["plain", "bad"][name] - cells.c["weak", "bad"][name] for name in names})
    sums = (fell - fell.mean()).groupby([int(name[-2:]) // 2 for name in names]).sum()
    g = len(sums)
    half = scipy.stats.t.ppf(0.975, g - 1) * math.sqrt(g / (g - 1) * (sums**2).sum()) / len(fell)
    width = row["high"] - row["low"]
    assert width == pytest.approx(2 * half, rel=0.25) and row["n_clusters"] == g


def test_equal_shifts_go_to_the_larger_removal_and_what_lacks_a_number_is_not_chosen() -> None:
    assert best({"a": (0.6, 0.1), "b": (0.9, 0.1), "c": (0.4, 0.0), "d": (None, 0.0), "e": (1.0, None)}, 0.5) == "b"
    assert best({"a": (0.5, 0.1)}, 0.5) == "a" and best({}, 0.5) is None
    assert best({"a": (0.6, 0.1), "b": (0.6, 0.1)}, 0.5) == "a"


def test_a_split_of_one_cluster_cannot_be_halved(cells: Cells) -> None:
    for model in LETTERS:
        prompts = rows_of(
            {(f"bad{n:02d}", 0): "RRR" for n in range(4)}, clusters={f"bad{n:02d}": "x" for n in range(4)}
        )
        cell_file(cells.path(model, "bad"), *prompts, 3)
    with pytest.raises(
        UserError, match=r"choice one: the prompts of split bad are too few clusters \(1\) to choose on"
    ):
        cells.measured()


def test_the_table_names_the_chosen_one_and_what_it_does_on_the_other_half(cells: Cells, tmp_path: Path) -> None:
    found = cells.measured()
    labels = {"models": {name: name.title() for name in LETTERS}, "splits": {"bad": "Bad", "good": "Good"}}
    labels |= {"judges": {"j": "Judge"}}
    asked = {"choices": [CHOICE], "level": 0.95, "labels": labels, "models": list(LETTERS), "protocol": "default"}
    frame, (shown,) = table(_data(found, asked, tmp_path))
    removal = rows(found, "choice_removal", "reporting")["weak"]
    (chosen,) = [row for row in shown.rows if row[3] == "yes"]
    assert chosen[0].startswith("Weak") and chosen[4].startswith(f"{removal['value']:.2f} [{removal['low']:.2f}")
    assert all(row[4] == row[5] == "\N{EN DASH}" or row is chosen for row in shown.rows)
    assert len(frame) == len(found["estimates"]) and set(frame["choice"]) == {
        "one: choosing half",
        "one: reporting half",
    }
    notes = " ".join(shown.notes)
    assert "than that of Plain, on the prompts of Bad (judge Judge)" in notes and "of Good" in notes
    assert "removals of at least 0.3. Its numbers there flatter it" in notes
    none = cells.measured(tau=2.0)
    _, (shown,) = table(_data(none, asked | {"choices": [CHOICE | {"tau": 2.0}]}, tmp_path))
    assert "No configuration removes that much, so none is chosen." in " ".join(shown.notes)


def _data(found: dict[str, Any], asked: dict[str, Any], folder: Path) -> TableData:
    write_json(folder / "choices.json", found)
    return TableData(asked, {"choices": [str(folder / "choices.json")]})


# ---------------------------------------------------------------- the config

ENTRY = {"name": "one", "against": "plain", "models": ["thinker"], "refusals": ["hub-rows"], "others": ["file-rows"]}
ENTRY |= {"tau": 0.5}
STUDIED = STUDY | {"models": ["plain", "thinker"], "splits": ["hub-rows", "file-rows"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"against": "plian"},
            "choices[0].against: `plian` is not one of `models` of the study; did you mean `plain`?",
        ),
        ({"models": ["plain"]}, "choices[0]: `models` names `plain`, which they are compared with; leave it out there"),
        ({"models": ["thinker"] * 2}, "choices[0]: `models` names `thinker` twice"),
        ({"others": ["hub-rows"]}, "choices[0]: `hub-rows` is under `refusals` and under `others`; leave one of both"),
        ({"others": ["hub-row"]}, "choices[0].others[0]: `hub-row` is not one of `splits` of the study; did you mean"),
        ({"judge": "word"}, "choices[0].judge: `word` is not one of `judges` of the study; did you mean `words`?"),
        ({"tau": 0}, "choices[0].tau: must be more than 0, not 0"),
        ({"tua": 1}, "choices[0].tua: unknown key `tua`; did you mean `tau`?"),
    ],
)
def test_a_mistake_in_a_choice_is_one_line(project: Project, change: dict[str, Any], message: str) -> None:
    (line,) = project.mistakes(STUDIED | {"choices": [ENTRY | change]})
    assert message in line


def test_two_choices_have_two_names_and_a_study_without_one_has_no_such_job(project: Project) -> None:
    (line,) = project.mistakes(STUDIED | {"choices": [ENTRY, ENTRY]})
    assert "choices[1].name: another choice is called `one` too" in line
    study = Study(project.load(STUDIED | {"choices": [ENTRY]}))
    analysis = ChoicesAnalysis(study)
    assert analysis.wanted() and analysis.params()["choices"][0]["judge"] == "words"
    assert len(analysis.inputs()["scores"]) == 4
    assert not ChoicesAnalysis(Study(project.load(STUDIED))).wanted()


def test_of_few_clusters_no_interval_goes_beyond_what_is_possible(cells: Cells) -> None:
    """Three clusters on each half: Student's t with two degrees of freedom is wider than c(x) can differ."""
    rng = np.random.default_rng(1)
    for model in LETTERS:
        for split in ("bad", "good"):
            cells.add(model, split, [f"{split}{n:02d}" for n in range(12)], rng)
    found = cells.measured()
    removal, shift = rows(found, "choice_removal"), rows(found, "choice_shift")
    assert all(-2 <= row["low"] <= row["value"] <= row["high"] <= 2 for row in removal.values())
    assert any(row["low"] == -2 or row["high"] == 2 for row in removal.values())
    assert all(0 <= row["low"] <= row["value"] <= row["high"] for row in shift.values())
