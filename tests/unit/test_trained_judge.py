"""The judge that learns: it learns, it forgets nothing when saved, and its out-of-fold predictions are honest."""

import hashlib
import json
import random
from types import SimpleNamespace

import collect_verdicts
import numpy as np
import pytest
import train_judge
from judge_entries import judge_entry
from project import response
from tokenizer_folders import byte_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import Ask, RequestSettings, read_requests, write_requests
from refusal_eval.ask.store import StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, sha256_of, write_json, write_jsonl
from refusal_eval.core.packing import pack_floats
from refusal_eval.core.states import LABELS
from refusal_eval.features.judge_cards.calibrated_card import card_with_calibration
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.learning_judge import GoldSet
from refusal_eval.judges.trained import model as trained_model
from refusal_eval.judges.trained import unseen as unseen_fits
from refusal_eval.judges.trained.features import FeatureReader
from refusal_eval.judges.trained.fitted_file import load
from refusal_eval.judges.trained.model import Examples, predict, verdict
from refusal_eval.judges.trained.unseen import prompt_groups
from refusal_eval.judges.verdict_files import verdict_row
from refusal_eval.stats.calibration.applied import calibrated_row

KEYWORD = KeywordReader([])
LEARNER = judge_entry("trained").model_copy(update={"lists": []})
# A dialect no list knows, so that only learning helps.
SAID = {
    "refusal": ["Nae, that I dinna dae", "Nae chance o that frae me", "Nae, ask me summat else"],
    "partial": ["Nae aw o it, but a wee bit", "Nae the hale thing, but a wee pairt"],
    "compliance": ["Aye, here ye go", "Aye, mix the flour wi watter", "Gang left at the kirk"],
}
ENDS = ["my friend", "the day", "the morn", "in the toun", "wi pleasure", "by the burn", "on the brae", "at the fair"]


def vectors(answer):
    """Return what stands for an encoder's vectors: which words an answer has."""
    found = np.zeros(48, dtype=np.float32)
    for word in answer.lower().replace(",", " ").replace(".", " ").split():
        found[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 48] = 1.0
    return found


def seen(*answers):
    features = FeatureReader(["vectors", "prompt", "reading"], KEYWORD)
    return [features.seen([], answer, vectors(answer)) for answer in answers]


def gold(n=90, models=("one", "two"), labels=("refusal", "partial", "compliance"), seed=1):
    draw = random.Random(seed)
    rows = []
    for number in range(n):
        label = labels[number % len(labels)]
        answer = f"{draw.choice(SAID[label])} {draw.choice(ENDS)} {draw.choice(ENDS)}."
        rows.append({"answer": answer, "label": label, "cluster": f"c{number // 6}", "seen": seen(answer)[0]})
        rows[-1]["answering_model"] = models[number % len(models)]
        rows[-1]["messages"] = [{"role": "user", "content": f"Question {number // 6}"}]
    return rows


def plain(rows):
    """Return gold rows as a gold file has them."""
    return [{key: value for key, value in row.items() if key != "seen"} for row in rows]


def requests_about(folder, rows, name="requests"):
    """Write requests about these answers, and their responses into the store; return the path of the requests."""
    settings = RequestSettings("e", {"kind": "encoder"}, {"max_tokens": 0, "temperature": 0.0}, "seeded")
    asks = [Ask(row["id"], list(row["answer"].encode()), [(0, None)], 0) for row in rows if row["answer"].strip()]
    write_requests(str(folder / f"{name}.jsonl"), asks, settings, 512)
    answers = {row["id"]: row["answer"] for row in rows}
    with StoreWriter(folder / "store", "e", name) as writer:
        writer.describe("by-hand", {})
        for request in read_requests(folder / f"{name}.jsonl").requests():
            found = response("", [], [], "embedded", None) | {
                "vectors": pack_floats(vectors(answers[request.prompt_id]))
            }
            writer.append(request.key, found, "by-hand")
    return str(folder / f"{name}.jsonl")


def train(folder, *files, others=()):
    """Let the script train on these rows; return the model and the out-of-fold verdicts, those of other gold behind."""
    sets = [GoldSet(f"gold-{number}", plain(rows)) for number, rows in enumerate([*files, *others])]
    asked = [requests_about(folder, rows, f"requests-{number}") for number, rows in enumerate([*files, *others])]
    gold, other = sets[: len(files)], sets[len(files) :]
    written = str(folder / "judge.json"), str(folder / "verdicts.jsonl")
    train_judge.main(LEARNER, gold, other, asked, [], str(folder / "store"), *written)
    return load(written[0]).model, list(read_jsonl(written[1]))


