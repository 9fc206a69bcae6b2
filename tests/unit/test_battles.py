"""Battles: how rows are read, and what refusals cost in them, against numbers by hand and simulations."""

import dataclasses
import json
import math

import numpy as np
import pytest
import scipy
import yaml
from config_project import BASE, CATALOGUE, STUDY, changed

from refusal_eval.config.load_study import load_study
from refusal_eval.core.errors import UserError
from refusal_eval.data.prompts import make_prompts
from refusal_eval.features.battles.battle_reader import BattleReader, read_battle
from refusal_eval.features.battles.battle_rows import LLM, PAIRS, PEOPLE, PROMPTS, BattleRows, clusterings
from refusal_eval.features.battles.battles_analysis import BattlesAnalysis
from refusal_eval.features.battles.battles_keys import Battles as Columns
from refusal_eval.features.battles.log_odds import log_odds
from refusal_eval.features.battles.moderators import moderated_log_odds
from refusal_eval.features.battles.penalties import class_estimates
from refusal_eval.features.battles.similarity import word_cosines
from refusal_eval.stats.estimates.intervals import effective_of
from refusal_eval.study.study import Study
from refusal_eval.workflow.tables_stage import params

KNOWN = {"judge": "j", "model": "m", "split": "s", "samples": 2}
LABELS = ("refusal", "partial", "compliance")


# ---------------------------------------------------------------- rows


def talk(*texts, parts=False):
    """Return a conversation, the user first; `parts` as newer data sets have them."""
    roles = ("user", "assistant") * len(texts)
    return [
        {"role": role, "content": [{"type": "text", "text": text, "image": None}] if parts else text}
        for role, text in zip(roles, texts, strict=False)
    ]


ROW = {"model_a": "x", "model_b": "y", "winner": "model_a"}
TALKS = ({"messages": "a"}, Columns(answers=["a", "b"]).model_dump())
LISTS = ({"prompt": "prompt"}, Columns(lists=True, winner=["first", "second", "tie"]).model_dump())
PLAIN = ({"prompt": "prompt"}, Columns().model_dump())


@pytest.mark.parametrize("form", [talk, lambda *texts: json.dumps(talk(*texts)), lambda *t: talk(*t, parts=True)])
def test_conversations_of_all_forms_give_one_battle(form):
    row = ROW | {"a": form("Why?", "No."), "b": form("Why?", "Yes."), "winner": "tie (bothbad)"}
    about = {"models": ["x", "y"], "winner": "tie", "llm_winner": None}
    assert read_battle(row, *TALKS, "f") == {"prompt": "Why?", "answers": ["No.", "Yes."], **about}


def test_what_collections_note_about_a_message_leaves_no_battle_out():
    noted = {"num_tokens": 3, "tool_calls": None, "images": [], "timestamp": 1.5}
    row = ROW | {"a": [message | noted for message in talk("Why?", "No.")], "b": talk("Why?", "Yes.")}
    assert read_battle(row, *TALKS, "f")["answers"] == ["No.", "Yes."]


def test_lists_of_turns_and_three_columns_of_winners():
    row = ROW | {"prompt": '["Why?"]', "response_a": "[null]", "response_b": '["Yes."]'}
    row |= {"first": 0, "second": "1", "tie": 0}
    found = read_battle(row, *LISTS, "f")
    assert (found["prompt"], found["answers"], found["winner"]) == ("Why?", ["", "Yes."], "second")
    with pytest.raises(UserError, match="one of the columns of `winner` must be 1 and the others 0, not `first` 1"):
        read_battle(row | {"first": 1}, *LISTS, "f")


@pytest.mark.parametrize(
    ("row", "how", "reason"),
    [
        ({"a": talk("Q", "A", "Q2", "A2"), "b": talk("Q", "B")}, TALKS, "of several turns"),
        ({"a": talk("Q", "A"), "b": talk("R", "B")}, TALKS, "with two different questions"),
        ({"a": talk("Q", "A"), "b": talk("Q", [{"type": "image"}])}, TALKS, "with more than text"),
        (
            {"a": talk("Q", [{"type": "text", "text": "A", "image": {"path": "a.png"}}]), "b": talk("Q", "B")},
            TALKS,
            "with more than text",
        ),
        *(
            ({"a": talk("Q", "A"), "b": [*talk("Q"), {"role": "assistant", "content": "B", field: value}]}, TALKS, said)
            for field, value, said in (
                ("tool_calls", [{"id": "1"}], "with the field `tool_calls` in a message, which would be lost"),
                ("reasoning_content", "Hm.", "with the field `reasoning_content` in a message"),
                ("name", "me", "with the field `name` in a message"),
            )
        ),
        ({"prompt": '["Q", "Q2"]', "response_a": '["A", "B"]', "response_b": '["A", "B"]'}, LISTS, "of several turns"),
        ({"prompt": '["Q"]', "response_a": '["\\ud83d"]', "response_b": '["B"]'}, LISTS, "with half a character"),
        ({"prompt": " ", "response_a": "A", "response_b": "B"}, PLAIN, "without a question"),
        ({"prompt": "Q", "response_a": "A", "response_b": "B", "winner": ""}, PLAIN, "without a preference"),
    ],
)
def test_what_is_no_battle_of_one_question_is_left_out_with_its_reason(row, how, reason):
    assert reason in read_battle(ROW | row, *how, "f")


