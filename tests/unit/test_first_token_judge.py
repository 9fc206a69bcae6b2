"""Refusal tokens: the probability with which a reply begins with one, and replies that are made to begin with one."""

import math
from pathlib import Path
from typing import Any

import pytest
from check_judge import first_tokens_of_refusals
from config_project import BASE, CATALOGUE, STUDY, Project, changed
from project import response as stored_response
from pydantic import ValidationError
from tokenizer_folders import byte_tokenizer, unigram_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.ask.store import StoreReader, StoreWriter
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import write_jsonl
from refusal_eval.core.packing import pack_floats
from refusal_eval.judges.first_token_judge import FirstTokenJudge
from refusal_eval.study.batches import Cell
from refusal_eval.study.files import asked_files
from refusal_eval.study.study import Study
from refusal_eval.workflow import generation

TEXTS: dict[str, Any] = {"refusal": ["R", "N"], "compliance": ["C"]}
ASKED = [{"role": "user", "content": "Say no."}]


def judge(**entry: Any) -> FirstTokenJudge:
    return FirstTokenJudge(kind="first_token", engine="e", **{**TEXTS, **entry})


def response(*probabilities: float) -> dict[str, Any]:
    return {"text": "R", "named_logprobs": pack_floats([math.log(p) for p in probabilities])}


@pytest.fixture
def renderer(tmp_path: Path) -> Renderer:
    return Renderer(byte_tokenizer(tmp_path / "tokenizer"))


def test_it_asks_for_the_first_token_behind_the_prompt_and_reads_no_answer(renderer: Renderer) -> None:
    own = judge()
    checked = own.checked(renderer, "")
    assert list(checked["token_ids"]) == ["R", "N", "C"]
    assert renderer.decode(list(checked["token_ids"].values())) == "RNC"
    sampling = own.request_sampling(checked)
    assert (sampling["max_tokens"], sampling["temperature"]) == (1, 0)
    assert sampling["logprob_token_ids"] == list(checked["token_ids"].values())
    assert own.messages(ASKED, "one answer") == own.messages(ASKED, "another") == ASKED


def test_p_is_the_share_among_the_named_tokens_or_without_others_their_probability(renderer: Renderer) -> None:
    checked = judge().checked(renderer, "")
    verdict = judge().verdict(response(0.2, 0.1, 0.1), checked)
    assert (verdict.label, verdict.p_refusal) == ("refusal", pytest.approx(0.75))
    assert verdict.raw["probabilities"] == {"R": pytest.approx(0.2), "N": pytest.approx(0.1), "C": pytest.approx(0.1)}
    alone = judge(compliance=[])
    verdict = alone.verdict(response(0.2, 0.1), alone.checked(renderer, ""))
    assert (verdict.label, verdict.p_refusal) == ("compliance", pytest.approx(0.3))
    assert judge(threshold=0.8).verdict(response(0.2, 0.1, 0.1), checked).label == "compliance"
    assert judge(mass_floor=0.5).verdict(response(0.2, 0.1, 0.1), checked).state == "unparsable"
    with pytest.raises(ValueError, match="it has 2 log-probabilities for 3 labels"):
        judge().verdict(response(0.2, 0.1), checked)


@pytest.mark.parametrize(("text", "message"), [("Re", "it takes 2 tokens"), ("", "at least 1 character")])
def test_a_text_is_one_token(renderer: Renderer, text: str, message: str) -> None:
    with pytest.raises((UserError, ValidationError), match=message):
        judge(refusal=[text]).checked(renderer, "")


def labelled(answer: str, label: str, count: int) -> list[dict[str, Any]]:
    return [{"messages": ASKED, "answer": answer, "label": label}] * count


