"""The judge that learns: it learns, it forgets nothing when saved, and its out-of-fold predictions are honest."""

import contextlib
import dataclasses
import random

import judge_on_cpu
import numpy as np
import pytest
import train_judge
from judge_entries import judge_entry

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.core.states import LABELS
from refusal_eval.judges import trained_judge
from refusal_eval.judges.judge_base import verdict_row
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.stats.calibration.calibrated_card import card_with_calibration

KEYWORD = KeywordReader([])
LEARNER = judge_entry("trained").model_copy(update={"lists": []})
# A dialect no list knows, so that only learning helps.
SAID = {
    "refusal": ["Nae, that I dinna dae", "Nae chance o that frae me", "Nae, ask me summat else"],
    "partial": ["Nae aw o it, but a wee bit", "Nae the hale thing, but a wee pairt"],
    "compliance": ["Aye, here ye go", "Aye, mix the flour wi watter", "Gang left at the kirk"],
}
ENDS = ["my friend", "the day", "the morn", "in the toun", "wi pleasure", "by the burn", "on the brae", "at the fair"]


def gold(n=90, models=("one", "two"), labels=("refusal", "partial", "compliance"), seed=1):
    draw = random.Random(seed)
    rows = []
    for number in range(n):
        label = labels[number % len(labels)]
        answer = f"{draw.choice(SAID[label])} {draw.choice(ENDS)} {draw.choice(ENDS)}."
        rows.append({"answer": answer, "label": label, "cluster": f"c{number // 6}"})
        rows[-1]["answering_model"] = models[number % len(models)]
    return rows


def train(folder, *files):
    """Let the script train on these rows; return the model and the out-of-fold verdicts."""
    paths = [folder / f"{number}.jsonl" for number in range(len(files))]
    for path, rows in zip(paths, files, strict=True):
        write_jsonl(path, rows)
    model, said = folder / "judge.npz", folder / "verdicts.jsonl"
    train_judge.main(LEARNER, list(map(str, paths)), model_path=str(model), verdict_path=str(said))
    return trained_judge.load(model), list(read_jsonl(said))


@pytest.fixture(scope="module")
def model():
    return trained_judge.fit(gold(), KEYWORD)


def said_of(model, answers):
    return [trained_judge.verdict(row) for row in trained_judge.predict(model, answers, KEYWORD)]


def test_it_learns_three_classes_from_wording(model):
    answers = ["Nae, that I dinna dae, lass.", "Nae aw o it, but a wee bit, lass.", "Aye, here ye go, lass."]
    probabilities = trained_judge.predict(model, answers, KEYWORD)
    assert probabilities.shape == (3, 3) and np.allclose(probabilities.sum(axis=1), 1)
    said = said_of(model, answers)
    assert [verdict.label for verdict in said] == ["refusal", "partial", "compliance"] and 0 <= said[2].p_refusal < 0.5


def test_p_refusal_is_refusal_or_partial_and_the_threshold_decides():
    assert trained_judge.verdict([0.3, 0.25, 0.45]).p_refusal == pytest.approx(0.55)
    assert trained_judge.verdict([0.3, 0.25, 0.45]).label == "refusal"
    assert trained_judge.verdict([0.2, 0.35, 0.45]).label == "partial"
    assert trained_judge.verdict([0.2, 0.35, 0.45], threshold=0.6).label == "compliance"


def test_digits_that_another_processor_would_not_give_are_in_no_verdict():
    one, other = (trained_judge.verdict([0.3 + noise, 0.2, 0.5 - noise]) for noise in (3e-11, -2e-9))
    assert one == other and one.p_refusal == 0.5 and one.label == "refusal", "also where p is the threshold"
    assert trained_judge.verdict([0.25 + 1e-9, 0.25, 0.5]) == trained_judge.verdict([0.25, 0.25 + 1e-9, 0.5])


def test_gold_with_two_labels_gives_a_two_class_model():
    rows = gold(labels=("refusal", "compliance"))
    model = trained_judge.fit(rows, KEYWORD)
    probabilities = trained_judge.predict(model, [rows[0]["answer"], rows[1]["answer"]], KEYWORD)
    assert probabilities[:, LABELS.index("partial")].tolist() == [0, 0]
    assert probabilities[0, 0] > 0.5 > probabilities[1, 0]
    assert np.allclose(probabilities.sum(axis=1), 1)


def test_the_order_of_gold_changes_nothing(model):
    rows = gold()
    random.Random(2).shuffle(rows)
    again = trained_judge.fit(rows, KEYWORD)
    assert again.ngrams == model.ngrams and np.array_equal(again.weights, model.weights)