def test_whether_a_question_is_sensitive_is_read_from_a_column_that_says_nothing_else():
    row = ROW | {"prompt": "Q", "response_a": "A", "response_b": "B"}
    how = ({"prompt": "prompt"}, Columns(sensitive="illegal").model_dump())
    read = [read_battle(row | {"illegal": cell}, *how, "f")["sensitive"] for cell in (True, "0", 1, "false", None, "")]
    assert read == [True, False, True, False, None, None]
    assert "sensitive" not in read_battle(row, *PLAIN, "f"), "prompts of other splits stay as they are"
    with pytest.raises(UserError, match="f: column `illegal` must be 1 or true, 0 or false, or empty, not `hate`"):
        read_battle(row | {"illegal": "hate"}, *how, "f")


def test_an_unknown_preference_is_reported_and_the_log_counts_what_is_left_out():
    row = ROW | {"prompt": "Q", "response_a": "A", "response_b": "B"}
    battles = Columns().model_dump()
    with pytest.raises(UserError, match=r"f, row 1: column `winner` holds the preference `x`; it must be one of"):
        make_prompts([row | {"winner": "x"}], {"prompt": "prompt"}, "f", reader=BattleReader(battles), copies=True)
    rows = [row, row, row | {"winner": None}]
    prompts, notes = make_prompts(rows, {"prompt": "prompt"}, "f", reader=BattleReader(battles), copies=True)
    assert len({prompt["id"] for prompt in prompts}) == 2 and len({prompt["cluster"] for prompt in prompts}) == 1
    assert any("1 rows that are no battle of one question left out: 1 without a preference" in note for note in notes)


@pytest.mark.parametrize(
    ("study", "entry", "reported"),
    [
        ({"samples": 3}, {}, "a battle has two answers, so `samples` must be 2 with model `arena` (it is 3)"),
        ({"splits": ["hub-rows"]}, {}, "takes the answers from the splits, and `hub-rows` has no `battles`"),
        ({"judges": ["came-along"]}, {}, "and model `arena` has none (`recorded`)"),
        ({}, {"reasoning": {"end": "</think>"}}, "answers of battles are taken whole; leave it out"),
        (
            {"models": ["plain"], "figures": [{"name": "a", "kind": "battles"}]},
            {},
            "needs a model with `recorded: battles`",
        ),
    ],
)
def test_what_battles_need_of_a_study_is_reported_before_anything_runs(project, study, entry, reported):
    model = CATALOGUE["models"]["plain"] | {"recorded": "battles"} | entry
    project.write(BASE, changed(CATALOGUE, ("models", "arena"), model))
    whole = STUDY | {"models": ["arena"], "splits": ["battle-rows"], "samples": 2} | study
    (mistake,) = project.mistakes(whole)
    assert reported in mistake


def test_the_study_that_ships_is_valid_and_asks_no_engine(repository, monkeypatch):
    monkeypatch.chdir(repository)
    study = yaml.safe_load((repository / "config" / "studies" / "arena.yaml").read_text(encoding="utf-8"))
    config = load_study(study, "config/studies/arena.yaml")
    assert config["engine_entries"] == {} and config["split_entries"]["arena_55k"]["battles"]["lists"]


def uncommented(repository, *starts):
    """Return the study that ships with the comments that begin so made lines of it, and `allow` naming both judges."""
    text = (repository / "config" / "studies" / "arena.yaml").read_text(encoding="utf-8")
    for start in starts:
        text = text.replace(f"# {start}", start)
    return yaml.safe_load(text)


