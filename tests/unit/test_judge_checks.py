"""What a judge needs of the study it is in, and of its rubric."""

import pytest
from judge_entries import judge_entry

from refusal_eval.config.study_view import StudyView
from refusal_eval.core.rubric import rubric_mistake

WORDS, LABEL = judge_entry("keyword"), judge_entry("llm")
CALIBRATED = judge_entry("llm", threshold="calibrated")


SECONDS = {"more": judge_entry("reasoned")}


def reported(judges, gold=("people",), seconds=SECONDS):
    study = StudyView({"words": WORDS, "label": LABEL, **judges}, list(gold), seconds=seconds)
    return [(name, path, text) for name in study.judges for path, text in study.judges[name].mistakes(name, study)]


def of_one(judge, protocol="default"):
    """Return the mistakes of a judge that is alone in its study."""
    return list(judge.mistakes("j", StudyView({"j": judge}, [], protocol)))


@pytest.fixture
def rubric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "rubric.md"


def test_a_sound_study_has_no_mistakes():
    learner = judge_entry("trained", floor={"se": 0.8})
    cascades = {"c": judge_entry("cascade"), "d": judge_entry("cascade", first="learner")}
    assert reported({"panel": judge_entry("panel"), "learner": learner, "soft": CALIBRATED, **cascades}) == []


SOFT = {"soft": CALIBRATED}
ELSEWHERE = CALIBRATED.model_copy(update={"calibrated_on": "x"})


def panel(*members):
    return judge_entry("panel", members=list(members))


@pytest.mark.parametrize(
    ("judges", "gold", "path", "words"),
    [
        ({"p": panel("words", "lable")}, "g", ("members", 1), "did you mean `label`?"),
        ({"p": panel("p", "words")}, "g", ("members", 0), "`p` is not one of"),
        ({"p": panel("q", "words"), "q": judge_entry("panel")}, "g", ("members", 0), "a panel itself"),
        (SOFT | {"p": panel("soft", "words")}, "g", ("members", 0), "with it would not be true; give it a number, a "),
        (SOFT | {"p": panel("soft", "words")}, "g", ("members", 0), "fitted on gold which is not in this study"),
        ({"t": judge_entry("trained", gold=["peple"])}, ["people"], ("gold", 0), "did you mean `people`?"),
        (SOFT, [], ("threshold",), "needs gold"),
        ({"s": ELSEWHERE}, ["people"], ("calibrated_on",), "`x` is not in `gold`"),
        ({"k": judge_entry("keyword", floor={"se": 0.9})}, [], ("floor",), "needs gold to be measured on"),
    ],
)
def test_what_a_judge_lacks_is_reported_where_it_stands(judges, gold, path, words):
    ((_, where, message),) = reported(judges, gold)
    assert where == path and words in message