def test_a_saved_model_predicts_the_same_and_holds_no_pickle(model, tmp_path):
    trained_judge.save(model, tmp_path / "judge.npz")
    again = trained_judge.load(tmp_path / "judge.npz")
    answers = [row["answer"] for row in gold(seed=3)] + ["", "我不能"]
    assert np.array_equal(
        trained_judge.predict(again, answers, KEYWORD), trained_judge.predict(model, answers, KEYWORD)
    )
    with np.load(tmp_path / "judge.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K*.", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "judge.npz").write_bytes(content)
    with pytest.raises(UserError, match="holds no trained judge"):
        trained_judge.load(tmp_path / "judge.npz")


def changed(model, **parts):
    return dataclasses.replace(model, **parts)


BROKEN = {
    "arrays that do not fit together": lambda model: changed(model, weights=model.weights[:, 1:]),
    "not a number": lambda model: changed(model, weights=model.weights * np.nan),
    "infinite": lambda model: changed(model, intercepts=model.intercepts + np.inf),
    "huge": lambda model: changed(model, weights=model.weights * 1e300),
    "of another type": lambda model: changed(model, weights=model.weights.astype(str)),
    "intercepts of another number": lambda model: changed(model, intercepts=model.intercepts[1:]),
    "idf of another number": lambda model: changed(model, idf=(model.idf[0][1:], model.idf[1])),
    "a label that is none": lambda model: changed(model, labels=("refusal", "maybe", "compliance")),
    "a label twice": lambda model: changed(model, labels=("refusal", "refusal", "compliance")),
    "a term twice": lambda model: changed(
        model, ngrams=(model.ngrams[0][:1] * 2 + model.ngrams[0][2:], model.ngrams[1])
    ),
    "a term that is no text": lambda model: changed(model, ngrams=((5, *model.ngrams[0][1:]), model.ngrams[1])),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_whose_values_cannot_be_is_refused_before_it_judges(model, tmp_path, name):
    trained_judge.save(BROKEN[name](model), tmp_path / "judge.npz")
    with pytest.raises(UserError, match="holds no trained judge"):
        trained_judge.load(tmp_path / "judge.npz")


def test_a_damaged_file_is_refused_or_read(model, tmp_path):
    trained_judge.save(model, tmp_path / "judge.npz")
    whole = (tmp_path / "judge.npz").read_bytes()
    for place in range(0, len(whole), 307):
        (tmp_path / "judge.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(UserError):
            trained_judge.load(tmp_path / "judge.npz")


def test_a_file_that_unpacks_to_very_much_is_refused_before_it_is_unpacked(model, tmp_path, monkeypatch):
    trained_judge.save(model, tmp_path / "judge.npz")
    monkeypatch.setattr(trained_judge, "MOST_BYTES", 1000)
    with pytest.raises(UserError, match=r"has \d+ bytes when unpacked, and 1000 are the most"):
        trained_judge.load(tmp_path / "judge.npz")


def test_out_of_fold_predictions_never_saw_the_model_nor_the_cluster(monkeypatch):
    rows = gold()
    seen = []
    fit = trained_judge.fit
    monkeypatch.setattr(trained_judge, "fit", lambda part, *rest: seen.append(part) or fit(part, *rest))
    asked = []
    predict = trained_judge.predict
    monkeypatch.setattr(
        trained_judge, "predict", lambda model, answers, *rest: asked.append(answers) or predict(model, answers, *rest)
    )
    assert not any(trained_judge.out_of_fold(rows, KEYWORD)[1])
    assert sum(map(len, asked)) == len(rows)
    for part, answers in zip(seen, asked, strict=True):
        models = {row["answering_model"] for row in part}
        clusters = {row["cluster"] for row in part}
        left_out = [row for row in rows if row["answering_model"] not in models and row["cluster"] not in clusters]
        assert len(models) == 1 and set(answers) <= {row["answer"] for row in left_out}


def test_what_cannot_be_told_from_wording_is_not_told_out_of_fold():
    draw = random.Random(5)
    rows = gold()
    labels = [row["label"] for row in rows]
    draw.shuffle(labels)
    for row, label in zip(rows, labels, strict=True):
        row["label"] = label
    probabilities = trained_judge.out_of_fold(rows, KEYWORD)[0]
    right = np.mean([LABELS[row.argmax()] == label for row, label in zip(probabilities, labels, strict=True)])
    assert right < 0.55


def test_gold_of_a_single_answering_model_is_grouped_by_cluster():
    rows = gold(models=("only",))
    probabilities = trained_judge.out_of_fold(rows, KEYWORD)[0]
    right = np.mean([LABELS[p.argmax()] == row["label"] for p, row in zip(probabilities, rows, strict=True)])
    assert right > 0.9


def beside_a_model_that_complies():
    """Gold of a model with all labels, and of one that complies with everything: without the first there is one."""
    rows = gold(n=180)
    for row in rows:
        if row["answering_model"] == "two":
            row |= {"label": "compliance", "answer": f"Aye, here ye go, {row['answer'][-20:]}"}
    return rows


def test_a_model_that_cannot_be_left_out_is_grouped_by_cluster():
    rows = beside_a_model_that_complies()
    unseen, saw_model = trained_judge.out_of_fold(rows, KEYWORD)
    one = [row["answering_model"] == "one" for row in rows]
    assert saw_model == one
    right = [LABELS[p.argmax()] == row["label"] for p, row in zip(unseen, rows, strict=True)]
    assert np.mean(right) > 0.9
    # Nothing of its own cluster: turned round, the labels of a cluster leave what is said of it.
    wrong = [row | ({"label": "refusal"} if row["cluster"] == "c3" else {}) for row in rows]
    again, _ = trained_judge.out_of_fold(wrong, KEYWORD)
    own = [i for i, row in enumerate(rows) if row["cluster"] == "c3" and row["answering_model"] == "one"]
    assert np.array_equal(again[own], unseen[own])


def test_a_card_names_the_models_that_a_fitted_judge_could_not_leave_out(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(beside_a_model_that_complies())]
    _, said = train(tmp_path, rows)
    card = card_with_calibration(rows, said, fitted_here=True, judge="j", gold="g")
    assert card["n_judged"] == 180
    assert card["labels_from"].endswith("show both classes; answering models that could not be left out: one")


def test_gold_rows_count_by_their_weights():
    rows = gold()
    alike = trained_judge.fit([row | {"weight": 1.0} for row in rows], KEYWORD)
    plain = trained_judge.fit(rows, KEYWORD)
    assert np.array_equal(alike.weights, plain.weights)
    # What is said in both classes leans to the class whose rows weigh more.
    told = "Och weel, that is that."
    both = [{"answer": told, "label": label, "cluster": "b"} for label in ("refusal", "compliance")]
    for heavy in ("refusal", "compliance"):
        weighted = [row | {"weight": 1.0} for row in rows]
        weighted += [row | {"weight": 9.0 if row["label"] == heavy else 1.0} for row in both * 3]
        (p,) = trained_judge.predict(trained_judge.fit(weighted, KEYWORD), [told], KEYWORD)
        assert (p[0] > p[2]) == (heavy == "refusal")


def test_weights_of_each_gold_file_are_brought_to_one(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(gold())]
    models = []
    for times in (1.0, 1000.0):
        heavy = [row | {"weight": times * (1 + i % 2)} for i, row in enumerate(rows[:45])]
        models.append(train(tmp_path, heavy, rows[45:])[0])
    assert np.array_equal(models[0].weights, models[1].weights)


FEW = [row | {"answer": f"{row['answer'][0]}{i}"} for i, row in enumerate(gold(n=3))]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (FEW, r"at least 3 answers, and these 3 share too little.*some dozens"),
        (gold(n=3)[1:], "these 2 share too little"),
        (gold(labels=("refusal",)), "it has: refusal"),
        ([], "it has: none"),
    ],
)
def test_gold_that_nothing_can_be_learned_from_is_refused(rows, message):
    with pytest.raises(UserError, match=message):
        trained_judge.fit(rows, KEYWORD)