def test_the_study_that_ships_shows_the_five_classes_once_the_classifier_is_uncommented(repository, monkeypatch):
    monkeypatch.chdir(repository)
    found = uncommented(repository, "- llm-refusal-classifier", "allow:")
    study = Study(load_study(found, "config/studies/arena.yaml"))
    assert study.primary_judge == "keyword"
    assert params(study, "battles")["classed_by"] == ["llm-refusal-classifier", "keyword"]
    assert study.figures["battles"].shown(study.view).judges == ["llm-refusal-classifier"]
    assert "flagged" not in BattlesAnalysis(study).params()


def test_a_judge_that_flags_harmful_questions_is_read_where_no_column_says_which_are_sensitive(repository, monkeypatch):
    monkeypatch.chdir(repository)
    found = uncommented(repository, "- wildguard") | {"allow": ["wildguard"]}
    study = Study(load_study(found, "config/studies/arena.yaml"))
    (verdicts,) = BattlesAnalysis(study).inputs()["verdicts"]
    assert verdicts.endswith("verdicts/wildguard/chatbot-arena/arena_55k.jsonl")


# ---------------------------------------------------------------- numbers


def fought(refuses, won, clusters=None, models=None, lengths=None, llm=None):
    """Return battles.

    Args:
        refuses: whether the first and the second answer does, battles x 2.
        won: points of the first answer.
    """
    refuses, won = np.asarray(refuses, dtype=bool), np.asarray(won, dtype=float)
    labels = np.where(refuses, "refusal", "compliance").astype(object)
    names = np.array([f"p{i}" for i in (range(len(won)) if clusters is None else clusters)], dtype=object)
    other = np.full(len(won), np.nan) if llm is None else np.asarray(llm, dtype=float)
    points = {PEOPLE: np.column_stack([won, 1 - won]), LLM: np.column_stack([other, 1 - other])}
    models = np.array([["x", "y"]] * len(won), dtype=object) if models is None else models
    lengths = np.ones((len(won), 2)) if lengths is None else lengths
    return BattleRows(labels, labels, models, lengths, points, np.full(len(won), ""), {PROMPTS: names})


def moderated(seed, battles=900, sensitive=True):
    """Return battles with moderators, and what decided them by name: own class, length, similarity and topic."""
    rng = np.random.default_rng(seed)
    refuses = rng.random((battles, 2)) < 0.35
    lengths = np.round(rng.lognormal(np.where(refuses, 4.8, 6.2), 0.7))
    close = rng.uniform(0.05, 0.6, (battles, 2))
    alike = np.repeat(rng.uniform(0, 0.5, (battles, 1)), 2, axis=1)
    topic = np.repeat((rng.random((battles, 1)) < 0.4).astype(float), 2, axis=1)
    doublings = np.log2(1 + lengths)
    true = {
        ("length", "compliance"): 0.2,
        ("length", "refusal"): 0.3,
        ("prompt", "compliance"): 0.1,
        ("prompt", "refusal"): 0.25,
        ("answer", "refusal"): 0.0,
        ("sensitivity", "refusal"): 0.9,
    }
    worth = -1.5 * refuses + 0.2 * doublings + 0.3 * refuses * (doublings - 8) + close + 2.5 * refuses * (close - 0.3)
    worth += 0.9 * refuses * topic
    won = (rng.random(battles) < 1 / (1 + np.exp(worth[:, 1] - worth[:, 0]))).astype(float)
    fields = {"prompt": close, "answer": alike} | ({"sensitivity": topic} if sensitive else {})
    return dataclasses.replace(fought(refuses, won, None, None, lengths), moderators=fields), true


def numbers(battles):
    found = class_estimates(battles, battles.labels, LABELS, 0.95, KNOWN)
    return {(one.estimand, one.parameter): one for one in found if one.category is None}


MIXED = [[True, False]] * 10 + [[False, True]] * 10
LOST = [1, 1] + [0] * 8 + [1] * 8 + [0, 0]  # the refusing answer wins 2 of 10, whichever comes first


def test_log_odds_of_a_saturated_table_are_those_by_hand():
    found = log_odds(fought(MIXED, LOST), fought(MIXED, LOST).labels, ["refusal"], False, 0.95)["refusal"]
    assert found.value == pytest.approx(np.log(0.2 / 0.8), abs=1e-6) and found.low < found.value < found.high < 0