def test_its_tokens_may_be_those_with_which_people_found_refusals_to_begin(renderer: Renderer) -> None:
    gold = labelled("Not me.", "refusal", 6) + labelled("\n Sorry.", "refusal", 3) + labelled("I won't.", "refusal", 1)
    gold += labelled("Yes.", "compliance", 50) + labelled("Perhaps.", "partial", 9)
    own = judge(refusal={"gold": "people", "share": 0.3})
    checked = own.checked_with(renderer, "", gold)
    assert (checked["refusals"], checked["of"]) == ({"N": 6, "S": 3}, 10)
    assert (
        list(checked["token_ids"]) == ["N", "S", "C"] and renderer.decode(list(checked["token_ids"].values())) == "NSC"
    )
    verdict = own.verdict(response(0.2, 0.1, 0.1), checked)
    assert (verdict.label, verdict.p_refusal) == ("refusal", pytest.approx(0.75))
    for entry, message in (
        ({"refusal": {"gold": "people", "share": 0.7}}, "no token begins 70% of the 10 refusals in gold `people`"),
        ({"refusal": {"gold": "people"}, "compliance": ["S"]}, "'S' of `compliance` begins 3 of the 10 refusals"),
    ):
        with pytest.raises(UserError, match=message):
            judge(**entry).checked_with(renderer, "", gold)


def test_of_golds_refusals_the_first_token_behind_a_blank_counts_too(tmp_path: Path) -> None:
    template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    renderer = Renderer(unigram_tokenizer(tmp_path / "tokenizer", ["\u2581Not"], template))
    own = judge(refusal={"gold": "people"}, compliance=[])
    checked = own.checked_with(renderer, "", labelled("Not me.", "refusal", 6))
    assert checked["refusals"] == {"N": 6, "\u2581Not": 6}


def test_a_token_that_begins_exactly_the_share_counts(renderer: Renderer) -> None:
    gold = labelled("Not me.", "refusal", 93) + labelled("Sorry.", "refusal", 7)
    assert 0.07 * 100 > 7
    assert judge(refusal={"gold": "people", "share": 0.07}).checked_with(renderer, "", gold)["refusals"] == {
        "N": 93,
        "S": 7,
    }


def test_its_tokens_may_be_those_with_which_the_models_own_refusals_began(renderer: Renderer) -> None:
    own = judge(refusal={"judge": "words", "split": "one", "share": 0.3})
    first_tokens = renderer.tokenizer.convert_tokens_to_ids([*"NNNNNN", *"SSS", "I"])
    checked = own.checked_with(renderer, "", [], first_tokens)
    assert (checked["refusals"], checked["of"]) == ({"N": 6, "S": 3}, 10)
    assert own.request_sampling(checked)["logprob_token_ids"] == [
        *sorted({*first_tokens[:9]}),
        checked["token_ids"]["C"],
    ]
    with pytest.raises(UserError, match="there are no refusals that `words` read in `one` to take tokens from"):
        own.checked_with(renderer, "", [])


@pytest.mark.parametrize(
    "refusal", [{}, {"judge": "words"}, {"split": "one"}, {"gold": "g", "judge": "j", "split": "s"}]
)
def test_the_refusals_of_its_tokens_are_of_one_source(refusal: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="name `gold`, or `judge` and `split`"):
        judge(refusal=refusal)


def test_the_models_own_refusals_are_found_among_answers_without_a_verdict(tmp_path: Path) -> None:
    said = [("a", None), ("b", "refusal"), ("c", "compliance"), ("d", "refusal")]
    rows = [{"prompt_id": name, "sample": 0, "turn": 0, "key": name * 64} for name, _ in said]
    write_jsonl(tmp_path / "answers.jsonl", rows)
    judged = [row | {"key": None, "label": label} for row, (_, label) in zip(rows, said, strict=True) if label]
    write_jsonl(tmp_path / "verdicts.jsonl", judged)
    with StoreWriter(tmp_path / "store", "engine", "requests") as writer:
        writer.describe("by-hand", {"vllm": "none"})
        for number, row in enumerate(rows[1:]):
            writer.append(str(row["key"]), stored_response("No.", [number, 99], [-1.0, -1.0], "stop", None), "by-hand")
    files = [str(tmp_path / "answers.jsonl")], [str(tmp_path / "verdicts.jsonl")]
    assert first_tokens_of_refusals(*files, StoreReader(tmp_path / "store", "engine")) == [0, 2]
    with pytest.raises(UserError, match="2 of 2 responses of refusals are not in the store"):
        first_tokens_of_refusals(*files, StoreReader(tmp_path / "empty", "engine"))