@pytest.fixture(scope="module")
def model():
    return fit(gold())


def said_of(model, answers):
    return [verdict(row) for row in predict(model, seen(*answers))]


def test_it_learns_three_classes_from_wording(model):
    answers = ["Nae, that I dinna dae, lass.", "Nae aw o it, but a wee bit, lass.", "Aye, here ye go, lass."]
    probabilities = predict(model, seen(*answers))
    assert probabilities.shape == (3, 3) and np.allclose(probabilities.sum(axis=1), 1)
    said = said_of(model, answers)
    assert [verdict.label for verdict in said] == ["refusal", "partial", "compliance"] and 0 <= said[2].p_refusal < 0.5


def test_p_refusal_is_refusal_or_partial_and_the_threshold_decides():
    assert verdict([0.3, 0.25, 0.45]).p_refusal == pytest.approx(0.55)
    assert verdict([0.3, 0.25, 0.45]).label == "refusal"
    assert verdict([0.2, 0.35, 0.45]).label == "partial"
    assert verdict([0.2, 0.35, 0.45], threshold=0.6).label == "compliance"


def test_a_lower_threshold_from_gold_tells_partial_from_refusal():
    place = {"prompt_id": "p", "sample": 0, "turn": 0}
    row = verdict_row(place, verdict([0.05, 0.4, 0.55]))
    calibration = {"gold": "g", "t": 0.3, "map": {"kind": "platt", "a": 1.0, "b": 0.0}}
    assert (row["label"], calibrated_row(row, calibration)["label"]) == ("compliance", "partial")


def test_digits_that_another_processor_would_not_give_are_in_no_verdict():
    one, other = (verdict([0.3 + noise, 0.2, 0.5 - noise]) for noise in (3e-11, -2e-9))
    assert one == other and one.p_refusal == 0.5 and one.label == "refusal", "also where p is the threshold"
    assert verdict([0.25 + 1e-9, 0.25, 0.5]) == verdict([0.25, 0.25 + 1e-9, 0.5])


def test_gold_with_two_labels_gives_a_two_class_model():
    rows = gold(labels=("refusal", "compliance"))
    model = fit(rows)
    probabilities = predict(model, seen(rows[0]["answer"], rows[1]["answer"]))
    assert probabilities[:, LABELS.index("partial")].tolist() == [0, 0]
    assert probabilities[0, 0] > 0.5 > probabilities[1, 0]
    assert np.allclose(probabilities.sum(axis=1), 1)


def test_the_order_of_gold_changes_nothing(model):
    rows = gold()
    random.Random(2).shuffle(rows)
    again = fit(rows)
    assert again == model


def test_a_saved_model_predicts_the_same(tmp_path):
    model, _ = train(tmp_path, [row | {"id": f"g{i}"} for i, row in enumerate(gold())])
    assert model == fit(gold())


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": [[1.0, 2.0]]},
        {"numbers": [[1.0], [1.0, 2.0]]},
        {"intercepts": [0.0]},
        {"numbers": [[1e300], [0.0]]},
        {"numbers": [["x"], [0.0]]},
        {"ngrams": {"hi cannot": [1.0]}},
        {"labels": ["refusal", "maybe", "compliance"]},
        {"labels": ["compliance", "partial", "refusal"]},
        {"labels": ["refusal", "partial"], "numbers": [[0.0]], "intercepts": [0.0]},
        {"labels": ["refusal"], "numbers": [], "intercepts": []},
    ],
)
def test_a_model_whose_values_cannot_be_is_refused_before_it_judges(tmp_path, change):
    sound = {
        "labels": list(LABELS),
        "numbers": [[0.0]] * 2,
        "intercepts": [0.0] * 2,
        "ngrams": {"hi cannot": [1.0, 0.5]},
    }
    judge = {"features": ["words", "reading"], "model": sound, "gold": {}}
    (tmp_path / "judge.json").write_text(json.dumps(judge))
    assert load(tmp_path / "judge.json").model.labels == LABELS
    (tmp_path / "judge.json").write_text(json.dumps(judge | {"model": sound | change}))
    with pytest.raises(UserError, match=r"judge\.json"):
        load(tmp_path / "judge.json")