def test_a_class_or_a_baseline_that_always_or_never_wins_has_no_interval_of_its_penalty():
    always = numbers(fought(MIXED, [0] * 10 + [1] * 10))
    assert always["battle_log_odds", "refusal"].value is None
    penalty = always["battle_penalty", "refusal"]
    assert (penalty.value, penalty.low) == (1, None)
    rare = numbers(fought(MIXED[:10] + [[True, True]] * 40, [0.5] * 10 + [1, 0] * 20))["battle_penalty", "refusal"]
    assert rare.low is None and rare.flags == ("few_clusters",), "compliance, 10 answers, never wins: it is not known"
    duels = always["battle_duels", "refusal"]
    assert duels.value == 0 and duels.high == pytest.approx(1 - 0.025 ** (1 / 20)), "exact over clusters"


def test_pairs_of_models_count_for_a_penalty_where_one_of_its_classes_has_enough():
    """Also where the other has fewer."""
    # In each of 40 pairs one model wins all; in five of them the other one complies.
    place = np.arange(800) % 40
    refuses = np.column_stack([np.ones(800, dtype=bool), place >= 5])
    battles = fought(refuses, place % 2)
    met = np.array([f"a{one} and b" for one in place], dtype=object)
    battles = dataclasses.replace(battles, clusters=battles.clusters | {PAIRS: met})
    assert numbers(battles)["battle_penalty", "refusal"].method.endswith("clusters: pairs of models")


def test_a_handful_of_pairs_of_models_is_no_sample():
    """All pairs of ten models, and one more model that met two of them only."""
    rng = np.random.default_rng(1)
    pairs = [(f"m{i}", f"m{j}") for i in range(10) for j in range(i)] * 30 + [("z", "m0"), ("z", "m1")] * 60
    models = np.array(pairs, dtype=object)
    refuses = rng.random((len(pairs), 2)) < 0.15
    battles = fought(refuses, rng.integers(0, 2, len(pairs)), None, models)
    met = np.array([" and ".join(pair) for pair in pairs], dtype=object)
    battles = dataclasses.replace(battles, clusters=battles.clusters | {PAIRS: met})
    of_z = models[:, 0] == "z"
    assert set(clusterings(battles, np.arange(len(pairs)))) == {PROMPTS, PAIRS}
    assert set(clusterings(battles, of_z)) == {PROMPTS}
    found = class_estimates(battles, battles.labels, LABELS, 0.95, KNOWN)
    shares = {(one.parameter, one.category): one for one in found if one.estimand == "battle_share"}
    share = shares["refusal", "z"]
    assert share.high - share.low < 0.2 and share.method.endswith("clusters: prompts")


def test_numbers_of_a_regression_are_those_that_all_machines_agree_on():
    found = log_odds(fought(MIXED, LOST), fought(MIXED, LOST).labels, ["refusal"], False, 0.95)["refusal"]
    assert [round(number, 6) for number in (found.value, found.low, found.high)] == [found.value, found.low, found.high]


def test_swapping_both_answers_changes_no_number():
    rng = np.random.default_rng(5)
    refuses, won, llm = rng.random((60, 2)) < 0.3, rng.choice([0, 0.5, 1], 60), rng.choice([0, 0.5, 1], 60)
    lengths = rng.integers(10, 900, (60, 2)).astype(float)
    models = np.array(["x", "y", "z"], dtype=object)[rng.integers(0, 3, (60, 2))]
    turned = fought(refuses[:, ::-1], 1 - won, None, models[:, ::-1], lengths[:, ::-1], 1 - llm)
    both = [numbers(fought(refuses, won, None, models, lengths, llm)), numbers(turned)]
    assert both[0].keys() == both[1].keys()
    for key, one in both[0].items():
        other = both[1][key]
        assert [one.value, one.low, one.high] == pytest.approx([other.value, other.low, other.high], rel=1e-6), key


def test_intervals_cover_a_penalty_that_is_known_where_battles_share_prompts():
    """Five battles to a prompt, half of whose outcomes are those of the prompt: 60 % compliance wins, 20 % refusal."""
    covered = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        prompts = np.repeat(np.arange(40), 5)
        of_prompt, own = rng.random(40)[prompts], rng.random(200)
        place = np.where(rng.random(40)[prompts] < 0.5, of_prompt, own)
        refusal_gets = np.select([place < 0.6, place < 0.8], [0.0, 1.0], 0.5)
        first = rng.random(200) < 0.5
        refuses = np.column_stack([first, ~first])
        found = numbers(fought(refuses, np.where(first, refusal_gets, 1 - refusal_gets), prompts))
        penalty, duels = found["battle_penalty", "refusal"], found["battle_duels", "refusal"]
        covered.append((penalty.low <= 0.4 <= penalty.high, duels.low <= 0.3 <= duels.high))
    assert (np.mean(covered, axis=0) >= 0.85).all()