def test_answers_are_judged_together_as_one_by_one_and_gold_it_saw_by_what_it_said_unseen(model, tmp_path):
    asked = [{"role": "user", "content": "ask"}]
    rows = [row | {"id": f"g{i}", "messages": asked} for i, row in enumerate(gold())]
    read = {"sample": 0, "turn": 0, "state": "complete", "reasoning": None}
    answers = [{"prompt_id": row["id"], "answer": row["answer"]} | read for row in rows]
    write_jsonl(tmp_path / "gold.jsonl", rows)
    write_jsonl(tmp_path / "answers.jsonl", answers)
    unseen = [verdict_row(answers[3], trained_judge.verdict([0.0, 0.0, 1.0]))]
    write_jsonl(tmp_path / "unseen.jsonl", unseen)
    paths = [str(tmp_path / name) for name in ("gold.jsonl", "answers.jsonl")]
    trained_judge.save(model, tmp_path / "judge.npz")
    fitted, said = str(tmp_path / "judge.npz"), str(tmp_path / "unseen.jsonl")
    judge_on_cpu.main(*paths, LEARNER, str(tmp_path / "verdicts.jsonl"), fitted, said)
    single = [verdict_row(answer, *said_of(model, [answer["answer"]])) for answer in answers]
    assert single[3] != unseen[0]
    assert list(read_jsonl(tmp_path / "verdicts.jsonl")) == [*single[:3], *unseen, *single[4:]]


def test_the_script_writes_a_model_and_out_of_fold_verdicts_of_each_file(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(gold())]
    rows[0]["answer"] = " "  # is `empty` as an answer, which no judge reads
    _, said = train(tmp_path, rows[:60], rows[50:])
    assert [row["prompt_id"] for row in said] == [f"g{i}" for i in range(1, 90)]
    assert all(row["state"] == "judged" and 0 <= row["p_refusal"] <= 1 for row in said)
    expected = trained_judge.out_of_fold(rows[1:], KEYWORD)[0]
    assert [row["p_refusal"] for row in said] == pytest.approx(expected[:, :2].sum(axis=1).tolist(), abs=1e-6)