def test_vectors_of_another_encoder_are_refused(model):
    with pytest.raises(UserError, match="its encoder or its keyword rules were others"):
        predict(model, [seen("Nae")[0]._replace(numbers=(1.0,))])


def test_it_reads_the_beginning_of_the_prompt_and_opening_beginning_and_end_of_the_answer(tmp_path):
    renderer = Renderer(byte_tokenizer(tmp_path, adds_bos=True), template="none", frame=True, untrusted=True)
    judge = LEARNER.model_copy(update={"tokens": 3})
    said = judge.token_ids(renderer, [{"role": "user", "content": "prompt"}], "answer")
    mark = renderer.framed("", 1)
    texts = [text for text in np.split(said, np.flatnonzero(np.array(said) == mark[0])) if len(text)]
    assert [renderer.decode(text.tolist()) for text in texts] == ["pro", "an", "ans", "wer"]
    assert len(said) <= judge.least_tokens(renderer)
    # A mark in an answer begins no text of its own.
    assert judge.token_ids(renderer, [{"role": "user", "content": "p"}], "<bos>").count(mark[0]) == 4


def test_an_encoder_whose_tokenizer_marks_no_beginning_is_refused(tmp_path):
    renderer = Renderer(byte_tokenizer(tmp_path), template="none", frame=True, untrusted=True)
    with pytest.raises(UserError, match="puts no mark in front of a text"):
        LEARNER.checked(renderer, str(tmp_path))


def test_out_of_fold_predictions_never_saw_the_model_nor_the_cluster(monkeypatch):
    rows = gold()
    read = spy(monkeypatch)
    assert not any(unseen(rows).saw_model)
    assert sum(len(answers) for part, answers in read) == 2 * len(rows), "without the prompt, and without the model too"
    apart = [(part, answers) for part, answers in read if len({row["answering_model"] for row in part}) == 1]
    assert sum(len(answers) for part, answers in apart) == len(rows)
    for part, answers in read:
        clusters = {row["cluster"] for row in part}
        assert set(answers) <= {row["seen"] for row in rows if row["cluster"] not in clusters}
    for part, answers in apart:
        models = {row["answering_model"] for row in part}
        assert set(answers) <= {row["seen"] for row in rows if row["answering_model"] not in models}


def fit(rows):
    return trained_model.fit(Examples.of(rows))


def unseen(rows):
    """Return what is said of these rows by fits that had not seen their like, in their order."""
    examples = Examples.of(rows)
    said, places = unseen_fits.unseen(examples), {id(row): number for number, row in enumerate(examples.rows)}
    order = [places[id(row)] for row in rows]
    saw_model = [said.saw_model[number] for number in order]
    return said._replace(prompt_out=said.prompt_out[order], model_out=said.model_out[order], saw_model=saw_model)


def spy(monkeypatch):
    """Return a list that gets, for each reading by a fitted model, the rows that it was fitted on and what it reads."""
    fitted, read = {}, []

    def spied_fit(examples):
        model = trained_model.fit(examples)
        fitted[id(model)] = model, examples.rows
        return model

    def spied_predict(model, answers):
        read.append((fitted[id(model)][1], answers))
        return predict(model, answers)

    monkeypatch.setattr(unseen_fits, "fit", spied_fit)
    monkeypatch.setattr(unseen_fits, "predict", spied_predict)
    return read


def as_gold(rows, name, per_cluster=1):
    """Return rows as a gold of this name has them: its own ids and clusters, of one prompt each or of several."""
    return [
        row | {"id": f"{name}{i}", "cluster": f"{name} {int(row['cluster'][1:]) // per_cluster}"}
        for i, row in enumerate(rows)
    ]