def test_controlled_log_odds_cover_the_effect_of_a_refusal_beside_models_and_lengths():
    """A model that refuses more often is better liked, and refusals are short."""
    strengths, covered = np.array([0.8, 0.3, -0.3, -0.8]), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(500)])
        refuses = rng.random((500, 2)) < np.where(pairs == 0, 0.35, 0.15)
        lengths = np.round(rng.lognormal(np.where(refuses, 4.8, 6.2), 0.7))
        doublings = np.log2(1 + lengths)
        eta = -1.2 * (refuses[:, 0].astype(float) - refuses[:, 1]) + 0.3 * (doublings[:, 0] - doublings[:, 1])
        eta += strengths[pairs[:, 0]] - strengths[pairs[:, 1]]
        won = (rng.random(500) < 1 / (1 + np.exp(-eta))).astype(float)
        names = np.array(["k", "l", "m", "n"], dtype=object)[pairs]
        battles = fought(refuses, won, None, names, lengths)
        found = log_odds(battles, battles.labels, ["refusal"], True, 0.95)
        covered.append(
            [found[name].low <= true <= found[name].high for name, true in (("refusal", -1.2), ("length", 0.3))]
        )
    assert (np.mean(covered, axis=0) >= 0.85).all()


def test_moderators_cover_what_decided_the_battles():
    covered = []
    for seed in range(20):
        battles, true = moderated(seed)
        found, told = moderated_log_odds(battles, battles.labels, "compliance", ["refusal"], 0.95)
        assert found.keys() == true.keys() and len(told) == len(battles)
        covered.append([found[key].low <= value <= found[key].high for key, value in true.items()])
    assert (np.mean(covered, axis=0) >= 0.85).all()


def test_moderators_are_those_of_a_regression_written_out():
    """Newton's steps on a design that is made row by row, with the interaction alone of what both answers share."""
    battles, _ = moderated(3, 400)
    close, alike, topic = (battles.moderators[name] for name in ("prompt", "answer", "sensitivity"))
    design = []
    for i in range(400):
        r, n = [int(label == "refusal") for label in battles.labels[i]], [math.log2(1 + n) for n in battles.lengths[i]]
        both = [(1, -1)[side] for side in (0, 1)]
        row = [1.0, *(sum(both[s] * x[s] for s in (0, 1)) for x in (r, n, close[i] * 10))]
        for values in (n, close[i] * 10, alike[i] * 10, topic[i]):
            row.append(sum(both[s] * r[s] * values[s] for s in (0, 1)))
        design.append(row)
    x, y, beta = np.array(design), battles.points[PEOPLE][:, 0], np.zeros(8)
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        beta = beta + np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]), x.T @ (y - p))
    keys = [("length", "compliance"), ("prompt", "compliance")]
    keys += [(name, "refusal") for name in ("length", "prompt", "answer", "sensitivity")]
    found, _ = moderated_log_odds(battles, battles.labels, "compliance", ["refusal"], 0.95)
    assert [found[key].value for key in keys] == pytest.approx(beta[2:], abs=2e-5)


def test_without_word_of_the_topic_no_battle_is_left_out_and_with_some_those_without_it_are():
    battles, _ = moderated(1, sensitive=False)
    found, told = moderated_log_odds(battles, battles.labels, "compliance", ["refusal"], 0.95)
    assert not any(name == "sensitivity" for name, _ in found) and len(told) == 900
    battles, _ = moderated(1)
    battles.moderators["sensitivity"][:100] = np.nan
    rows = numbers(battles)
    assert rows["battle_log_odds_by_sensitivity", "refusal"].n_prompts < 800
    _, told = moderated_log_odds(battles, battles.labels, "compliance", ["refusal"], 0.95)
    assert told.tolist() == list(range(100, 900))
    assert ("battle_log_odds_by_answer", "compliance") not in rows, "both answers share it"


