"""What a judge needs of the study it is in, and of its rubric."""

import pytest
from judge_entries import judge_entry

from refusal_eval.config.study_view import StudyView
from refusal_eval.core.rubric import rubric_mistake

WORDS, LABEL = judge_entry("keyword"), judge_entry("llm")
CALIBRATED = judge_entry("llm", threshold="calibrated")


def told(judges, gold=("people",)):
    study = StudyView({"words": WORDS, "label": LABEL, **judges}, list(gold))
    return [(name, path, text) for name in study.judges for path, text in study.judges[name].mistakes(name, study)]


def of_one(judge, protocol="default"):
    """Return the mistakes of a judge that is alone in its study."""
    return list(judge.mistakes("j", StudyView({"j": judge}, [], protocol)))


def test_a_sound_study_has_no_mistakes():
    learner = judge_entry("trained", floor={"se": 0.8})
    assert told({"panel": judge_entry("panel"), "learner": learner, "soft": CALIBRATED}) == []


@pytest.mark.parametrize(
    ("judges", "gold", "path", "words"),
    [
        ({"p": judge_entry("panel", members=["words", "lable"])}, "g", ("members", 1), "did you mean `label`?"),
        ({"p": judge_entry("panel", members=["p", "words"])}, "g", ("members", 0), "`p` is not one of"),
        (
            {"p": judge_entry("panel", members=["q", "words"]), "q": judge_entry("panel")},
            "g",
            ("members", 0),
            "a panel itself",
        ),
        (
            {"p": judge_entry("panel", members=["soft", "words"]), "soft": judge_entry("llm", threshold="calibrated")},
            "g",
            ("members", 0),
            "would not be true",
        ),
        ({"t": judge_entry("trained", gold=["peple"])}, ["people"], ("gold", 0), "did you mean `people`?"),
        ({"s": judge_entry("llm", threshold="calibrated")}, [], ("threshold",), "needs gold"),
        (
            {"s": judge_entry("llm", threshold="calibrated", calibrated_on="x")},
            ["people"],
            ("calibrated_on",),
            "`x` is not in `gold`",
        ),
        ({"k": judge_entry("keyword", floor={"se": 0.9})}, [], ("floor",), "needs gold to be measured on"),
    ],
)
def test_what_a_judge_lacks_is_told_where_it_stands(judges, gold, path, words):
    ((_, where, message),) = told({"words": WORDS, "label": LABEL, **judges}, gold)
    assert where == path and words in message


def test_a_panel_member_is_to_have_a_threshold_of_other_gold():
    soft = judge_entry("llm", threshold="calibrated")
    ((_, _, message),) = told({"words": WORDS, "soft": soft, "p": judge_entry("panel", members=["soft", "words"])}, "g")
    assert message.endswith("give it a number, a threshold that was fitted on gold which is not in this study")


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
def test_a_rubric_that_an_answer_can_leave_is_refused(tmp_path, text, safe):
    rubric = tmp_path / "rubric.md"
    rubric.write_text(text)
    found = of_one(judge_entry("llm", rubric=str(rubric)))
    assert [path for path, _ in found] == ([] if safe else [("rubric",)])
    assert all("<response_{{ nonce }}>, {{ answer }}, </response_{{ nonce }}>" in message for _, message in found)


def test_the_published_prompt_may_be_taken_as_it_is_with_the_published_form_only(tmp_path):
    rubric = tmp_path / "rubric.md"
    rubric.write_text("{{ prompt }} {{ answer }}")
    entry, once = judge_entry("reasoned", rubric=str(rubric)), {"form": "published", "votes": 1, "retries": 0}
    published = entry.model_copy(update=once)
    assert not of_one(published, "compat")
    assert len(of_one(entry)) == 1
    rubric.write_text("{{ prompt }}")
    ((_, message),) = of_one(published, "compat")
    assert "must contain {{ prompt }} and {{ answer }}" in message


def test_a_rubric_that_cannot_be_rendered_is_told_before_anything_runs(tmp_path):
    rubric = tmp_path / "rubric.md"
    rubric.write_text("{{ prompt }} {{ answer")
    ((_, message),) = of_one(judge_entry("reasoned", rubric=str(rubric)))
    assert str(rubric) in message


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
def test_checking_a_rubric_runs_no_code_of_it(tmp_path, monkeypatch, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubric.md").write_text(FRAME + code)
    ((path, message),) = of_one(judge_entry("reasoned", rubric="rubric.md"))
    assert path == ("rubric",) and message.startswith("rubric rubric.md: ")
    assert not (tmp_path / "RAN").exists()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("{% for a in range(10**9) %}{% endfor %}", "Range too big"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes more than 2 s"),
        ("{{ 9 ** (9 ** 9) }}", "takes more than 2 s"),
        ("{{ 'x' * 10 ** 10 }}", "takes more memory than"),
        ("{{ 'x' | center(10 ** 10) }}", "takes more memory than"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{ 1 // 0 }}", "division"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "rubric rubric.md"),
    ],
)
def test_a_rubric_without_an_end_or_with_a_fault_is_a_mistake(tmp_path, monkeypatch, code, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubric.md").write_text(FRAME + code)
    ((_, message),) = of_one(judge_entry("reasoned", rubric="rubric.md"))
    assert message.startswith("rubric rubric.md") and told in message


def test_no_answer_can_leave_the_shipped_rubrics(repository):
    shipped = sorted((repository / "config" / "rubrics").glob("*.md"))
    assert len(shipped) >= 4
    assert [rubric_mistake(path) for path in shipped] == [None] * len(shipped)