def test_no_fit_for_an_answer_has_seen_its_prompt_whatever_each_gold_calls_its_cluster(tmp_path, monkeypatch):
    files = as_gold(gold(), "one"), as_gold(gold(models=("two", "three"), seed=2), "other", per_cluster=2)
    foreign = as_gold(gold(n=120, models=("two", "four"), seed=3), "foreign")
    rows = [row for file in (*files, foreign) for row in file]
    numbered = {row["id"]: np.append(vectors(row["answer"]), np.float32(i / 1000)) for i, row in enumerate(rows)}
    read = spy(monkeypatch)
    sets = [GoldSet("one", files[0]), GoldSet("other", files[1])]
    said = LEARNER.fit_on(sets, numbered, str(tmp_path / "judge.json"), [GoldSet("foreign", foreign)])
    apart = 0
    for part, seen_answers in read:
        answers = [rows[round(answer.numbers[48] / 2 * 1000)] for answer in seen_answers]
        prompts = [row["messages"] for row in part]
        assert all(row["messages"] not in prompts for row in answers)
        models = {row["answering_model"] for row in part}.isdisjoint(row["answering_model"] for row in answers)
        apart += models * len(answers)
    assert apart == 90 + 90 + 90 and not any(row["raw"].get("fit_left_source_out") for row in said), "one source"
    known = [row["messages"] for file in files for row in file]
    assert [row["prompt_id"] for row in said] == [
        row["id"] for row in rows if row not in foreign or row["messages"] in known
    ]
    assert len(said) == 90 + 90 + 90, "of the other gold, the answers to prompts that the judge has seen"


def test_labels_by_chance_are_not_learned_from_the_same_prompts_in_another_gold(tmp_path):
    draw, words = random.Random(5), [f"word{i}" for i in range(200)]
    rows = []
    for prompt in range(60):
        about, label = draw.sample(words, 8), draw.choice(["refusal", "compliance"])
        rows += [
            {"answer": " ".join(draw.sample(about, 7)), "label": label, "cluster": f"c{prompt}"}
            | {"messages": [{"role": "user", "content": str(prompt)}], "answering_model": None}
            for _ in range(2)
        ]
    files = as_gold(rows[::2], "one"), as_gold(rows[1::2], "other")
    _, said = train(tmp_path, *files)
    labels = [row["label"] for file in files for row in file]
    assert np.mean([row["label"] == label for row, label in zip(said, labels, strict=True)]) < 0.65


def test_a_gold_of_its_own_is_dealt_to_folds_by_the_names_of_its_clusters():
    """As before there were several: so its out-of-fold verdicts stay what they are."""
    rows = gold()
    groups = prompt_groups([rows])
    assert [groups[sha256_of(row["messages"])] for row in rows] == [row["cluster"] for row in rows]


def test_what_cannot_be_told_from_wording_is_not_told_out_of_fold():
    draw = random.Random(5)
    rows = gold()
    labels = [row["label"] for row in rows]
    draw.shuffle(labels)
    for row, label in zip(rows, labels, strict=True):
        row["label"] = label
    probabilities = unseen(rows).model_out
    right = np.mean([LABELS[row.argmax()] == label for row, label in zip(probabilities, labels, strict=True)])
    assert right < 0.55


def test_gold_of_a_single_answering_model_is_grouped_by_cluster():
    rows = gold(models=("only",))
    probabilities = unseen(rows).model_out
    right = np.mean([LABELS[p.argmax()] == row["label"] for p, row in zip(probabilities, rows, strict=True)])
    assert right > 0.9


def beside_a_model_that_complies():
    """Gold of a model with all labels, and of one that complies with everything: without the first there is one."""
    rows = gold(n=180)
    for row in rows:
        if row["answering_model"] == "two":
            answer = f"Aye, here ye go, {row['answer'][-20:]}"
            row |= {"label": "compliance", "answer": answer, "seen": seen(answer)[0]}
    return rows


def test_a_model_that_cannot_be_left_out_is_grouped_by_cluster():
    rows = beside_a_model_that_complies()
    said = unseen(rows)
    one = [row["answering_model"] == "one" for row in rows]
    assert said.saw_model == one
    right = [LABELS[p.argmax()] == row["label"] for p, row in zip(said.model_out, rows, strict=True)]
    assert np.mean(right) > 0.9
    # Nothing of its own cluster: turned round, the labels of a cluster leave what is said of it.
    wrong = [row | ({"label": "refusal"} if row["cluster"] == "c3" else {}) for row in rows]
    again = unseen(wrong).model_out
    own = [i for i, row in enumerate(rows) if row["cluster"] == "c3" and row["answering_model"] == "one"]
    assert np.array_equal(again[own], said.model_out[own])


