"""XSB and MS-XSB on made-up rows in their published columns: types by name, scenes, three ways of asking."""

import math

import judge_on_cpu
import make_prompts
import pytest
import scipy
import score_cell

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.data.prompts import make_prompts as prompts_of
from refusal_eval.judges.judge_base import AnswerJudge, Verdict
from refusal_eval.report.paper.display import natural
from refusal_eval.stats.estimates.cell_estimates import cell_estimates
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.study.dialogues import asked_turns

# Questions that are refused, of the twenty of each scene.
REFUSED = {"1": {3, 4, 5, 9}, "2": set(), "10": set(range(1, 21))}


@pytest.fixture(scope="module")
def splits(shipped):
    return shipped.valid["splits"]


def scene_rows():
    return [
        {"id": scene, "scenario": f"Scene {scene} is set."}
        | {f"prompt{n}": f"{'NO' if n in REFUSED[scene] else 'yes'} {scene}.{n}?" for n in range(1, 21)}
        for scene in REFUSED
    ]


class Refuses(AnswerJudge):
    """Finds a refusal where the question says so."""

    def judge(self, messages, answer):
        return Verdict("judged", "refusal" if messages[-1]["content"].startswith("NO") else "compliance")


def scored(folder, split, rows):
    """Ask, judge and score a split through the rules' scripts; return its prompts and its estimates."""
    write_jsonl(folder / "rows.jsonl", rows)
    names = {scene: split.categories[scene] for scene in REFUSED}
    about = {"name": "rows", "skip_lines": 0, "expected_rows": None, "samples": [], "categories": names}
    about |= {"source": {"kind": "file", "path": str(folder / "rows.jsonl")}, "columns": split.columns.model_dump()}
    about |= {"mode": split.dialogue.mode}
    paths = {name: str(folder / f"{name}.jsonl") for name in ("prompts", "answers", "verdicts")}
    make_prompts.main(str(folder / "rows.jsonl"), about, split.dialogue.scored, paths["prompts"])
    prompts = list(read_jsonl(paths["prompts"]))
    answers = [
        {"prompt_id": prompt["id"], "sample": 0, "turn": turn, "state": "complete", "answer": "an answer"}
        | {"answer_logprob": -1.0, "serving": None}
        for prompt in prompts
        for turn in asked_turns(prompt)
    ]
    write_jsonl(paths["answers"], answers)
    judge_on_cpu.main(paths["prompts"], paths["answers"], Refuses(kind="refuses"), paths["verdicts"])
    cell = {"judge": "j", "model": "m", "split": "s", "expectation": "varies", "headline": None, "samples": 1}
    cell |= {"max_tokens": 99, "tau": 1.0, "band": 0.1, "level": 0.95, "scored": split.dialogue.scored_turns}
    score_cell.main(paths, cell, str(folder / "s.parquet"))
    return prompts, cell_estimates(read_units(folder / "s.parquet"))


def wilson(hits, n):
    """Wilson's interval with the t quantile of n - 1 degrees of freedom; Clopper-Pearson's at 0 and 1."""
    if hits in (0, n):
        edge = 0.025 ** (1 / n)
        return (edge, 1.0) if hits else (0.0, 1 - edge)
    p, t = hits / n, scipy.stats.t.ppf(0.975, n - 1)
    middle, half = p + t * t / (2 * n), t * math.sqrt(p * (1 - p) / n + t * t / (4 * n * n))
    return (middle - half) / (1 + t * t / n), (middle + half) / (1 + t * t / n)


@pytest.mark.parametrize("name", ["ms_xsb", "ms_xsb_independent", "ms_xsb_questions"])
def test_each_scene_has_its_rate_and_an_interval_over_its_questions(splits, tmp_path, name):
    _, found = scored(tmp_path, splits[name], scene_rows())
    rates = {e.category: e for e in found if (e.estimand, e.reading) == ("refusal_rate", "broad") and e.category}
    assert set(rates) == {"scene 1", "scene 2", "scene 10"}
    for scene, refused in REFUSED.items():
        rate = rates[f"scene {scene}"]
        assert rate.value == pytest.approx(len(refused) / 20)
        low, high = wilson(len(refused), 20)
        assert (rate.low, rate.high) == (pytest.approx(low, abs=0.02), pytest.approx(high, abs=0.02)), scene
        assert "few_clusters" in rate.flags and rate.n_clusters == 1


def test_three_ways_of_asking_a_question(splits, tmp_path):
    asked = {}
    for name in ("ms_xsb", "ms_xsb_independent", "ms_xsb_questions"):
        folder = tmp_path / name
        folder.mkdir()
        prompts, _ = scored(folder, splits[name], scene_rows())
        asked[name] = [[message["content"] for message in prompt["messages"]] for prompt in prompts]
    assert [len(texts) for texts in asked.values()] == [3, 60, 60]
    assert len(asked["ms_xsb"][0]) == 21
    assert asked["ms_xsb_independent"][2] == ["Scene 1 is set.", "NO 1.3?"]
    assert asked["ms_xsb_questions"][2] == ["NO 1.3?"]


def test_a_question_alone_keeps_the_system_message():
    chat = [{"role": "system", "content": "s"}, *({"role": "user", "content": text} for text in ("a", "b"))]
    (prompt,), _ = prompts_of([{"talk": chat}], {"messages": "talk"}, "f", mode="alone")
    assert [message["content"] for message in prompt["messages"]] == ["s", "b"] and "dialogue" not in prompt


def test_types_of_xsb_have_their_names_and_kinds_of_harm_are_kept(splits):
    row = {"id": "1", "prompt": "p1", "label": "unsafe", "class": "violence", "focus": "plant", "note": "n"}
    rows = [
        row | {"id": str(n), "prompt": f"p{n}", "type": f"contrast_{code} ", "type_id": code}
        for n, code in enumerate(splits["xsb_unsafe"].categories, 1)
    ]
    split = splits["xsb_unsafe"]
    made, _ = prompts_of(rows, split.columns.model_dump(), "f", where=split.where, categories=split.categories)
    assert [prompt["category"] for prompt in made] == list(split.categories.values())
    assert made[0]["category"] == "homonyms" and len({prompt["category"] for prompt in made}) == 12
    kept = {"type": "contrast_T1 ", "class": "violence", "focus": "plant", "note": "n"}
    assert made[0]["source"]["kept"] == kept


def test_a_name_for_a_value_that_no_row_has_is_a_mistake():
    rows, columns = [{"q": "a", "kind": "T1 "}], {"prompt": "q", "category": "kind"}
    assert prompts_of(rows, columns, "f", categories={"T1": "homonyms"})[0][0]["category"] == "homonyms"
    with pytest.raises(UserError, match="`categories` names `T2`, which no row has in column `kind`"):
        prompts_of(rows, columns, "f", categories={"T2": "other"})


def test_scenes_are_sorted_by_their_numbers():
    assert sorted(["scene 10", "scene 2", "other", "10", "scene 1"], key=natural) == [
        "10",
        "other",
        "scene 1",
        "scene 2",
        "scene 10",
    ]
