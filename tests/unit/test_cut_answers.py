"""Answers that are too long for a judge: what it sees of them, and where they are counted."""

from pathlib import Path
from typing import Any

import pytest
import render_judge_requests
from estimate_rows import score_of_rows
from figure_checks import shown
from judge_entries import asked_of, judge_entry
from judge_rows import rows as gold_rows
from table_rows import data_of, made
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import read_requests
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_jsonl
from refusal_eval.core.rubric import rubric_mistake
from refusal_eval.features.judge_cards.calibrated_card import card_with_calibration
from refusal_eval.features.judge_cards.judge_card_figure import card_figure
from refusal_eval.features.judge_cards.judge_cards_table import cards_table
from refusal_eval.features.rates.rate_tables import states
from refusal_eval.stats.calibration.gold_calibration import OUT_OF_FOLD

CUT = {"cut_characters": 812}
TWENTY = {("refusal", "refusal"): 20, ("compliance", "compliance"): 20}


def score(judge: str, cut: int) -> dict[str, Any]:
    """Score of a cell of 40 answers, of which the judge saw some in part."""
    prompts = [{"id": f"p{i:02d}", "category": None, "cluster": f"p{i:02d}"} for i in range(40)]
    keys = [{"prompt_id": prompt["id"], "sample": 0, "turn": 0} for prompt in prompts]
    answers = [key | {"state": "complete", "answer_logprob": -1.0, "serving": None} for key in keys]
    verdicts = [
        key | {"state": "judged", "label": "refusal", "raw": {"mass": 1.0} | (CUT if i < cut else {})}
        for i, key in enumerate(keys)
    ]
    names = {"judge": judge, "model": "m", "split": "s", "expectation": "refuse"}
    return dict(score_of_rows(prompts, answers, verdicts, 1, **names, max_tokens=64))


def test_a_score_counts_them() -> None:
    assert [score("j", cut)["n_cut"] for cut in (0, 3)] == [0, 3]


def test_the_table_of_states_tells_of_each_judge_that_did_not_see_all() -> None:
    scores = [score("short", 3), score("long", 0)]
    frame, table = made(states, scores, labels={"judges": {"short": "Short judge"}})
    notes = " ".join(table.notes)
    assert "Too long for judge Short judge, which saw head and tail: 3 of 40 answers." in notes
    assert "judge long" not in notes
    assert frame.set_index("judge")["n_cut"].to_dict() == {"long": 0, "short": 3}


def cut_card(number: int, **how: Any) -> dict[str, Any]:
    gold, verdicts = gold_rows(TWENTY)
    for i, row in enumerate(verdicts):
        row["raw"] = CUT if i < number else {}
        row["p_refusal"] = 0.9 if row["label"] == "refusal" else 0.1
    return card_with_calibration(gold, verdicts, judge="j", gold="g", **how)


def test_a_card_counts_them_whatever_its_labels_come_from() -> None:
    assert cut_card(4)["n_cut"] == cut_card(4, calibrate=OUT_OF_FOLD)["n_cut"] == 4
    calibration = {"gold": "other", "t": 0.5, "map": {"kind": "platt", "a": 1.0, "b": 0.0}}
    assert cut_card(4, calibrate=calibration)["n_cut"] == 4


def test_table_and_figure_of_cards_tell() -> None:
    words = "Too long for judge j, which saw head and tail: 4 of 40 answers of g."
    assert words in cards_table(data_of(cards=[cut_card(4)])).notes
    assert not any("Too long" in note for note in cards_table(data_of(cards=[cut_card(0)])).notes)
    drawn = " ".join(shown(card_figure(cut_card(4))).split())
    assert "4 answers are too long for the judge" in drawn


ROOM = 1000  # tokens of a judge's prompt


