"""Directions whose sides are several groups of prompts, and what held-out and neutral prompts say of them.

All numbers are computed again with numpy from states, scores and the prompts that the card lists as held out.
"""

from pathlib import Path
from typing import Any

import fit_direction
import numpy as np
import pytest
from estimate_rows import cell_file, rows_of, single

from refusal_eval.activations.groups import Group
from refusal_eval.activations.tensor_files import write_states
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.features.steering.direction_files import read_direction
from refusal_eval.features.steering.directions import FitMethod, fit
from refusal_eval.features.steering.held_out import held_out_clusters
from refusal_eval.features.steering.projections import Projected

LAYERS, WIDTH = [0, 1, 2], 4
# Votes of three samples for each prompt, of equal weight: c(x) is 1, 1/3, -1/3 or -1; `RPC` gives 0.
SENSITIVE = ["RRR", "RRC", "RCC", "CCC"] * 8 + ["RPC"] * 6
CODE, CHAT = ["CCC"] * 12, ["CCC", "RCC"] * 20
VALUES = {"RRR": 1.0, "RRC": 1 / 3, "RCC": -1 / 3, "CCC": -1.0, "RPC": 0.0}


class Cells:
    """Three splits with prompts, states and scores on disk, and the same numbers in memory by prompt id."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, dict[str, dict[str, str]]()
        self.ids: dict[str, list[str]] = {}
        self.states: dict[str, np.ndarray] = {}
        self.c: dict[str, float] = {}
        for number, (split, votes) in enumerate({"sensitive": SENSITIVE, "code": CODE, "chat": CHAT}.items()):
            self.add(split, votes, number)

    def add(self, split: str, votes: list[str], seed: int, texts: str | None = None) -> None:
        prompts, answers, verdicts = rows_of(single(*votes))
        new = {row["id"]: f"{texts or split}-{row['id']}" for row in prompts}
        for row in prompts:
            row |= {"id": new[row["id"]], "messages": [{"role": "user", "content": new[row["id"]]}]}
            row["cluster"] = row["id"]
        for row in (*answers, *verdicts):
            row["prompt_id"] = new[row["prompt_id"]]
        states = np.random.default_rng(seed).normal(seed, 1, (len(prompts), len(LAYERS), WIDTH)).astype(np.float32)
        c = [VALUES[vote] for vote in votes]
        states[:, 1, 0] += 3 * np.array(c, np.float32)
        own = self.folder / split
        own.mkdir()
        names = [row["id"] for row in prompts]
        about = {"prompts": names, "layers": LAYERS, "model_layers": 3, "width": WIDTH, "dtype": "float32"}
        about |= {"architecture": "LlamaForCausalLM", "keys": [f"key of {name}" for name in names]}
        write_jsonl(own / "prompts.jsonl", prompts)
        write_states(own / "states", states, "F32", about)
        cell_file(own / "scores.parquet", prompts, answers, verdicts, 3)
        self.files[split] = {"prompts": str(own / "prompts.jsonl"), "activations": str(own / "states")}
        self.ids[split] = names
        self.states |= dict(zip(names, states.astype(np.float64), strict=True))
        self.c |= dict(zip(names, c, strict=True))

    def paths(self, part: dict[str, Any]) -> dict[str, str]:
        scores = {"scores": str(self.folder / part["split"] / "scores.parquet")} if part.get("judge") else {}
        return self.files[part["split"]] | scores

    def fitted(
        self, name: str = "refusal", **entry: Any
    ) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
        """Return the tensors, the metadata and the card of a direction."""
        whole = {"method": "md", "ridge": {"value": 0.5, "relative": False}, "hold_out": 0.25, "seed": 0, "of": "md"}
        whole |= {"layers": None, "draw": 0, "allow_few": True, "model": "m", "positions": "last_prompt_token", **entry}
        files, names = dict[str, Any](), list[str]()
        for side in ("positive", "negative", "neutral"):
            if side in whole:
                said = whole[side]
                files[side] = [self.paths(part) for part in said] if isinstance(said, list) else self.paths(said)
                count = len(said) if isinstance(said, list) else 1
                names += [side, *(f"{side} {number}" for number in range(2, count + 1))]
        whole["sources"] = dict.fromkeys(names, "positive")
        out = self.folder / f"{name}.safetensors"
        fit_direction.main(whole, name, files, str(self.folder / "store"), str(out), f"{out}.json")
        tensors, said = read_direction(out)
        return tensors, said, read_json(f"{out}.json")

    def matrix(self, names: list[str], layer: int) -> np.ndarray:
        return np.stack([self.states[name][layer] for name in names])


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    return Cells(tmp_path)


def part(split: str, **more: Any) -> dict[str, Any]:
    return {"split": split, **more}


def scored(split: str, **bound: float) -> dict[str, Any]:
    return part(split, judge="j", **bound)


EXTENDED: dict[str, Any] = {
    "positive": scored("sensitive", above=0.15),
    "negative": [scored("sensitive", below=-0.15), scored("code", below=-0.15), scored("chat", below=-0.15)],
}
NEUTRAL = {"neutral": scored("sensitive", within=0.15)}


# ---------------------------------------------------------------- several groups


def sides_of(cells: Cells) -> tuple[list[str], list[str]]:
    positive = [name for name in cells.ids["sensitive"] if cells.c[name] > 0.15]
    negative = [name for split in ("sensitive", "code", "chat") for name in cells.ids[split] if cells.c[name] < -0.15]
    return positive, negative


def test_a_side_of_several_groups_is_the_mean_of_all_of_their_prompts_that_are_not_held_out(cells: Cells) -> None:
    tensors, _, card = cells.fitted(**EXTENDED)
    positive, negative = sides_of(cells)
    assert card["n"] == {"positive": len(positive), "negative": len(negative)} == {"positive": 16, "negative": 68}
    out = card["held_out"]
    assert set(out["positive"]) < set(positive) and set(out["negative"]) < set(negative)
    for layer in LAYERS:
        one, other = (
            cells.matrix([name for name in side if name not in out[key]], layer).mean(axis=0)
            for key, side in (("positive", positive), ("negative", negative))
        )
        np.testing.assert_allclose(tensors["direction"][layer], one - other, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(tensors["mean_negative"][layer], other, rtol=1e-5, atol=1e-5)


def test_weights_and_covariance_are_those_of_all_groups_together(cells: Cells) -> None:
    tensors, _, card = cells.fitted(**EXTENDED, method="wrmd")
    positive, negative = sides_of(cells)
    kept = [[name for name in side if name not in card["held_out"][key]] for key, side in
            (("positive", positive), ("negative", negative))]  # fmt: skip
    w, v = (np.abs([cells.c[name] for name in side]) for side in kept)
    for layer in LAYERS:
        h, g = (cells.matrix(side, layer) for side in kept)
        mu, nu = w @ h / w.sum(), v @ g / v.sum()
        sigma = ((g - nu).T * v) @ (g - nu) / v.sum()
        solved = np.linalg.inv(sigma + 0.5 * np.eye(WIDTH)) @ (mu - nu)
        expected = solved / np.linalg.norm(solved) * np.linalg.norm(mu - nu)
        np.testing.assert_allclose(tensors["direction"][layer], expected, rtol=1e-4, atol=1e-5)


def test_the_share_is_held_out_of_each_group_and_the_card_counts_them(cells: Cells) -> None:
    _, _, card = cells.fitted(**EXTENDED)
    counts = {"n_left_out": 0, "n_in_another_group": 0}
    assert card["groups"] == {
        "negative": [
            {"n": 16, "n_held_out": 4} | counts,
            {"n": 12, "n_held_out": 3} | counts,
            {"n": 40, "n_held_out": 10} | counts,
        ]
    }
    assert card["n_held_out"] == {"positive": 4, "negative": 17}
    assert {name.split("-")[0] for name in card["held_out"]["negative"]} == {"sensitive", "code", "chat"}


def test_one_group_in_a_list_is_the_group_alone_to_the_bit(cells: Cells) -> None:
    alone = cells.fitted(positive=EXTENDED["positive"], negative=EXTENDED["negative"][0])
    listed = cells.fitted("listed", positive=[EXTENDED["positive"]], negative=[EXTENDED["negative"][0]])
    assert all((alone[0][name] == listed[0][name]).all() for name in alone[0])
    assert alone[2]["held_out"] == listed[2]["held_out"] and "groups" not in listed[2]
    assert len(list((cells.folder / "store" / "directions").iterdir())) == 1, "it is one direction of the store"


def test_clusters_that_several_groups_share_are_held_out_whole() -> None:
    first, second = [f"a{n}" for n in range(8)], [f"b{n}" for n in range(8)]
    both = [f"ab{n}" for n in range(4)]
    negative = [*first, *both, *both, *second]
    numbers = [0] * 12 + [1] * 12
    held = held_out_clusters([f"p{n}" for n in range(4)], negative, 0.25, 0, parts=((), numbers))
    assert [len(held & set(names)) for names in (first, both, second)] == [2, 1, 2]


def test_a_prompt_of_two_groups_counts_once_and_of_both_sides_not_at_all(
    cells: Cells, caplog: pytest.LogCaptureFixture
) -> None:
    cells.add("again", CODE, 7, texts="code")  # the same texts as those of `code`
    _, _, card = cells.fitted(**EXTENDED | {"negative": [scored("code", below=0.0), scored("again", below=0.0)]})
    assert card["n"]["negative"] == 12 and [one["n"] for one in card["groups"]["negative"]] == [12, 0]
    assert card["groups"]["negative"][1]["n_in_another_group"] == 12
    assert "12 prompts of the negative 2 side are in one of its other groups already" in caplog.text
    with pytest.raises(UserError, match="both sides have 12 prompts in common"):
        cells.fitted(positive=[part("chat"), part("again")], negative=part("code"))


def test_a_group_without_prompts_is_an_error_unless_scores_chose_none(
    cells: Cells, caplog: pytest.LogCaptureFixture
) -> None:
    sides: dict[str, Any] = {"positive": scored("sensitive", above=0.15)}
    cells.fitted(**sides, negative=[part("code"), scored("chat", above=0.5)])
    assert "no prompt is in a group of the negative 2 side (split chat, c(x) > 0.5 under judge j)" in caplog.text
    with pytest.raises(UserError, match=r"no prompt is in a group of the negative 2 side \(split chat, category x\)"):
        cells.fitted(**sides, negative=[part("code"), part("chat", category="x")])


# ---------------------------------------------------------------- neutral prompts


def independent(p: np.ndarray, c: np.ndarray) -> tuple[float, float, float, float]:
    """Return s+, s-, r and RMSE, written down from the paper."""
    high = np.percentile(p[c > 0], 95) / np.percentile(c[c > 0], 95)
    low = np.percentile(p[c < 0], 5) / np.percentile(c[c < 0], 5)
    dp, dc = p - p.mean(), c - c.mean()
    r = (dp * dc).sum() / np.sqrt((dp**2).sum() * (dc**2).sum())
    wrong = [value if np.sign(at) != np.sign(value) else 0.0 for at, value in zip(p, c, strict=True)]
    return abs(high), abs(low), r, float(np.sqrt(np.mean(np.square(wrong))))


def test_steps_and_scores_of_layers_are_those_of_the_paper_on_held_out_prompts(cells: Cells) -> None:
    tensors, said, card = cells.fitted(**EXTENDED, **NEUTRAL, method="wrmd")
    neutral = [name for name in cells.ids["sensitive"] if abs(cells.c[name]) <= 0.15]
    assert card["n_neutral"] == len(neutral) == 6
    names = [*card["held_out"]["positive"], *card["held_out"]["negative"]]
    c, scores = np.array([cells.c[name] for name in names]), []
    for layer in LAYERS:
        o = cells.matrix(neutral, layer).mean(axis=0)
        np.testing.assert_allclose(tensors["mean_neutral"][layer], o, rtol=1e-5, atol=1e-6)
        v = tensors["direction"][layer].astype(np.float64)
        plus, minus, r, rmse = independent((cells.matrix(names, layer) - o) @ v / np.linalg.norm(v), c)
        found = card["layers"][layer]
        got = [found[key] for key in ("scale_positive", "scale_negative", "correlation", "correlation_rmse")]
        np.testing.assert_allclose(got, [plus, minus, r, rmse], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(said["scales"][layer], [plus, minus], rtol=1e-5)
        scores.append(r - rmse)
    assert said["correlation_ranking"] == sorted(LAYERS, key=lambda layer: -scores[layer])


def test_neutral_prompts_change_no_vector_and_are_among_the_prompts_behind_it(cells: Cells) -> None:
    without, said_without, _ = cells.fitted(**EXTENDED)
    tensors, said, card = cells.fitted("with", **EXTENDED, **NEUTRAL)
    assert all((without[name] == tensors[name]).all() for name in without)
    assert said["ranking"] == said_without["ranking"] and "scales" not in said_without
    assert len(said["prompts"]) == len(said_without["prompts"]) + 6 and card["n_left_out"]["neutral"] == 0
    with pytest.raises(UserError, match="the neutral prompts and a side have 12 prompts in common"):
        cells.fitted(**EXTENDED, neutral=part("code"))
    with pytest.raises(UserError, match=r"the neutral side has 0 prompts .*; at least one is needed"):
        cells.fitted(**EXTENDED, neutral=scored("code", within=0.15))


def test_a_control_has_the_steps_and_the_ranking_of_the_direction(cells: Cells) -> None:
    tensors, said, card = cells.fitted(**EXTENDED, **NEUTRAL)
    control, of_control, _ = cells.fitted("chance", **EXTENDED, **NEUTRAL, method="random")
    assert (of_control["scales"], of_control["correlation_ranking"]) == (said["scales"], said["correlation_ranking"])
    assert (control["mean_neutral"] == tensors["mean_neutral"]).all()
    assert (control["direction"] != tensors["direction"]).any() and len(card["layers"]) == 3


@pytest.mark.parametrize(
    ("p", "c", "plus", "minus"),
    [
        ([1.0, 2.0], [0.5, 1.0], 2.0, 1.0),  # no prompt with c < 0
        ([-1.0, -3.0], [-0.5, -1.0], 1.0, None),
        ([0.0, 0.0], [0.5, -0.5], 0.0, 0.0),  # a ratio of 0 is finite
    ],
)
def test_a_step_is_1_where_no_prompt_has_that_sign(
    p: list[float], c: list[float], plus: float | None, minus: float | None
) -> None:
    found = Projected.of(np.array(p), np.array(c))
    if plus is not None:
        expected = np.percentile(p, 95) / np.percentile(c, 95) if plus == 2.0 else plus
        assert found.scale_positive == pytest.approx(expected)
    assert minus is None or found.scale_negative == pytest.approx(minus)
    assert found.correlation is None if np.ptp(p) == 0 else found.correlation is not None


def test_layers_whose_projections_do_not_vary_come_last() -> None:
    orders = [Projected.of(np.array(p), np.array([1.0, -1.0])).order() for p in ([2.0, -2.0], [-2.0, 2.0], [0.0, 0.0])]
    assert orders == pytest.approx([-1.0, 2.0, np.inf])


def test_a_group_knows_the_parts_of_the_prompts_that_are_kept() -> None:
    group = Group(np.zeros((3, 1, 2), np.float32), ["a", "b", "c"], np.ones(3), [0, 1, 1])
    assert list(group.of_clusters({"a", "c"}).parts) == [0, 1] and list(group.at(0).parts) == [0, 1, 1]
    other = Group(np.ones((4, 1, 2), np.float32), list("wxyz"), np.ones(4))
    states = np.arange(8, dtype=np.float32).reshape(4, 1, 2)
    listed = Group(states, list("abcd"), np.ones(4), [0, 0, 1, 1])
    assert fit(listed, other, [0], FitMethod("md"), 0.5, 0).card["n_held_out"] == {"positive": 2, "negative": 2}