def test_cosines_of_words_are_those_by_hand():
    """Two battles of six texts; the second is in a script without blanks, whose characters count as words."""
    texts = [("Pick a lock", "No lock!", "pick A LOCK"), ("\u9501\u5b50", "\u9501", "...")]
    prompts = [
        {"id": f"p{i}", "messages": [{"role": "user", "content": q}], "battle": {"answers": [a, b]}}
        for i, (q, a, b) in enumerate(texts)
    ]
    found = word_cosines(prompts)
    idf = {"pick": 2, "a": 2, "lock": 3, "no": 1}
    weight = {word: math.log(7 / (1 + df)) + 1 for word, df in idf.items()}
    question = [weight[word] for word in ("pick", "a", "lock")]
    norms = math.hypot(*question) * math.hypot(weight["no"], weight["lock"])
    by_hand = weight["lock"] ** 2 / norms
    assert found["p0"] == pytest.approx((by_hand, 1, by_hand), abs=1e-9)
    one, two = math.log(7 / 3) + 1, math.log(7 / 2) + 1
    assert found["p1"] == pytest.approx((one / math.hypot(one, two), 0, 0), abs=1e-9)
    blank = [prompts[0] | {"messages": [{"role": "user", "content": "?"}], "battle": {"answers": ["", "!"]}}]
    assert word_cosines(blank) == {"p0": (0, 0, 0)}


def test_battles_that_all_end_in_ties_have_no_interval_of_the_log_odds():
    found = log_odds(fought(MIXED, [0.5] * 20), fought(MIXED, [0.5] * 20).labels, ["refusal"], False, 0.95)["refusal"]
    assert found.value == pytest.approx(0) and found.low is None
    one = fought(MIXED, LOST, clusters=[0] * 20)
    found = log_odds(one, one.labels, ["refusal"], False, 0.95)["refusal"]
    assert found.value == pytest.approx(np.log(0.2 / 0.8)) and found.low is None


def test_a_language_model_that_prefers_as_people_do_is_no_more_lenient_however_many_ties_it_calls():
    rng = np.random.default_rng(1)
    refuses = rng.random((2000, 2)) < 0.3
    better = 0.5 - 0.35 * (refuses[:, 0].astype(float) - refuses[:, 1])
    won = (rng.random(2000) < better).astype(float)
    found = numbers(fought(refuses, won, llm=np.where(rng.random(2000) < 0.5, 0.5, won)))
    assert found["battle_penalty_llm", "refusal"].value < 0.6 * found["battle_penalty_paired", "refusal"].value
    bias = found["battle_moderation_bias", "refusal"]
    assert bias.value == 0 and 450 < bias.n_prompts < 650


def test_people_beside_a_language_model_are_those_of_its_battles():
    rng = np.random.default_rng(2)
    refuses, won = rng.random((600, 2)) < 0.1, rng.choice([0, 0.5, 1], 600)
    found = numbers(fought(refuses, won, llm=np.where(refuses.any(axis=1), won, np.nan)))
    for estimand in ("battle_wins", "battle_penalty"):
        paired, llm = (found[f"{estimand}_{who}", "refusal"] for who in ("paired", "llm"))
        assert (paired.value, paired.low, paired.n_prompts) == (llm.value, llm.low, llm.n_prompts)
    assert found["battle_wins_paired", "compliance"].value != found["battle_wins", "compliance"].value


def test_the_error_of_log_odds_is_that_of_leaving_out_each_prompt_in_turn():
    """Two prompts have most of the battles, and other outcomes than the rest."""
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(42), [100, 60, *[2] * 40])
    refuses = rng.random((len(clusters), 2)) < 0.3
    wins = rng.random(len(clusters)) < np.r_[0.2, 0.6, rng.random(40)][clusters]
    battles = fought(refuses, np.where(refuses[:, 0], wins, ~wins), clusters)

    def fitted(keep):
        own = battles.kept(keep)
        return log_odds(own, own.labels, ["refusal"], False, 0.95)["refusal"]

    found = fitted(clusters >= 0)
    differ = refuses[:, 0] != refuses[:, 1]
    free = effective_of(clusters[differ]) - 1
    moved = [fitted(clusters != cluster).value - found.value for cluster in range(42)]
    error = math.sqrt(41 / 42 * sum(by**2 for by in moved))
    assert found.high - found.value == pytest.approx(scipy.stats.t.ppf(0.975, free) * error, rel=0.05)


def test_log_odds_of_a_class_that_is_told_by_one_prompt_have_no_interval():
    """A kind of answer is there in ten battles of one prompt, whose outcomes nothing else tells anything about."""
    kinds = np.full((210, 2), "compliance", dtype=object)
    kinds[:10, 0] = "refusal"
    won = np.r_[[1, 0] * 5, np.arange(200) % 2]
    battles = fought(kinds == "refusal", won, np.r_[[0] * 10, np.arange(1, 201)])
    found = log_odds(battles, battles.labels, ["refusal"], False, 0.95)["refusal"]
    assert found.value is not None and found.low is None