@pytest.mark.parametrize("answer", ["No.", "Z" * 400])
def test_a_judge_is_never_asked_about_an_answer_of_which_it_sees_nothing(tmp_path: Path, answer: str) -> None:
    """The shortest prompt has room for the answer's gap and some of it, the longest fills the context without it."""
    rubric = tmp_path / "rubric.md"
    rubric.write_text("{{ prompt }}\n<r_{{ nonce }}>{{ answer }}</r_{{ nonce }}>\nLabel:")
    judge = judge_entry("llm", rubric=str(rubric))
    engine = {"tokenizer_folder": byte_tokenizer(tmp_path / "t"), "engine_id": "e", "identity": {}}
    renderer = Renderer(tmp_path / "t", untrusted=True)
    rubric_tokens = judge.least_tokens(renderer)
    texts = {f"p{empty}": "q" * (empty - rubric_tokens) for empty in range(ROOM - 60, ROOM + 1)}
    write_jsonl(
        tmp_path / "prompts.jsonl",
        [{"id": name, "messages": [{"role": "user", "content": text}]} for name, text in texts.items()],
    )
    given = {"sample": 0, "turn": 0, "answer": answer, "state": "complete"}
    write_jsonl(tmp_path / "answers.jsonl", [{"prompt_id": name} | given for name in texts])
    checked = {"label_token_ids": {"refusal": 65, "compliance": 67}}
    asked = asked_of(judge, max_model_len=ROOM + judge.request_sampling(checked)["max_tokens"])
    output = tmp_path / "requests.jsonl"
    render_judge_requests.main(
        str(tmp_path / "prompts.jsonl"), str(tmp_path / "answers.jsonl"), engine, checked, asked, str(output)
    )
    requests = list(read_requests(output).requests())
    assert len(requests) == len(texts)
    for request in requests:
        seen = renderer.decode(request.token_ids).partition("<r_")[2].count(answer[0])
        assert (request.key is None) == (len(request.token_ids) > ROOM)
        assert request.key is None or seen > 0
        assert request.key is None or (request.cut > 0) == (seen < answer.count(answer[0]))
    assert {request.key is None for request in requests} == {True, False}


FOR_REAL_ANSWERS = {
    "endless": (
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "takes more than 0.2 s",
    ),
    "without bound": ("{% for a in range(9999) %}{{ answer }}{% endfor %}", "more than 20 times as long"),
    "wrong": ("{{ 1 / 0 }}", "division by zero"),
}


@pytest.mark.parametrize("name", FOR_REAL_ANSWERS)
def test_a_rubric_that_only_the_probe_can_afford_ends_with_a_sentence_that_names_it_and_the_answer(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refusal_eval.core.rubric.RENDER_SECONDS", 0.2)
    rubric, (expensive, said) = tmp_path / "rubric.md", FOR_REAL_ANSWERS[name]
    block = "{{ prompt }}\n<r_{{ nonce }}>{{ answer }}</r_{{ nonce }}>\nLabel:"
    rubric.write_text("{% if answer == 'Sure.' %}" + expensive + "{% endif %}" + block)
    assert rubric_mistake(rubric) is None
    judge = judge_entry("llm", rubric=str(rubric))
    engine = {"tokenizer_folder": byte_tokenizer(tmp_path / "t"), "engine_id": "e", "identity": {}}
    paths = [str(tmp_path / name) for name in ("prompts.jsonl", "answers.jsonl")]
    write_jsonl(paths[0], [{"id": "p", "messages": [{"role": "user", "content": "Why?"}]}])
    answer = {"prompt_id": "p", "turn": 0, "state": "complete"}
    write_jsonl(paths[1], [answer | {"sample": 0, "answer": "No."}, answer | {"sample": 1, "answer": "Sure."}])
    checked = {"label_token_ids": {"refusal": 65, "compliance": 67}}
    with pytest.raises(UserError, match=rf"answers.jsonl, prompt p, sample 1, turn 0: rubric .*rubric.md.* {said}"):
        render_judge_requests.main(
            *paths, engine, checked, asked_of(judge, max_model_len=ROOM), str(tmp_path / "requests.jsonl")
        )