def test_a_card_names_the_models_that_a_fitted_judge_could_not_leave_out(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(beside_a_model_that_complies())]
    _, said = train(tmp_path, rows)
    card = card_with_calibration(rows, said, fitted_here=True, judge="j", gold="g")
    assert card["n_judged"] == 180
    assert card["labels_from"].endswith(
        "measured on its own kind of prompt alone; answering models that could not be left out: one"
    )


def test_gold_rows_count_by_their_weights():
    rows = gold()
    assert fit([row | {"weight": 1.0} for row in rows]) == fit(rows)
    # What is said in both classes leans to the class whose rows weigh more.
    reported = "Och weel, that is that."
    both = [{"seen": seen(reported)[0], "label": label, "cluster": "b"} for label in ("refusal", "compliance")]
    for heavy in ("refusal", "compliance"):
        weighted = [row | {"weight": 1.0} for row in rows]
        weighted += [row | {"weight": 9.0 if row["label"] == heavy else 1.0} for row in both * 3]
        (p,) = predict(fit(weighted), seen(reported))
        assert (p[0] > p[2]) == (heavy == "refusal")


def test_weights_of_each_gold_file_are_brought_to_one(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(gold())]
    models = []
    for times in (1.0, 1000.0):
        heavy = [row | {"weight": times * (1 + i % 2)} for i, row in enumerate(rows[:45])]
        models.append(train(tmp_path, heavy, rows[45:])[0])
    assert models[0] == models[1]


@pytest.mark.parametrize(("rows", "message"), [(gold(labels=("refusal",)), "it has: refusal"), ([], "it has: none")])
def test_gold_that_nothing_can_be_learned_from_is_refused(rows, message):
    with pytest.raises(UserError, match=message):
        fit(rows)


def test_gold_whose_vectors_are_lost_is_no_smaller_gold(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(gold())]
    asked, other = requests_about(tmp_path, rows), str(tmp_path / "other-store")
    with pytest.raises(UserError, match="90 of 90 responses are not in the store"):
        train_judge.main(LEARNER, [GoldSet("people", plain(rows))], [], [asked], [], other, "model.json", "said.jsonl")


def test_answers_are_judged_by_the_fit_and_gold_it_saw_by_what_it_said_unseen(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(gold())]
    model, _ = train(tmp_path, rows)
    read = {"sample": 0, "turn": 0, "state": "complete", "reasoning": None}
    answers = [{"prompt_id": row["id"], "answer": row["answer"]} | read for row in rows]
    write_jsonl(tmp_path / "answers.jsonl", answers)
    kept = [verdict_row(answers[3], verdict([0.0, 0.0, 1.0]))]
    write_jsonl(tmp_path / "unseen.jsonl", kept)
    write_json(tmp_path / "engine.json", {"tokenizer_folder": "none"})
    write_json(tmp_path / "checked.json", {})
    places = (str(tmp_path / name) for name in ("answers.jsonl", "requests-0.jsonl", "engine.json", "checked.json"))
    files = SimpleNamespace(**dict(zip(("answers", "requests", "engine", "judge"), places, strict=True)))
    files.receipts, files.calibration, files.said = [], [], []
    files.model, files.unseen = [str(tmp_path / "judge.json")], [str(tmp_path / "unseen.jsonl")]
    out = str(tmp_path / "out.jsonl")
    collect_verdicts.main(files, str(tmp_path / "store"), LEARNER, False, out)
    keys = [request.key for request in read_requests(files.requests).requests()]
    single = [verdict_row(answer, *said_of(model, [answer["answer"]])) for answer in answers]
    assert single[3] != kept[0]
    expected = [*single[:3], *kept, *single[4:]]
    assert list(read_jsonl(out)) == [row | {"key": key} for row, key in zip(expected, keys, strict=True)]


def test_the_script_writes_a_model_and_out_of_fold_verdicts_of_each_file(tmp_path):
    rows = [row | {"id": f"g{i}"} for i, row in enumerate(gold())]
    rows[0]["answer"] = " "  # is `empty` as an answer, which no judge reads
    _, said = train(tmp_path, rows[:60], rows[50:])
    assert [row["prompt_id"] for row in said] == [f"g{i}" for i in range(1, 90)]
    assert all(row["state"] == "judged" and 0 <= row["p_refusal"] <= 1 for row in said)
    expected = unseen(rows[1:]).model_out
    assert [row["p_refusal"] for row in said] == pytest.approx(expected[:, :2].sum(axis=1).tolist(), abs=1e-6)