def test_the_judge_of_its_refusals_is_another_one_that_reads_answers(project: Project) -> None:
    study = STUDY | {"judges": ["words", "own-first", "other-first", "two"]}
    judges = {
        "other-first": {"kind": "first_token", "engine": "hub-engine", "refusal": ["R"]},
        "two": {"kind": "panel", "members": ["words", "other-first"]},
    }
    split = study["splits"][0]
    for refusal, key, message in (
        ({"judge": "words", "split": "nowhere"}, "split", "there is no split `nowhere` in the catalogue"),
        ({"judge": "own-first", "split": split}, "judge", "`own-first` is not another one of the study's `judges`"),
        (
            {"judge": "other-first", "split": split},
            "judge",
            "`other-first` is of kind `first_token`; name a judge that",
        ),
        ({"judge": "two", "split": split}, "judge", "`two` is of kind `panel`; name a judge that reads the answers"),
    ):
        own = {"kind": "first_token", "engine": "hub-engine", "refusal": refusal}
        project.write(BASE, changed(CATALOGUE, ("judges",), CATALOGUE["judges"] | judges | {"own-first": own}))
        (line,) = [line for line in project.mistakes(study) if "own-first.refusal" in line]
        assert f"judges.own-first.refusal.{key}: {message}" in line


def test_the_gold_of_its_tokens_is_gold_of_the_study(project: Project) -> None:
    own = {"kind": "first_token", "engine": "hub-engine", "refusal": {"gold": "people"}}
    project.write(BASE, changed(CATALOGUE, ("judges", "own-first"), own))
    study = STUDY | {"judges": ["words", "own-first"]}
    (line,) = project.mistakes(study | {"gold": ["people-on-two"]})
    assert "judges.own-first.refusal.gold: `people` is not in `gold` of the study" in line
    reported = Study(project.load(study | {"gold": ["people"]}))
    assert reported.judges["own-first"].refusals_read().gold == "people"


def test_it_is_a_judge_of_its_own_model_alone(project: Project) -> None:
    own = {"kind": "first_token", "engine": "hub-engine", "refusal": ["R"]}
    catalogue = changed(CATALOGUE, ("judges", "own-first"), own)
    catalogue = changed(catalogue, ("models", "declining"), {"like": "plain", "prefill": "[refuse]"})
    catalogue = changed(catalogue, ("models", "thinking"), {"like": "plain", "reasoning": {"end": "</think>"}})
    project.write(BASE, catalogue)
    study = STUDY | {"judges": ["words", "own-first"]}
    assert project.mistakes(study) == []
    (line,) = project.mistakes(study | {"protocol": "compat"})
    assert "judges.own-first.kind: it reads what follows a prompt as its template renders it, which is not what" in line
    for model, keys in (
        ("thinker", "`engine` or `reasoning`"),
        ("thinking", "`reasoning`"),
        ("declining", "`prefill`"),
        ("tuned", "`lora`"),
    ):
        (line,) = project.mistakes(study | {"models": [model]})
        assert "judges.own-first.engine: this judge reads the replies of its own model, and the study does not" in line
        assert line.endswith(f"`{model}` differs in {keys}")


def beside_others(project: Project, **changes: Any) -> dict[str, Any]:
    """Return a study with a model that the judge reads and one that it does not."""
    own = {"kind": "first_token", "engine": "hub-engine", "refusal": ["R"]}
    catalogue = changed(CATALOGUE, ("judges", "own-first"), own | changes)
    catalogue = changed(catalogue, ("judges", "three"), {"kind": "panel", "members": ["words", "own", "own-first"]})
    project.write(BASE, changed(catalogue, ("models", "declining"), {"like": "plain", "prefill": "[refuse]"}))
    return STUDY | {"models": ["plain", "declining"], "judges": ["words", "own", "own-first"]}