@pytest.mark.parametrize(
    ("fields", "second", "path", "words"),
    [
        ({"first": "lable"}, "reasoned", "first", "did you mean `label`?"),
        ({"first": "words"}, "reasoned", "first", "no probability of refusal; name a judge of kind `llm`, "),
        ({"first": "both"}, "reasoned", "first", "kind `panel` and reads other judges; name one of those"),
        ({"first": "soft"}, "reasoned", "first", "give `threshold: calibrated` to the cascade itself"),
        ({}, "keyword", "then", "name a judge that asks an engine itself"),
        ({}, "cascade", "then", "name a judge that asks an engine itself"),
        ({}, "trained", "then", "such a judge can be `first`"),
        ({"threshold": "calibrated"}, "reasoned", "threshold", "needs probabilities of both judges"),
    ],
)
def test_what_is_wrong_with_a_cascade_is_reported_where_it_stands(fields, second, path, words):
    judges = SOFT | {"both": judge_entry("panel"), "c": judge_entry("cascade", **fields)}
    ((_, where, message),) = reported(judges, seconds={"more": judge_entry(second)})
    assert where == (path,) and words in message


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"then": "label"}, "must be two judges"), ({"unsure": [0.8, 0.2]}, "goes from low to high, not from 0.8 to 0.2")],
)
def test_a_cascade_has_two_judges_and_an_interval(fields, words):
    with pytest.raises(ValueError, match=words):
        judge_entry("cascade", **fields)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("<r_{{ nonce }}>{{ answer }}</r_{{ nonce }}> {{ prompt }}", True),
        ("<a_{{ nonce }}>{{ prompt }} {{ answer }}</a_{{ nonce }}>", True),
        ("{{ prompt }} <response>{{ answer }}</response>", False),
        ("<q_{{ prompt_nonce }}>{{ prompt }}</q_{{ prompt_nonce }}> {{ answer }}", False),
        ("<r_{{ nonce }}>{{ prompt }} {{ answer }}</r>", False),
        ("{{ prompt }} {{ answer }} <r_{{ nonce }}></r_{{ nonce }}>", False),
        ("<r_{{ nonce }}>{{ answer }}</r_{{ nonce }}> {{ prompt }} Again: {{ answer }}", False),
    ],
)
def test_a_rubric_that_an_answer_can_leave_is_refused(rubric, text, safe):
    rubric.write_text(text)
    found = of_one(judge_entry("llm", rubric=str(rubric)))
    assert [path for path, _ in found] == ([] if safe else [("rubric",)])
    assert all("<response_{{ nonce }}>, {{ answer }}, </response_{{ nonce }}>" in message for _, message in found)


def test_the_published_prompt_may_be_taken_as_it_is_with_the_published_form_only(rubric):
    rubric.write_text("{{ prompt }} {{ answer }}")
    entry, once = judge_entry("reasoned", rubric=str(rubric)), {"form": "published", "votes": 1, "retries": 0}
    published = entry.model_copy(update=once)
    assert not of_one(published, "compat")
    assert len(of_one(entry)) == 1
    for lacking in ("{{ prompt }}", "{{ answer }}"):
        rubric.write_text(lacking)
        ((_, message),) = of_one(published, "compat")
        assert "must contain {{ prompt }} and {{ answer }}" in message


FRAME = "<r_{{ nonce }}>{{ prompt }} {{ answer }}</r_{{ nonce }}> "


@pytest.mark.parametrize(
    "code",
    [
        "{{ cycler.__init__.__globals__.os.popen('touch RAN').read() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ answer.__class__ }}",
        "{% include 'other.md' %}",
    ],
)
def test_checking_a_rubric_runs_no_code_of_it(rubric, code):
    rubric.write_text(FRAME + code)
    ((path, message),) = of_one(judge_entry("reasoned", rubric="rubric.md"))
    assert path == ("rubric",) and message.startswith("rubric rubric.md: ")
    assert not rubric.with_name("RAN").exists()


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        ("{% for a in range(10**9) %}{% endfor %}", "Range too big"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes more than 2 s"),
        ("{{ 9 ** (9 ** 9) }}", "takes more than 2 s"),
        ("{{ 'x' * 10 ** 10 }}", "takes more memory than"),
        ("{{ 'x' | center(10 ** 10) }}", "takes more memory than"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{ 1 // 0 }}", "division"),
        ("{{ oops }}", "oops"),
        ("{{ prompt }} {{ answer", "rubric rubric.md"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "rubric rubric.md"),
    ],
)
def test_a_rubric_without_an_end_or_with_a_fault_is_a_mistake(rubric, code, reported):
    rubric.write_text(FRAME + code)
    ((_, message),) = of_one(judge_entry("reasoned", rubric="rubric.md"))
    assert message.startswith("rubric rubric.md") and reported in message


def test_no_answer_can_leave_the_shipped_rubrics(repository):
    shipped = sorted((repository / "config" / "rubrics").glob("*.md"))
    assert len(shipped) >= 4
    assert [rubric_mistake(path) for path in shipped] == [None] * len(shipped)