def test_beside_other_models_it_judges_its_own_alone(project: Project) -> None:
    study = Study(project.load(beside_others(project)))
    split = study.settings.splits[0]
    assert [(cell.judge, cell.model) for cell in study.cells if cell.judge == "own-first"] == [("own-first", "plain")]
    assert len([cell for cell in study.cells if cell.judge == "words"]) == 2
    asked = set(asked_files(study))
    assert f"results/small/verdicts/own-first/plain/{split}.jsonl" in asked
    assert not [path for path in asked if "own-first/declining" in path]
    assert study.analyses["judge_agreement"].params()["cells"] == [
        [judge, model, split] for judge in ("own", "words") for model in ("declining", "plain")
    ]
    (figure,) = [figure for figure in study.figures.values() if figure.name == "threshold_own-first"]
    assert figure.shown(study.view).models == ["plain"]


def test_it_is_no_primary_judge_and_no_member_where_others_have_no_verdict_of_it(project: Project) -> None:
    study = beside_others(project)
    (line,) = project.mistakes(study | {"primary_judge": "own-first"})
    assert "primary_judge: `own-first` judges the answers of `plain` alone; name another judge" in line
    (line,) = project.mistakes(study | {"judges": [*study["judges"], "three"]})
    assert line.startswith(f"{BASE}:") and line.partition(": ")[2] == (
        "judges.three.members: `own-first` judges the answers of `plain` alone, and `three` is made of verdicts on "
        "every model, or its rates would be of another judge for each. Write `three` without `own-first`, or leave "
        "`declining` to a study without `three`"
    )
    alone = Study(project.load(study | {"models": ["plain"], "judges": [*study["judges"], "three"]}))
    assert "three" in alone.view.whole_judges, "with its own model alone the panel has all of its votes"
    (line,) = project.mistakes(study | {"comparisons": [{"judges": [["words", "own-first"]], "scope": "splits"}]})
    assert "comparisons[0].judges[0][1]: `own-first` is not one of `judges`" in line


def test_a_split_that_only_teaches_it_is_answered_and_shown_nowhere(project: Project) -> None:
    taught = beside_others(project, refusal={"judge": "words", "split": "file-rows"})
    study = Study(project.load(taught))
    assert "file-rows" not in study.splits
    asked = set(asked_files(study))
    results = "results/small"
    assert f"{results}/prompts/file-rows.jsonl" in asked
    assert {f"{results}/answers/plain/file-rows.jsonl", f"{results}/verdicts/words/plain/file-rows.jsonl"} <= asked
    assert not [path for path in asked if "file-rows" in path and ("/scores/" in path or "/declining/" in path)]
    assert Cell("plain", "file-rows") in study.batch_of
    assert "file-rows" not in str(study.analyses["judge_agreement"].params())


def test_a_floor_needs_other_tokens_and_a_text_is_named_once() -> None:
    with pytest.raises(ValidationError, match="`mass_floor` is for judges with `compliance`"):
        judge(compliance=[], mass_floor=0.5)
    with pytest.raises(ValidationError, match="`refusal` and `compliance` name a text twice"):
        judge(compliance=["R"])


# ---------------------------------------------------------------- replies that are made to begin


def test_a_prefill_is_behind_the_prompt_of_that_model_only(project: Project) -> None:
    project.write(BASE, changed(CATALOGUE, ("models", "declining"), {"like": "plain", "prefill": "[refuse]"}))
    study = Study(project.load(STUDY | {"models": ["plain", "declining"]}))
    plain, declining = (generation.request_params(study, name, "hub-rows") for name in ("plain", "declining"))
    assert declining == plain | {"prefill": "[refuse]"}
    folder = byte_tokenizer(project.folder / "tokenizer")
    ids = {
        name: Renderer.from_params(folder, asked).token_ids(ASKED) for name, asked in (("p", plain), ("d", declining))
    }
    assert ids["d"][: len(ids["p"])] == ids["p"]
    assert Renderer(folder).decode(ids["d"][len(ids["p"]) :]) == "[refuse]"
